"""TapVerbs: taps are opened, read and closed on all nodes: where messages are published and delivered, anywhere.

Each node keeps what it has seen; whoever reads says behind which event of each it goes on. A tap that is not read any
more ends by itself on each node, so nothing is left behind by one that has lost its reader, or a link.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from amqp_broker.connection.connection import connections_of
from amqp_broker.management.definitions.arguments import read_arguments, table_as_json
from amqp_broker.management.refused import BAD_REQUEST, Refused, not_found
from amqp_broker.protocol.errors import MalformedInput
from amqp_broker.protocol.json_values import JsonObject, field_as_json
from amqp_broker.protocol.properties import PROPERTY_NAMES, decode_properties
from amqp_broker.routing.taps import TAIL, TRACE, Tap, TapEvent, TapFilter
from amqp_broker.turn.task import Steps, Task
from queues.message import Address

if TYPE_CHECKING:
    from amqp_broker.management.node_counts import NodeCounts
    from amqp_broker.management.peer_questions import PeerQuestions
    from amqp_broker.management.request import Request

#: A tail is read all the time, or nobody looks any more; a trace may be read at the end. Milliseconds.
TAIL_IDLE_MS: Final = 10_000
#: So long a trace goes on at most, and unless something else is asked for. Seconds.
MOST_SECONDS: Final = 24 * 3600
_SECONDS: Final = 600
#: So many events are in one answer of a node; so many are described in one slice.
MOST_EVENTS: Final = 500
_SLICE: Final = 16
#: So many connections are told in one slice that they are observed.
_CONNECTIONS: Final = 16


class TapVerbs:
    """See the module's docstring."""

    def __init__(self, counts: NodeCounts, peers: PeerQuestions) -> None:
        self._config = counts.config
        self._connections = counts.clients.connections
        self._taps = counts.broker.taps
        self._tap_of = self._taps.all
        self._vhosts = counts.broker.vhosts
        self._clock = counts.broker.clock
        self._background = counts.broker.background
        self._random_bytes = counts.broker.random_bytes
        self._peers = peers
        self._taps.when_changed(self._changed)
        peers.serve({"tap.open": self._serve_open, "tap.read": self._serve_read, "tap.close": self._serve_close})
        self.verbs: dict[str, Callable[[Request], Steps]] = {
            "tap.open": self._open,
            "tap.read": self._read,
            "tap.close": self._close,
            "tap.list": self._list,
        }

    # -- opening and closing -------------------------------------------------------------------------------------------

    def _open(self, request: Request) -> Steps:
        """kind: trace or tail. Its filter: `exchange`, `routing_key` (a pattern), `queue`, `message_id`,
        `correlation_id`, `headers`; `seconds`: when it ends at the latest."""
        tap_id = self._random_bytes(8).hex()
        fields = {**request.fields, "id": tap_id}
        tap = self._make(request, tap_id)
        if not self._has_room():
            raise Refused(BAD_REQUEST, f"{len(self._tap_of)} taps are open (max_taps); close one, see tap.list")
        self._taps.open(tap, self._clock.now)
        answers = yield from self._peers.ask_all(self._peers.others(), "tap.open", fields, request.asker)
        missing = [name for name, answer in answers.items() if answer is None or not answer.fields["is_open"]]
        return {"id": tap_id, "until": tap.until, "stale": missing}

    def _serve_open(self, request: Request) -> Steps:
        has_room = self._has_room()
        if has_room:
            self._taps.open(self._make(request, request.text("id")), self._clock.now)
        return {"is_open": has_room}, ""
        yield

    def _has_room(self) -> bool:
        return len(self._tap_of) < self._config.max_taps

    def _make(self, request: Request, tap_id: str) -> Tap:
        """Raises ValueError, Refused."""
        kind, vhost = request.text("kind"), request.text("vhost")
        if kind not in (TRACE, TAIL):
            raise ValueError(f"field kind has to be {TRACE} or {TAIL}, got {kind[:100]!r}")
        if vhost not in self._vhosts:
            raise not_found("vhost", vhost)
        request.asker.check_vhost(vhost)
        config, is_tail = self._config, kind == TAIL
        seconds = request.number("seconds", MOST_SECONDS if is_tail else _SECONDS, 1, MOST_SECONDS)
        per_second = config.tail_messages_per_second if is_tail else config.trace_events_per_second
        kept = 2 * per_second if is_tail else config.trace_events_kept
        until = self._clock.now + 1000 * seconds
        idle_ms = TAIL_IDLE_MS if is_tail else 1000 * MOST_SECONDS
        return Tap(tap_id, kind, vhost, _filter_of(request), per_second, kept, until, idle_ms)

    def _close(self, request: Request) -> Steps:
        tap_id = request.text("id")
        was_here = self._taps.close(tap_id) is not None
        answers = yield from self._peers.ask_all(self._peers.others(), "tap.close", {"id": tap_id}, request.asker)
        if not was_here and not any(answer is not None and answer.fields["was_open"] for answer in answers.values()):
            raise not_found("tap", tap_id)
        return {}

    def _serve_close(self, request: Request) -> Steps:
        return {"was_open": self._taps.close(request.text("id")) is not None}, ""
        yield

    def _list(self, request: Request) -> Steps:
        return {"taps": [
            {
                "id": tap.tap_id, "kind": tap.kind, "vhost": tap.vhost, "until": tap.until, "events": tap.next_number,
                **{name: value for name, value in tap.wanted._asdict().items() if value and name != "headers"},
                "headers": table_as_json(tap.wanted.headers),
            }
            for tap in self._tap_of.values()
        ]}  # fmt: skip
        yield

    def _changed(self, vhost: str) -> None:
        """The taps of a virtual host are others: its channels are told whether they are observed."""
        Task(self._background, self._tell_channels(vhost))

    def _tell_channels(self, name: str) -> Steps:
        for number, connection in enumerate(connections_of(list(self._connections.values()))):
            vhost = connection.vhost
            if vhost is not None and vhost.name == name:
                for channel in list(connection.channels.values()):
                    channel.set_traced(vhost.is_traced)
            if number % _CONNECTIONS == _CONNECTIONS - 1:
                yield None

    # -- reading -------------------------------------------------------------------------------------------------------

    def _read(self, request: Request) -> Steps:
        """after: by node, the number of the last event that was read. Events of one node are in order, those of several
        nodes by their clocks."""
        tap_id, after = request.text("id"), request.get("after", {})
        limit = request.number("limit", MOST_EVENTS, 1, MOST_EVENTS)
        if not isinstance(after, dict) or not all(isinstance(number, int) for number in after.values()):
            raise ValueError(f"field after has to be what a read gave as next, got {str(after)[:100]!r}")
        own = self._peers.own_node
        asked = {
            name: self._peers.ask(
                name, "tap.read", {"id": tap_id, "after": after.get(name, -1), "limit": limit}, request.asker
            )
            for name in self._peers.others()
        }
        found = {own: (yield from self._own(tap_id, after.get(own, -1), limit))}
        stale = []
        for name, question in asked.items():
            answer = yield question
            if answer is None:
                stale.append(name)
            else:
                found[name] = answer.fields
        if all(said["is_over"] for said in found.values()) and not any(said["events"] for said in found.values()):
            raise not_found("tap", tap_id)
        events = [{"node": name, **event} for name, said in found.items() for event in said["events"]]
        return {
            "events": sorted(events, key=lambda event: event["at"]),
            "next": {**after, **{name: said["last"] for name, said in found.items()}},
            "left_out": sum(said["left_out"] for said in found.values()),
            "unseen": sum(said["unseen"] for said in found.values()),
            "stale": stale,
        }

    def _serve_read(self, request: Request) -> Steps:
        number = request.number("after", None, -1, 1 << 62)
        found = yield from self._own(request.text("id"), number, request.number("limit", None, 1, MOST_EVENTS))
        return found, ""

    def _own(self, tap_id: str, after: int, limit: int) -> Steps:
        """left_out: all that this reader does not get: for want of room in its second, or overwritten."""
        tap = self._tap_of.get(tap_id)
        if tap is None:
            return {"events": [], "last": after, "left_out": 0, "unseen": 0, "is_over": True}
        overwritten = max(0, tap.first_number - after - 1)
        events = []
        for number, event in enumerate(tap.read(after, limit, self._clock.now)):
            events.append(_shown(event))
            if number % _SLICE == _SLICE - 1:
                yield None
        last = events[-1]["number"] if events else max(after, tap.next_number - 1)
        return {
            "events": events, "last": last, "left_out": tap.left_out + overwritten, "unseen": tap.unseen,
            "is_over": False,
        }  # fmt: skip


def _filter_of(request: Request) -> TapFilter:
    """Raises ValueError."""
    names = ("exchange", "routing_key", "queue", "message_id", "correlation_id")
    texts = {name: request.text(name) for name in names if request.get(name, None) is not None}
    headers = request.get("headers", {})
    if not isinstance(headers, dict):
        raise ValueError(f"field headers has to be an object, got {str(headers)[:100]!r}")
    return TapFilter(**texts, headers=read_arguments(headers))


def _shown(event: TapEvent) -> JsonObject:
    address = Address(event.raw)
    found: JsonObject = {
        "number": event.number,
        "at": event.at,
        "what": event.what,
        "exchange": address.exchange,
        "routing_key": address.routing_key,
        "track": event.track,
        "message_id": event.message_id,
        "correlation_id": event.correlation_id,
        "body_size": event.body_size,
        **event.details,
    }
    if event.body is not None:
        found |= _copy(event.properties, event.body)
    return found


def _copy(section: bytes | None, body: bytes) -> JsonObject:
    properties: JsonObject | None = None
    if section is not None:
        try:
            decoded = decode_properties(section)
        except MalformedInput:
            decoded = None
        values = {name: getattr(decoded, name) for name in PROPERTY_NAMES} if decoded is not None else {}
        properties = {name: field_as_json(value) for name, value in values.items() if value is not None}
    try:
        return {"properties": properties, "payload": body.decode("utf-8"), "payload_encoding": "string"}
    except UnicodeDecodeError:
        text = base64.b64encode(body).decode("ascii")
        return {"properties": properties, "payload": text, "payload_encoding": "base64"}

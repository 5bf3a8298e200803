"""Taps: observers of the messages of a virtual host. A trace records what happens to messages, a tail keeps copies.

    publish -> Publisher.hand_over -> Taps.published
    deliver, ack, reject, return -> Channel -> Taps.delivered, Taps.settled
    expiry, limits -> MessageStore.on_drop, DeadLetters -> Taps.dropped, Taps.dead_lettered

A tap is no binding: where messages go, and what is confirmed, is as without it. What it covers takes the long way of a
publish; where nobody looks, it costs nothing by the message.

Invariants:
1. What a tap holds is bounded, whoever reads it how slowly: the oldest makes room.
2. It looks at so many messages a second, and records so many; of the others it counts how many there were.
3. It ends by itself: at its time, or when nobody has read it for a while.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from amqp_broker.messages.facts import MessageFacts
from amqp_broker.octets.checksum import crc32
from amqp_broker.protocol.errors import MalformedInput
from exchanges.bindings import QUEUE, Destination, comparable
from exchanges.topic import TopicExchange
from queues.message import Address, Message

if TYPE_CHECKING:
    from amqp_broker.routing.vhost import VHost
    from amqp_broker.turn.clock import TurnClock
    from queues.queue import Queue
    from queues.reason import Reason
    from queues.store import MessageStore
    from queues.timers import Timer, Timers

TRACE: Final = "trace"
TAIL: Final = "tail"
PUBLISHED, REFUSED, DELIVERED, ACKED, REJECTED = "published", "refused", "delivered", "acked", "rejected"
RETURNED, DROPPED, DEAD_LETTERED = "returned", "dropped", "dead-lettered"

#: A tap looks at so many times as many messages as it may record.
_LOOKS: Final = 20
#: So many names of queues stand in an event; so many octets of a body, and of properties, in a copy.
_MOST_QUEUES: Final = 20
BODY_BYTES: Final = 4096
_PROPERTIES_BYTES: Final = 8192
#: The share of a second is given out in so many parts, so that what is recorded is spread over it.
_PARTS: Final = 10
#: Of one acknowledgement of many so many are looked at.
MOST_SETTLED: Final = 1000
_ANYWHERE: Final = Destination(QUEUE, "")

Details = dict[str, object]


def _nobody(vhost: str) -> None:
    """Nobody is told."""


class TapFilter(NamedTuple):
    """What a tap is about; None and nothing: whatever. routing_key: a pattern, as topic exchanges have them."""

    exchange: str | None = None
    routing_key: str | None = None
    queue: str | None = None
    message_id: str | None = None
    correlation_id: str | None = None
    headers: Mapping[str, object] = {}


class TapEvent(NamedTuple):
    """at: milliseconds since the epoch. raw: as in a Message. properties, body: of a copy, cut; None in a trace."""

    number: int
    at: int
    what: str
    raw: bytes
    track: str
    message_id: str | None
    correlation_id: str | None
    body_size: int
    properties: bytes | None
    body: bytes | None
    details: Details


class Tap:
    """One observer. until: when it ends, idle_ms: or when it was not read for so long; milliseconds. left_out: what
    there was no room for in its second; unseen: what it has not even looked at."""

    def __init__(
        self,
        tap_id: str,
        kind: str,
        vhost: str,
        wanted: TapFilter,
        per_second: int,
        kept: int,
        until: int,
        idle_ms: int,
    ) -> None:
        self.tap_id = tap_id
        self.kind = kind
        self.vhost = vhost
        self.wanted = wanted
        self.until = until
        self.idle_ms = idle_ms
        self.read_at = 0
        self.next_number = 0
        self.left_out = self.unseen = 0
        self._events: deque[TapEvent] = deque(maxlen=kept)
        self._share = max(1, per_second // _PARTS)
        self._part = -1
        self._looks = self._records = 0
        self._pattern: TopicExchange | None = None
        if wanted.routing_key is not None:
            self._pattern = TopicExchange({})
            self._pattern.bind(_ANYWHERE, wanted.routing_key, {})
        self._exchange = None if wanted.exchange is None else _short_string(wanted.exchange)
        self._reads_properties = bool(wanted.message_id or wanted.correlation_id or wanted.headers)

    def offer(self, now: int, what: str, message: Message, facts: MessageFacts | None, details: Details) -> None:
        """Something has happened to a message; details: what, besides, with the names of `queues` it is about."""
        if self._exchange is not None and not message.raw.startswith(self._exchange):
            return
        queues = details.get("queues")
        if self.wanted.queue is not None and (not isinstance(queues, list) or self.wanted.queue not in queues):
            return
        part = now * _PARTS // 1000
        if part != self._part:
            self._part, self._looks, self._records = part, 0, 0
        self._looks += 1
        if self._looks > _LOOKS * self._share:
            self.unseen += 1
            return
        facts = facts or MessageFacts(message)
        try:
            if not self._wants(message, facts):
                return
            names = (facts.properties.message_id, facts.properties.correlation_id)
        except MalformedInput:
            if self._reads_properties:
                return
            names = (None, None)
        if self._records >= self._share:
            self.left_out += 1
            return
        self._records += 1
        self._record(now, what, message, names, details)

    def _wants(self, message: Message, facts: MessageFacts) -> bool:
        if self._pattern is not None and not self._pattern.reached(message.address.routing_key, None):
            return False
        wanted = self.wanted
        if wanted.message_id is not None and facts.properties.message_id != wanted.message_id:
            return False
        if wanted.correlation_id is not None and facts.properties.correlation_id != wanted.correlation_id:
            return False
        return all(
            name in facts.headers and comparable(facts.headers[name]) == comparable(value)
            for name, value in wanted.headers.items()
        )

    def _record(
        self, now: int, what: str, message: Message, names: tuple[str | None, str | None], details: Details
    ) -> None:
        properties = body = None
        if self.kind == TAIL:
            section = message.properties()
            properties = section if len(section) <= _PROPERTIES_BYTES else None
            body = _first_octets(message)
        queues = details.get("queues")
        if isinstance(queues, list) and len(queues) > _MOST_QUEUES:
            details = {**details, "queues": queues[:_MOST_QUEUES], "queue_count": len(queues)}
        number, self.next_number = self.next_number, self.next_number + 1
        track = track_of(message)
        self._events.append(
            TapEvent(number, now, what, message.raw, track, *names, message.body_size, properties, body, details)
        )

    def read(self, after: int, most: int, now: int) -> list[TapEvent]:
        """Events behind this number, the oldest first, so many at most."""
        self.read_at = now
        behind = min(len(self._events), max(0, self.next_number - 1 - after))
        start = len(self._events) - behind
        return list(islice(self._events, start, start + most))

    @property
    def first_number(self) -> int:
        """That of the oldest event that is kept."""
        return self.next_number - len(self._events)


class Taps:
    """Those of one virtual host, and whether any of them follows messages beyond their publish."""

    def __init__(self, taps: list[Tap]) -> None:
        self._taps = taps
        self.follows = any(tap.kind == TRACE for tap in taps)
        exchanges = [tap.wanted.exchange for tap in taps]
        self._exchanges: frozenset[str] | None = (
            None if None in exchanges else frozenset(name for name in exchanges if name is not None)
        )

    def covers(self, exchange: str) -> bool:
        """Whether what is published to it may be of interest."""
        return self._exchanges is None or exchange in self._exchanges

    def published(self, now: int, message: Message, facts: MessageFacts, queues: list[Queue], details: Details) -> None:
        """It is about to go into these queues. details: whose it is."""
        named = {**details, "queues": [queue.name for queue in queues]}
        for tap in self._taps:
            tap.offer(now, PUBLISHED, message, facts, named)

    def happened(self, now: int, what: str, message: Message, details: Details) -> None:
        """Anything else, of which tails are not told."""
        for tap in self._taps:
            if tap.kind == TRACE:
                tap.offer(now, what, message, None, details)

    def dead_lettered(
        self, now: int, queue: Queue, message: Message, reason: Reason, to: Address, queues: list[Queue]
    ) -> None:
        """A queue has given it up, and it is on its way to others."""
        self.happened(now, DEAD_LETTERED, message, {
            "queues": [queue.name], "reason": reason.word, "to_exchange": to.exchange, "to_routing_key": to.routing_key,
            "to_queues": [each.name for each in queues[:_MOST_QUEUES]],
        })  # fmt: skip


class NodeTaps:
    """All taps of a node, by id."""

    def __init__(
        self, vhosts: Mapping[str, VHost], store: MessageStore, timers: Timers, clock: TurnClock
    ) -> None:
        self._vhosts = vhosts
        self._store = store
        self._timers = timers
        self._clock = clock
        self._tell: Callable[[str], None] = _nobody
        self.all: dict[str, Tap] = {}
        self._timer: Timer | None = None

    def when_changed(self, tell: Callable[[str], None]) -> None:
        """Who is to be told of a virtual host whose taps have changed."""
        self._tell = tell

    def open(self, tap: Tap, now: int) -> None:
        """It sees what happens from now on."""
        tap.read_at = now
        self.all[tap.tap_id] = tap
        self._changed(tap)
        if self._timer is None:
            self._timer = self._timers.at(now + 1000, self._look)

    def close(self, tap_id: str) -> Tap | None:
        """It sees nothing any more."""
        tap = self.all.pop(tap_id, None)
        if tap is not None:
            self._changed(tap)
        return tap

    def _look(self, now: int) -> None:
        self._timer = None
        for tap in list(self.all.values()):
            if now >= tap.until or now - tap.read_at >= tap.idle_ms:
                self.close(tap.tap_id)
        if self.all:
            self._timer = self._timers.at(now + 1000, self._look)

    def _changed(self, tap: Tap) -> None:
        vhost = self._vhosts.get(tap.vhost)
        if vhost is not None:
            taps = [each for each in self.all.values() if each.vhost == tap.vhost]
            vhost.set_taps(Taps(taps) if taps else None, tap.wanted.exchange)
        follows = any(each.kind == TRACE for each in self.all.values())
        self._store.watch_drops(self._dropped if follows else None)
        self._tell(tap.vhost)

    def _dropped(self, queue: Queue, message: Message, reason: Reason) -> None:
        vhost = self._vhosts.get(queue.declaration.vhost)
        if vhost is not None and vhost.taps is not None:
            vhost.taps.happened(self._clock.now, DROPPED, message, {"reason": reason.word, "queues": [queue.name]})


def track_of(message: Message) -> str:
    """What is the same of a message wherever it goes, dead letters included: made of when it came and what it says."""
    seen = crc32(message.timestamp.to_bytes(8, "big") + message.body_size.to_bytes(8, "big"))
    return f"{crc32(_first_octets(message), seen):08x}"


def _first_octets(message: Message) -> bytes:
    if message.body is not None:
        return b"".join(message.body[:1])[:BODY_BYTES]
    start = message.header_end + 7
    return message.content[start : start + min(message.body_size, BODY_BYTES)] if message.body_size else b""


def _short_string(name: str) -> bytes:
    octets = name.encode("utf-8", "surrogateescape")
    return bytes([len(octets) & 0xFF]) + octets

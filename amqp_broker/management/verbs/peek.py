"""PeekVerb: the verb `queue.peek`: the messages of a queue for who only looks, ready ones and those somebody holds.

No message is marked, moved, counted or kept from expiring by it, nor is the queue used. Who may read the queue and has
the tag management may look. The node that knows the queue best is asked: its home, or who leads its group.

    question "peek"     -> the answer, made there; the messages as a text
    question "holders"  -> by number of a consumer of that node: whose it is (who_holds.py)

An answer is bounded by messages, by octets of bodies, by how many messages are looked at, and by time; `next` says
where to go on. Invariant: a slice looks at a few messages, and makes the JSON of one.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from heapq import nsmallest
from operator import itemgetter
from typing import TYPE_CHECKING

from amqp_broker.auth.permissions import Action, Permission
from amqp_broker.management.refused import FAILED, NOT_AUTHORISED, Refused, not_found, precondition
from amqp_broker.management.request import Request
from amqp_broker.management.verbs.who_holds import WhoHolds
from amqp_broker.management.written_json import JsonText, encode, list_of
from amqp_broker.protocol.errors import MalformedInput
from amqp_broker.protocol.json_values import JsonObject, properties_as_json
from amqp_broker.protocol.message_filter import BODY_OCTETS, MessageFilter
from amqp_broker.protocol.properties import decode_properties
from amqp_broker.turn.awaited_read import AwaitedRead
from amqp_broker.turn.task import Steps
from queues.message import Address
from queues.peeking import LAST_POSITION, Damaged, Peeked, PeekWish, peeked
from queues.queue import Held, Queue

if TYPE_CHECKING:
    from amqp_broker.management.node_counts import NodeCounts
    from amqp_broker.management.objects.channels import Channels
    from amqp_broker.management.peer_questions import PeerQuestions
    from amqp_broker.queue_types.remote.home import Home

#: Messages of one answer.
MOST_MESSAGES = 100
#: Octets of bodies in one answer, and of one body unless somebody asks for more or less.
MOST_BODY_BYTES = 256 * 1024
BODY_BYTES = 64 * 1024
#: So many messages are looked at for one answer, and for so long, milliseconds: another node waits for it.
_MOST_LOOKED_AT = 10_000
_MOST_MS = 400
#: So many are looked at in one slice, where none of them is shown.
_SLICE = 32
_OLDEST, _NEWEST = "oldest", "newest"
_READY, _UNACKED = "ready", "unacked"


class PeekVerb:
    """home: of the queues of this node that others use."""

    def __init__(self, counts: NodeCounts, peers: PeerQuestions, channels: Channels, home: Home) -> None:
        self._vhosts = counts.broker.vhosts
        self._metadata = counts.broker.metadata
        self._clock = counts.broker.clock
        self._timers = counts.broker.timers
        self._peers = peers
        self._who_holds = WhoHolds(counts, peers, channels, home)
        self.verbs: dict[str, Callable[[Request], Steps]] = {"queue.peek": self._peek}
        peers.serve({"peek": self._serve})

    # -- who is asked --------------------------------------------------------------------------------------------------

    def _peek(self, request: Request) -> Steps:
        wish = _Wish(request)
        queue = self._find(request)
        where = queue.seen_at()
        if where is None:
            raise precondition(f"queue '{queue.name}' has no leader now: ask again when a majority of its nodes is up")
        if not where:
            yield None
            return (yield from self._answer(queue, wish))
        answer = yield self._peers.ask(where, "peek", request.fields, request.asker)
        if answer is None:
            raise Refused(FAILED, f"node '{where}', which has the messages of queue '{queue.name}', does not answer")
        if "refused" in answer.fields:
            code, text = answer.fields["refused"]
            raise Refused(code, text)
        return {**answer.fields, "messages": JsonText(answer.text)}

    def _serve(self, request: Request) -> Steps:
        """Another node asks."""
        try:
            queue = self._find(request)
            if queue.seen_at() != "":
                raise precondition(f"queue '{queue.name}' is just moving to another node: ask again")
            found = yield from self._answer(queue, _Wish(request))
        except Refused as error:
            return {"refused": [error.code, str(error)]}, ""
        text = found.pop("messages")
        return found, str(text)

    def _find(self, request: Request) -> Queue:
        """Raises Refused."""
        vhost, name, asker = request.text("vhost"), request.text("name"), request.asker
        if vhost not in self._vhosts:
            raise not_found("vhost", vhost)
        grant = self._metadata.permission(asker.name, vhost)
        may_read = grant is not None and Permission(grant.configure, grant.write, grant.read).allows(Action.READ, name)
        if not may_read:
            text = f"user '{asker.name}' may not read queue '{name}' in vhost '{vhost}'"
            raise Refused(NOT_AUTHORISED, text, reason="Not_Authorized")
        queue = self._vhosts[vhost].queues.get(name)
        if queue is None:
            raise not_found("queue", name, vhost)
        return queue

    # -- the answer ----------------------------------------------------------------------------------------------------

    def _answer(self, queue: Queue, wish: _Wish) -> Steps:
        steps = self._ready(queue, wish) if wish.state == _READY else self._unacked(queue, wish)
        try:
            rows, following, looked_at = yield from steps
        except Damaged as error:
            raise Refused(FAILED, f"queue '{queue.name}' cannot be read: {error}") from None
        return {
            "messages": list_of(rows),
            "next": following,
            "backwards": wish.is_backwards,
            "looked_at": looked_at,
            "messages_ready": queue.message_count(),
            "messages_unacknowledged": queue.unacked_count(),
            "at": self._clock.now,
            "node": self._peers.own_node,
        }

    def _ready(self, queue: Queue, wish: _Wish) -> Steps:
        """Its result: rows, where to go on (None at the end), and how many were looked at."""
        steps = queue.peek(wish.of_queue())
        if steps is None:
            if which := queue.which_partition():
                raise precondition(f"queue '{queue.name}' has {which}")
            raise precondition(f"queue '{queue.name}' is of a type whose messages cannot be peeked: use basic.get")
        rows: list[JsonText] = []
        looked_at, left, until = 0, MOST_BODY_BYTES, self._clock.now + _MOST_MS
        for found in steps:
            if found is None:
                yield None
                continue
            if not isinstance(found, Peeked):
                yield AwaitedRead(found, self._timers, self._clock)
                continue
            if len(rows) == wish.limit or looked_at == _MOST_LOOKED_AT or left <= 0 or self._clock.now > until:
                return rows, found.position, looked_at
            looked_at += 1
            if wish.takes(found):
                left -= len(found.body)
                rows.append(encode(self._row(found, wish)))
                yield None
            elif looked_at % _SLICE == 0:
                yield None
        return rows, None, looked_at

    def _unacked(self, queue: Queue, wish: _Wish) -> Steps:
        """The same, of those that consumers hold. They are in no order where they are kept, so that the page is what
        comes first of all."""
        holdings = queue.holdings()
        where: Iterator[Held | None] = self._who_holds.on_channels(queue) if holdings is None else holdings
        found: list[tuple[int, Held]] = []
        looked_at, has_more = 0, False
        sign = -1 if wish.is_backwards else 1
        for held in where:
            if held is None:
                yield None
                continue
            looked_at += 1
            position = held.delivery.sequence
            if (position - wish.start) * sign >= 0 and (not wish.filter.text or wish.takes(wish.seen(held))):
                found.append((position * sign, held))
                if len(found) > 4 * wish.limit:
                    found = nsmallest(wish.limit, found, key=itemgetter(0))
                    has_more = True
            if looked_at % _SLICE == 0:
                yield None
        chosen = nsmallest(wish.limit, found, key=itemgetter(0))
        has_more = has_more or len(found) > len(chosen)
        whose = yield from self._who_holds.describe(queue, [held for _, held in chosen])
        rows: list[JsonText] = []
        left, following = MOST_BODY_BYTES, None
        for (position, held), holder in zip(chosen, whose, strict=True):
            if left <= 0:
                return rows, position * sign, looked_at
            seen = wish.seen(held)
            left -= len(seen.body)
            held_ms = max(0, self._clock.now - held.since)
            rows.append(encode({**self._row(seen, wish), "holder": holder, "held_ms": held_ms}))
            following = position * sign + sign
            yield None
        return rows, following if has_more else None, looked_at

    def _row(self, found: Peeked, wish: _Wish) -> JsonObject:
        address, now = Address(found.raw), self._clock.now
        try:
            properties = properties_as_json(decode_properties(found.properties))
        except MalformedInput as error:
            properties = {"malformed": str(error)}
        body = found.body[: wish.body_most]
        return {
            "position": found.position,
            "state": wish.state,
            "exchange": address.exchange,
            "routing_key": address.routing_key,
            "redelivered": found.is_redelivered,
            "delivery_count": found.returns,
            "arrived": found.arrived or None,
            "age_ms": max(0, now - found.arrived) if found.arrived else None,
            "expires_in_ms": found.expires_at - now if found.expires_at else None,
            "properties": properties,
            "payload_bytes": found.body_size,
            "payload_encoding": "base64",
            "payload": base64.b64encode(body).decode("ascii"),
        }


class _Wish:
    """What a request asks for. Raises ValueError."""

    def __init__(self, request: Request) -> None:
        begin = request.get("from", _OLDEST)
        self.is_backwards = request.flag("backwards") or begin == _NEWEST
        if begin in (_OLDEST, _NEWEST):
            self.start = LAST_POSITION if begin == _NEWEST else 0
        elif isinstance(begin, str):
            raise ValueError(f"field from has to be {_OLDEST}, {_NEWEST} or a position, got {begin[:100]!r}")
        else:
            self.start = request.number("from", None, 0, LAST_POSITION)
        self.limit = request.number("limit", 10, 1, MOST_MESSAGES)
        self.filter = MessageFilter(request.text("filter", ""))
        self.body_most = request.number("max_body_bytes", BODY_BYTES, 0, MOST_BODY_BYTES)
        self.body_from = request.number("body_from", 0, 0, LAST_POSITION)
        if self.body_from and self.filter.text:
            raise ValueError("field body_from: a filter looks at the begin of bodies; leave out one of the two")
        self.state = request.text("state", _READY)
        if self.state not in (_READY, _UNACKED):
            raise ValueError(f"field state has to be {_READY} or {_UNACKED}, got {self.state[:100]!r}")

    def of_queue(self) -> PeekWish:
        """What the queue is asked for: as much of a body as the filter wants to see."""
        most = max(self.body_most, BODY_OCTETS) if self.filter.text else self.body_most
        return PeekWish(self.start, self.is_backwards, self.body_from, most)

    def seen(self, held: Held) -> Peeked:
        """What is shown of a message that somebody holds."""
        return peeked(held.delivery, self.of_queue())

    def takes(self, found: Peeked) -> bool:
        """Whether the filter does."""
        if not self.filter.text:
            return True
        address = Address(found.raw)
        return self.filter.takes(address.exchange, address.routing_key, found.properties, found.body)

"""PeerRequests: requests that another node has to answer: the home of a classic queue, or that of an app.

    request   u8 version 1, u64 number, u64 queue id (0: it is about an app), short string virtual host, short string
              verb, u32 length and fields as JSON, u32 length and blob
    answer    u8 version 1, u64 number, short string content type, u32 length and headers (a table), u32 length and body

A link that is lost takes along what was on it: who waits is told `busy`, as is who asks while there is none, and asks
again; every request may be asked twice.

Invariants:
1. A request is answered once: by the other node, by the end of the link, or when its time is up.
2. What is on its way to one node, answers included as large as they may get, is bounded: the others wait here, and
   when there are too many of them they are told `busy`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from amqp_broker.leases.answer import Answer
from amqp_broker.leases.errors import BUSY, LeaseError
from amqp_broker.links.frame_kinds import FrameKind
from amqp_broker.octets.buffer import Buffer
from amqp_broker.protocol.errors import MalformedInput
from amqp_broker.protocol.fields import Table, decode_table, encode_table
from queues.wire.reader import Malformed, octets_of, open_frame
from raft.errors import PeerProtocolError

if TYPE_CHECKING:
    from amqp_broker.links.tenants import Tenants
    from amqp_broker.protocol.json_values import JsonObject
    from amqp_broker.turn.clock import TurnClock
    from queues.timers import Timer, Timers


_VERSION = 1
#: Octets on their way to one node and back.
_WINDOW_BYTES = 8 * 1024 * 1024
#: So many requests may wait for one node.
_MOST_WAITING = 1000
#: Numbers begin at the time in milliseconds << this: in a new process they are above all earlier ones.
_NUMBER_BITS = 20


class PeerRequest(NamedTuple):
    """What another node is asked. queue_id: 0 where it is about an app."""

    queue_id: int
    vhost: str
    verb: str
    fields: bytes
    blob: bytes


class _Pending:
    """A request that is not answered. cost: octets that it and its answer may take; wait_ms: how long it may wait on
    purpose."""

    def __init__(self, request: PeerRequest, cost: int, wait_ms: int, answer: Answer) -> None:
        self.request = request
        self.cost = cost
        self.wait_ms = wait_ms
        self.answer = answer
        self.timer: Timer | None = None

    def stop_timer(self) -> None:
        """It is answered, or will not be."""
        if self.timer is not None:
            self.timer.cancel()


class _Peer:
    """What is between this node and another one. epoch: rises with every link that is lost."""

    def __init__(self) -> None:
        self.epoch = 0
        self.cost = 0
        self.sent: dict[int, _Pending] = {}
        self.waiting: deque[_Pending] = deque()


class PeerAnswer(Answer):
    """To a request of another node; of no use when the link on which it came is gone."""

    def __init__(self, requests: PeerRequests, node: str, number: int) -> None:
        self._requests = requests
        self._node = node
        self._number = number
        self._epoch = requests.epoch_of(node)

    @property
    def is_wanted(self) -> bool:
        return self._requests.epoch_of(self._node) == self._epoch

    def send(self, content_type: str, body: bytes, headers: JsonObject) -> None:
        """See Answer."""
        if self.is_wanted:
            self._requests.send_answer(self._node, self._number, content_type, body, headers)


class PeerRequests:
    """serve(request, answer): what this node does with a request of another one; it raises nothing."""

    def __init__(
        self,
        tenants: Tenants,
        clock: TurnClock,
        timers: Timers,
        timeout_ms: int,
        serve: Callable[[PeerRequest, Answer], None],
    ) -> None:
        self._linked = tenants.linked
        self._clock = clock
        self._timers = timers
        self._timeout_ms = timeout_ms
        self._serve = serve
        self._peers: dict[str, _Peer] = {}
        self._next_number = 0
        self._send_request = tenants.register(FrameKind.LEASE_REQUEST, self._receive_request)
        self._send_answer = tenants.register(FrameKind.LEASE_ANSWER, self._receive_answer)

    def epoch_of(self, node: str) -> int:
        """Which of the links to a node is the present one."""
        return self._peer(node).epoch

    def _peer(self, node: str) -> _Peer:
        peer = self._peers.get(node)
        if peer is None:
            self._peers[node] = peer = _Peer()
        return peer

    # -- asking --------------------------------------------------------------------------------------------------------

    def ask(self, node: str, request: PeerRequest, answer_bytes: int, wait_ms: int, answer: Answer) -> None:
        """Have another node answer. answer_bytes: how large the answer may get, about; wait_ms: how long it may wait on
        purpose."""
        if node not in self._linked:
            answer.refuse(LeaseError(BUSY, f"{request.verb}: node '{node}', where it lives, cannot be reached now"))
            return
        peer = self._peer(node)
        cost = len(request.fields) + len(request.blob) + answer_bytes
        pending = _Pending(request, cost, wait_ms, answer)
        if peer.sent and peer.cost + cost > _WINDOW_BYTES:
            if len(peer.waiting) >= _MOST_WAITING:
                answer.refuse(LeaseError(BUSY, f"{request.verb}: {_MOST_WAITING} requests wait for node '{node}'"))
            else:
                peer.waiting.append(pending)
            return
        self._send(node, peer, pending)

    def _send(self, node: str, peer: _Peer, pending: _Pending) -> None:
        now = self._clock.now
        number = self._next_number = max(self._next_number + 1, now << _NUMBER_BITS)
        request = pending.request
        buffer = Buffer(len(request.blob) + 1024)
        buffer.put_u8(_VERSION)
        buffer.put_u64(number)
        buffer.put_u64(request.queue_id)
        buffer.put_shortstr(octets_of(request.vhost))
        buffer.put_shortstr(octets_of(request.verb))
        buffer.put_longstr(request.fields)
        buffer.put_longstr(request.blob)
        peer.sent[number] = pending
        peer.cost += pending.cost
        self._send_request(node, buffer.take())
        due = now + self._timeout_ms + pending.wait_ms
        pending.timer = self._timers.at(due, lambda now: self._time_is_up(node, number))

    def _time_is_up(self, node: str, number: int) -> None:
        pending = self._take(node, number)
        if pending is not None:
            text = f"{pending.request.verb}: node '{node}' has not answered within {self._timeout_ms} ms"
            pending.answer.refuse(LeaseError(BUSY, text))

    def _take(self, node: str, number: int) -> _Pending | None:
        """A request is no longer on its way; others may be now."""
        peer = self._peer(node)
        pending = peer.sent.pop(number, None)
        if pending is not None:
            pending.stop_timer()
            peer.cost -= pending.cost
            while peer.waiting and (not peer.sent or peer.cost + peer.waiting[0].cost <= _WINDOW_BYTES):
                self._send(node, peer, peer.waiting.popleft())
        return pending

    def _receive_answer(self, node: str, payload: bytes, now: int) -> None:
        try:
            reader = open_frame(payload, "answer to a lease request", _VERSION)
            number = reader.u64()
            content_type = reader.name()
            headers = decode_table(reader.octets(reader.u32()))
            body = reader.octets(reader.u32())
            reader.finish()
        except (Malformed, MalformedInput) as error:
            raise PeerProtocolError(f"{node}: {error}") from error
        pending = self._take(node, number)
        if pending is not None:
            pending.answer.send(content_type, body, dict(headers))

    def peer_disconnected(self, node: str) -> None:
        """The link to a node is gone, with what was on it."""
        peer = self._peers.get(node)
        if peer is None:
            return
        peer.epoch += 1
        lost = [*peer.sent.values(), *peer.waiting]
        peer.sent.clear()
        peer.waiting.clear()
        peer.cost = 0
        for pending in lost:
            pending.stop_timer()
            text = f"{pending.request.verb}: the link to node '{node}' was lost before it had answered"
            pending.answer.refuse(LeaseError(BUSY, text))

    # -- answering -----------------------------------------------------------------------------------------------------

    def _receive_request(self, node: str, payload: bytes, now: int) -> None:
        try:
            reader = open_frame(payload, "lease request", _VERSION)
            number = reader.u64()
            queue_id = reader.u64()
            vhost, verb = reader.name(), reader.name()
            fields = reader.octets(reader.u32())
            blob = reader.octets(reader.u32())
            reader.finish()
        except Malformed as error:
            raise PeerProtocolError(f"{node}: {error}") from error
        self._serve(PeerRequest(queue_id, vhost, verb, fields, blob), PeerAnswer(self, node, number))

    def send_answer(self, node: str, number: int, content_type: str, body: bytes, headers: JsonObject) -> None:
        """An answer goes to who asked."""
        buffer = Buffer(len(body) + 256)
        buffer.put_u8(_VERSION)
        buffer.put_u64(number)
        buffer.put_shortstr(octets_of(content_type))
        buffer.put_longstr(encode_table(Table(headers)))
        buffer.put_longstr(body)
        self._send_answer(node, buffer.take())

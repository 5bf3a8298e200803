"""Leases: serves the verbs of lease.* and txn.* (docs/leases.md), which any user may ask for by way of `amq.system`;
those of streams go on to stream_reads.py.

    request -> checked -> the queue is here, or a quorum queue: QueueLeases -> durable -> answered
                       -> its home is another node: PeerRequests -> that node does the same -> answered
    synced, applied, time is up -> whoever waited is answered

lease.* wants the permission to read the queue. Nothing that waits here holds a connection: other frames of the client
are served meanwhile, and answers come in any order.

Invariants:
1. Whatever a request says, it is answered, with an error at worst: it never ends a connection.
2. What a request has changed is durable before it is answered.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from amqp_broker.auth.permissions import Action
from amqp_broker.errors import ChannelException
from amqp_broker.leases.answer import Answer, ClientAnswer, Replies, TimelyAnswer
from amqp_broker.leases.apps import Apps
from amqp_broker.leases.blob import BlobWriter, MalformedBlob
from amqp_broker.leases.browse import browse
from amqp_broker.leases.claims import Claim, Claims
from amqp_broker.leases.each_partition import ask_each
from amqp_broker.leases.errors import ACCESS_REFUSED, BUSY, GONE, INVALID, NOT_FOUND, LeaseError
from amqp_broker.leases.expiry import LeaseExpiry
from amqp_broker.leases.fields import MAX_NUMBER, Fields
from amqp_broker.leases.peer_requests import PeerRequest, PeerRequests
from amqp_broker.leases.queue_leases import QueueLeases, giving
from amqp_broker.leases.staging import FindRoute
from amqp_broker.leases.stream_reads import FETCH, OF_EACH_PARTITION, PRODUCER, READS, StreamReads
from amqp_broker.leases.transactions import Transactions
from amqp_broker.protocol.constants import ReplyCode
from amqp_broker.protocol.errors import MalformedInput
from amqp_broker.turn.task import Task
from queues.lease_source import Caller, LeasedAt, LeaseSource
from queues.rule import Rule
from storage.errors import CorruptRecord

if TYPE_CHECKING:
    from amqp_broker.channel.channel import Channel
    from amqp_broker.links.tenants import Tenants
    from amqp_broker.messages.facts import MessageFacts
    from amqp_broker.queue_types.remote.home import Home
    from amqp_broker.vhosts.broker import Broker
    from queues.holder import Holder
    from queues.message import Message
    from queues.queue import Queue
    from storage.journal import Journal


log = logging.getLogger("amqp_broker")

LEASE = "lease."
TXN = "txn."
VERBS = ("lease.open", "lease.claim", "lease.fetch", "lease.ack", "lease.stat", "lease.release", "lease.browse")
#: How long a claim may wait, milliseconds.
MAX_WAIT_MS = 5000
#: Messages of one blob.
MAX_BLOB_MESSAGES = 16_384
#: Octets that an answer without a blob takes at most, about.
_SMALL_ANSWER_BYTES = 4096


class Leases:
    """The service of one node. home: the queues of this node. find_route: see Staging.
    begin: there is something to serve, the first time or not. is_short: memory or disk are short, so that publishers
    have to wait. is_ready: the queues of this node are there."""

    def __init__(
        self,
        broker: Broker,
        journal: Journal,
        tenants: Tenants,
        replies: Replies,
        home: Home,
        find_route: FindRoute,
        begin: Callable[[], None],
        is_short: Callable[[], bool],
        is_ready: Callable[[], bool],
    ) -> None:
        self.config = broker.config
        self.broker = broker
        self.store = broker.store
        self._journal = journal
        self._declarations = broker.declarations
        self._vhosts = broker.vhosts
        self.timers = broker.timers
        self.background = broker.background
        self.random_bytes = broker.random_bytes
        self._clock = broker.clock
        self._replies = replies
        self._home = home
        self._begin = begin
        self.is_short = is_short
        self._is_ready = is_ready
        self.claims = Claims(self)
        self.expiry = LeaseExpiry(self.timers, broker.groups.leased)
        self.peers = PeerRequests(
            tenants, self._clock, self.timers, self.config.command_timeout_ms, self._serve_peer
        )
        self.apps = Apps(self)
        self.transactions = Transactions(self, self.apps, find_route)
        self._stream_reads = StreamReads(broker, self.within_time)
        self.requests = 0
        self._unsynced: deque[tuple[int, Callable[[], None]]] = deque()
        self._synced_position = 0
        self._comes_back = False
        self._verbs: dict[str, Callable[[QueueLeases, Fields, Answer], None]] = {
            "lease.open": self._open,
            "lease.claim": self._claim,
            "lease.fetch": self._fetch,
            "lease.ack": self._ack,
            "lease.stat": self._stat,
            "lease.release": self._release,
        }

    @property
    def now(self) -> int:
        """The time of the turn, milliseconds."""
        return int(self._clock.now)

    def within_time(self, answer: Answer, verb: str, wait_ms: int = 0) -> Answer:
        """For what may never come, because it takes a majority; wait_ms: how long it may wait on purpose."""
        return TimelyAnswer(answer, self.timers, self.now, self.config.command_timeout_ms + wait_ms, verb)

    def start(self, now: int) -> None:
        """The queues of this node are there."""
        for vhost in self._vhosts.values():
            for queue in vhost.queues.all_made():
                self.expiry.watch_all(queue)
        self.expiry.start(now)

    # -- turns ---------------------------------------------------------------------------------------------------------

    @property
    def wants_sync(self) -> bool:
        """Whether somebody waits for the disk."""
        return bool(self._unsynced)

    def holders(self) -> list[Holder]:
        """See Apps."""
        return self.apps.holders()

    @property
    def is_busy(self) -> bool:
        """Whether `work` has something to do at the end of this turn."""
        return self.claims.is_busy or self.apps.is_busy

    def work(self, now: int) -> None:
        """The end of a turn, before what it wrote is closed."""
        self._comes_back = False
        if self.claims.is_busy:
            self.claims.work()
        if self.apps.is_busy:
            self.apps.work()

    def come_back(self) -> None:
        """There is to be a turn soon."""
        self._begin()
        if not self._comes_back:
            self._comes_back = True
            self.timers.at(self.now, lambda now: None)

    def after_sync(self, then: Callable[[], None]) -> None:
        """Call `then` when what is in the journal now is on the disk; at once, if it is."""
        self._begin()
        position = int(self._journal.position)
        if position <= self._synced_position:
            then()
        else:
            self._unsynced.append((position, then))

    def synced(self, position: int) -> None:
        """The journal is on the disk up to there."""
        self._synced_position = position
        while self._unsynced and self._unsynced[0][0] <= position:
            self._unsynced.popleft()[1]()

    def peer_disconnected(self, name: str) -> None:
        """The link to another node is gone."""
        self.peers.peer_disconnected(name)

    # -- requests ------------------------------------------------------------------------------------------------------

    def request(self, channel: Channel, verb: str, message: Message, facts: MessageFacts) -> None:
        """Serve a request of a client."""
        self._begin()
        self.requests += 1
        try:
            answer = ClientAnswer(self._replies, channel, facts)
        except MalformedInput as error:
            log.warning("a request of %s has properties that tell nobody to answer: %s", channel.connection.peer, error)
            return

        def serve() -> None:
            if verb.startswith(TXN):
                self.transactions.request(channel, verb, message, facts, answer)
            elif verb in READS:
                self._read_stream(channel, verb, message.body_bytes(), answer)
            else:
                self._request_lease(channel, verb, message.body_bytes(), answer)

        _serve_safely(serve, verb, answer)

    def _read_stream(self, channel: Channel, verb: str, body: bytes, answer: Answer) -> None:
        fields = Fields.of_json(verb, body)
        name = fields.text("stream")
        may_write = verb == PRODUCER and channel.session.allows(Action.WRITE, name)
        queue = self._find_queue(channel, name, needs_read=not may_write)
        queue.mark_used(self.now)
        if queue.partitions() and verb in OF_EACH_PARTITION:

            def ask(part: Queue, answer: Answer) -> None:
                self._read_one(channel, part, fields, body, answer)

            Task(self.background, ask_each(queue.partitions(), ask, answer))
        else:
            self._read_one(channel, queue, fields, body, answer)

    def _read_one(self, channel: Channel, queue: Queue, fields: Fields, body: bytes, answer: Answer) -> None:
        verb, member = fields.verb, self._stream_reads.member(queue)
        if member is None:
            self._stream_reads.request(channel.connection, queue, fields, answer)
            return
        request = PeerRequest(queue.queue_id, channel.vhost.name, verb, body, b"")
        self.peers.ask(member, request, self._max_bytes(fields) if verb == FETCH else _SMALL_ANSWER_BYTES, 0, answer)

    def _request_lease(self, channel: Channel, verb: str, body: bytes, answer: Answer) -> None:
        if verb not in VERBS:
            raise LeaseError(NOT_FOUND, f"unknown verb '{verb}'; there are {', '.join(VERBS)}")
        fields = Fields.of_json(verb, body)
        queue = self._find_queue(channel, fields.text("queue"))
        queue.mark_used(self.now)
        found = queue.leases()
        if not isinstance(found, LeasedAt):
            self._serve(queue, found, fields, answer)
            return
        answer_bytes = _SMALL_ANSWER_BYTES
        if verb in ("lease.fetch", "lease.browse"):
            answer_bytes = self._max_bytes(fields)
        wait_ms = fields.number("wait_ms", 0, MAX_WAIT_MS, 0)
        request = PeerRequest(queue.queue_id, channel.vhost.name, verb, body, b"")
        self.peers.ask(found.home, request, answer_bytes, wait_ms, answer)

    def _find_queue(self, channel: Channel, name: str, needs_read: bool = True) -> Queue:
        """The queue, if the client may read it. Raises LeaseError."""
        try:
            if needs_read:
                channel.session.check(Action.READ, "queue", name)
            found: Queue = self._declarations.find_queue(channel.declarer, name)
            return found
        except ChannelException as error:
            code = NOT_FOUND if error.reply_code == ReplyCode.NOT_FOUND else ACCESS_REFUSED
            raise LeaseError(code, error.explanation) from None

    def _serve_peer(self, request: PeerRequest, answer: Answer) -> None:
        """A request of another node, which has checked who asks."""
        self._begin()

        def serve() -> None:
            if not self._is_ready():
                raise LeaseError(BUSY, f"{request.verb}: the node where it lives is just starting")
            if not request.queue_id:
                self.transactions.serve(request, answer)
                return
            queue = self._home.find(request.queue_id) or self._in_group(request.queue_id)
            if queue is None:
                # It was deleted, and that is on its way there.
                raise LeaseError(BUSY, f"{request.verb}: the queue's home does not have it now")
            if request.verb in READS:  # each is one of its connection's there
                fields = Fields.of_json(request.verb, request.fields)
                self._stream_reads.request(answer, queue, fields, answer)
                return
            found = queue.leases()
            if isinstance(found, LeasedAt):
                raise LeaseError(BUSY, f"{request.verb}: the queue lives on node '{found.home}' now")
            self._serve(queue, found, Fields.of_json(request.verb, request.fields), answer)

        _serve_safely(serve, request.verb, answer)

    def _in_group(self, queue_id: int) -> Queue | None:
        """A queue of which this node is to have the log, as a guest of its group believes."""
        return cast("Queue | None", self.broker.group_of(queue_id).queues.get(queue_id))

    def _serve(self, queue: Queue, source: LeaseSource | None, fields: Fields, answer: Answer) -> None:
        """A request about a queue whose messages this node has. Raises LeaseError."""
        if source is None:
            why = queue.lacks.get(Rule.LEASES, "its type has none")
            raise LeaseError(INVALID, f"{fields.verb}: queue '{queue.name}' has no lease groups: {why}")
        leases = QueueLeases(self, queue.name, queue.queue_id, source)
        if fields.verb == "lease.browse":
            self._browse(leases, fields, answer)
            return
        handler = self._verbs.get(fields.verb)
        if handler is None:
            raise LeaseError(NOT_FOUND, f"unknown verb '{fields.verb}'; this node knows {', '.join(VERBS)}")
        if source.is_local:
            handler(leases, fields, answer)
            return
        late = self.within_time(answer, fields.verb, fields.number("wait_ms", 0, MAX_WAIT_MS, 0))
        _serve_safely(lambda: handler(leases, fields, late), fields.verb, late)

    # -- verbs ---------------------------------------------------------------------------------------------------------

    def _open(self, leases: QueueLeases, fields: Fields, answer: Answer) -> None:
        leases.open(fields.text("group"), fields.text("owner"), giving(answer))

    def _claim(self, leases: QueueLeases, fields: Fields, answer: Answer) -> None:
        if leases.source.is_exclusive():
            raise LeaseError(ACCESS_REFUSED, f"queue '{leases.name}' has a consumer who has it exclusively")
        wait_ms = fields.number("wait_ms", 0, MAX_WAIT_MS, 0)
        claim = Claim(
            leases,
            _caller(fields),
            fields.number("after", 0, MAX_NUMBER),
            fields.limit("max_messages", self.config.max_claim_messages, self.config.max_claim_messages),
            fields.limit("max_bytes", MAX_NUMBER, MAX_NUMBER),
            self.now + wait_ms if wait_ms else 0,
            answer,
        )
        self.claims.start(claim)

    def _fetch(self, leases: QueueLeases, fields: Fields, answer: Answer) -> None:
        def again(error: LeaseError | None) -> None:
            try:
                if error is not None:
                    raise error
                self._read(leases, fields, answer)
            except LeaseError as found:
                answer.refuse(found)

        try:
            self._read(leases, fields, answer)
        except LeaseError as error:
            # It may have come to another node, and not to this one yet.
            if error.code != GONE or not leases.catch_up(fields.text("group"), fields.text("incarnation"), again):
                raise

    def _read(self, leases: QueueLeases, fields: Fields, answer: Answer) -> None:
        first = fields.number("from", 0, MAX_NUMBER)
        last = fields.number("to", first, MAX_NUMBER)
        writer = BlobWriter(fields.columns(), self._max_bytes(fields), MAX_BLOB_MESSAGES)
        try:
            end = leases.read(fields.text("group"), fields.text("incarnation"), first, last, writer)
        except (CorruptRecord, MalformedBlob, ValueError) as error:
            raise LeaseError(GONE, _damaged(leases.name, error)) from error
        answer.give_blob(writer.take(), {"x-end": end})

    def _max_bytes(self, fields: Fields) -> int:
        most = self.config.max_blob_size_bytes
        return fields.limit("max_bytes", most, most)

    def _ack(self, leases: QueueLeases, fields: Fields, answer: Answer) -> None:
        leases.ack(_caller(fields), fields.number("upto", 0, MAX_NUMBER), giving(answer))

    def _release(self, leases: QueueLeases, fields: Fields, answer: Answer) -> None:
        leases.release(_caller(fields), giving(answer))

    def _stat(self, leases: QueueLeases, fields: Fields, answer: Answer) -> None:
        ready, groups = leases.statistics()
        if fields.has("group"):
            name = fields.text("group")
            groups = [each for each in groups if each["group"] == name]
        answer.give({"ready": ready, "groups": groups})

    def _browse(self, leases: QueueLeases, fields: Fields, answer: Answer) -> None:
        start = fields.number("from_sequence", 0, MAX_NUMBER, 0)
        below = fields.number("below", 0, MAX_NUMBER, MAX_NUMBER)
        writer = BlobWriter(fields.columns(), self._max_bytes(fields), MAX_BLOB_MESSAGES)
        levels, next_sequence = leases.source.ready()
        try:
            found = browse(levels, start, below, writer)
        except (CorruptRecord, MalformedBlob, ValueError) as error:
            raise LeaseError(GONE, _damaged(leases.name, error)) from error
        headers = {"x-end": found.end, "x-more": found.is_more, "x-next-sequence": next_sequence}
        answer.give_blob(writer.take(), headers)


def _serve_safely(serve: Callable[[], None], verb: str, answer: Answer) -> None:
    """Serve a request; one that cannot be served is refused. A defect of ours ends one request, and no more."""
    try:
        serve()
    except LeaseError as error:
        answer.refuse(error)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        log.exception("defect while serving %s", verb)
        answer.refuse(LeaseError(BUSY, f"{verb}: a defect of the broker, which its log tells of"))


def _caller(fields: Fields) -> Caller:
    return Caller(fields.text("group"), fields.text("incarnation"), fields.text("owner"))


def _damaged(queue: str, error: Exception) -> str:
    log.error("queue '%s' cannot be read: %s", queue, error)
    return f"queue '{queue}' cannot be read, its pages are damaged: {error}"

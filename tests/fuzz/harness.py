"""A node that is attacked in process: octets in, octets out, no sockets, a disk in memory and a clock by hand.

Invariants that `Harness` holds after every attack, whatever the octets were:
1. What the broker says are whole frames of methods that exist, and it never says 541 (a defect of ours).
2. A connection keeps no more than one unfinished frame, and says no more than `_REPLY_BYTES_PER_OCTET` for what it got.
3. A well-behaved neighbour gets the answers that it gets from a node which was never attacked, octet for octet.
4. Once everybody has left and every queue is deleted, nothing is held: no connection, channel, delivery or octet.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Iterable, Sequence

from amqp_broker.connection.connection import Connection
from amqp_broker.flow.peer import Peer
from amqp_broker.flow.state import ENDING, OPEN
from amqp_broker.metadata import commands
from amqp_broker.node import Node
from amqp_broker.protocol import constants as c
from amqp_broker.protocol import methods as m
from amqp_broker.protocol.constants import ReplyCode
from amqp_broker.protocol.fields import Table
from amqp_broker.protocol.frames import FrameParser, encode_content, encode_method_frame
from amqp_broker.settings.config import Config
from tests.simulation.simulated_disk import SimulatedDisk

MIB = 1 << 20
CONFIG = Config(
    memory_budget_bytes=4 * MIB,
    disk_free_limit_bytes=0,
    default_user="",
    page_size_bytes=4096,
    queue_head_messages=4,
    max_message_size_bytes=MIB,
    max_tx_size_bytes=MIB,
    max_queues=100,
    login_backoff_ms=0,
)
START = 1_700_000_000_000
PEER = Peer("127.0.0.1", 40000, "127.0.0.1", 5672, is_loopback=True)
#: "guest" as RabbitMQ would store it: a scrypt hash would take a tenth of a second for every node.
_CHEAP_HASH = "rabbit-sha256$c2FsdDRwMuw4kgNZhm0cEYx1m4NAR6BCdplxDdFbnDjbRIKq"

#: The longest answers there are: a channel.close of 300 octets to a method frame of 12, and basic.get of what was sent.
_REPLY_BYTES_PER_OCTET = 64
_REPLY_BYTES = 4096

#: The codes that a client's own faults may bring; 541 is never among them.
SOFT = {311, 312, 313, 403, 404, 405, 406}
HARD = {320, 402, 403, 501, 502, 503, 504, 505, 506, 530, 540}


class Defect(AssertionError):
    """The broker did what it must never do; the text says what."""


class DefectLog(logging.Handler):
    """Remembers what the broker logs of its own defects, to say more than 541 does."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.records: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(logging.Formatter().format(record))


class Side:
    """One client: its connection and everything the broker has said to it."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.sent = 0
        self.said = bytearray()

    def methods(self) -> list[tuple[int, m.Method]]:
        """(channel, method) for every method frame that was said. Raises Defect where it is not AMQP."""
        said = bytes(self.said)
        if said.endswith(c.PROTOCOL_HEADER):
            said = said[: -len(c.PROTOCOL_HEADER)]
        parser = FrameParser(1 << 30)
        try:
            frames = list(parser.receive_data(said))
            called = [frame for frame in frames if frame.type == c.FRAME_METHOD]
            found = [(frame.channel, m.decode_method(frame.payload)) for frame in called]
        except ValueError as error:
            raise Defect(f"the broker said what is not AMQP: {error}") from error
        if unread := len(parser._received):
            raise Defect(f"the broker stopped inside a frame: {unread} octets of it were said")
        return found


class Harness:
    """A node with the turns of the driver: every step ends when nothing is left to write or to sync."""

    def __init__(self) -> None:
        self.now = START
        self.log = DefectLog()
        self._sides: dict[int, Side] = {}
        chance = random.Random(0)
        self.node = Node(CONFIG, SimulatedDisk(random.Random(0)), self.now, chance.randbytes)
        self.node.recover(self.now)
        broker = self.node.broker
        broker.propose(commands.put_user("guest", _CHEAP_HASH, ["administrator"]))
        broker.propose(commands.set_permission("guest", "/", ".*", ".*", ".*"))
        self.settle()

    def open(self) -> Side:
        """A client connects and says nothing yet."""
        connection = self.node.open_connection(PEER, self.now)
        side = Side(connection)
        self._sides[connection.number] = side
        return side

    def feed(self, side: Side, chunks: Iterable[bytes]) -> None:
        """The client sends; after each chunk a turn ends and time passes. The rest is dropped once it is cut off."""
        for chunk in chunks:
            connection = side.connection
            if connection.state >= ENDING:
                return
            side.sent += len(chunk)
            self.now += 1
            self.node.receive_data(connection, chunk, self.now)
            self.settle()

    def leave(self, side: Side) -> None:
        """The client's transport is gone."""
        if self._sides.pop(side.connection.number, None) is not None:
            self.node.connection_lost(side.connection, self.now)
            self.settle()

    def settle(self) -> None:
        """End turns, as the driver does, until there is nothing to write and nothing to sync."""
        for _ in range(1000):
            turn = self.node.end_turn(self.now)
            for connection in turn.dirty:
                said = b"".join(connection.take_output())
                if connection.number in self._sides:
                    self._sides[connection.number].said += said
                self.node.writable(connection, self.now)
                if connection.state == ENDING:  # the client closes when it has heard the last
                    turn.dropped.append(connection)
            for connection in turn.dropped:
                self.node.connection_lost(connection, self.now)
            job = self.node.take_sync() if turn.wants_sync else None
            if job is not None:
                job.run()
                self.node.synced(job, self.now)
            for check in turn.checks:
                check.run()
                self.node.checked(check, self.now)
            if job is None and not turn.dirty and not turn.dropped and not turn.checks:
                return
        raise Defect("the node does not come to rest after 1000 turns")

    def pass_time(self, milliseconds: int) -> None:
        """The clock goes on; what is due happens."""
        end = self.now + milliseconds
        while self.now < end:
            self.now = min(end, self.now + 500)
            self.node.tick(self.now)
            self.settle()

    # -- what must hold ------------------------------------------------------------------------------------------------

    def check(self, side: Side) -> list[int]:
        """Invariants 1 and 2. Returns the reply codes of the closes that were said, in order."""
        if self.log.records:
            raise Defect("a defect was logged:\n" + "\n".join(self.log.records))
        codes = []
        for channel, method in side.methods():
            if isinstance(method, m.ConnectionClose | m.ChannelClose):
                allowed = HARD if isinstance(method, m.ConnectionClose) else SOFT
                if method.reply_code not in allowed or bool(channel) != isinstance(method, m.ChannelClose):
                    raise Defect(f"on channel {channel} the broker said {method}")
                codes.append(method.reply_code)
        connection = side.connection
        if len(connection.pending) > 8 + max(connection.frame_max, CONFIG.initial_frame_max):
            raise Defect(f"{len(connection.pending)} octets wait unhandled; a frame has at most {connection.frame_max}")
        if len(side.said) > _REPLY_BYTES + _REPLY_BYTES_PER_OCTET * side.sent:
            raise Defect(f"{len(side.said)} octets were said for {side.sent}")
        if connection.state == OPEN and any(
            isinstance(method, m.ConnectionClose) for _, method in side.methods()
        ):
            raise Defect("connection.close was said, and the connection is open")
        return codes

    def check_empty(self) -> None:
        """Invariant 4: everybody leaves, every queue and exchange is deleted, nothing is held."""
        for side in list(self._sides.values()):
            self.leave(side)
        self.settle()
        node = self.node
        broker = node.broker
        for vhost in broker.vhosts.values():
            for queue in vhost.queues.all_made():
                if queue.unacked or queue.dispatcher.consumers or queue.declaration.owner is not None:
                    raise Defect(
                        f"queue {queue.name!r} keeps {queue.unacked} deliveries, {len(queue.dispatcher.consumers)} "
                        f"consumers and its owner {queue.declaration.owner} when everybody has left"
                    )
                broker.declarations.remove_queue(vhost, queue)
            if vhost.connections:
                raise Defect(f"vhost {vhost.name!r} counts {vhost.connections} connections when everybody has left")
        self.settle()
        if node.clients.connections or node.clients.pending_handshakes:
            left = [*node.clients.connections, *node.clients.pending_handshakes]
            raise Defect(f"connections are left: {left}")
        delayed = any(vhost.delayed for vhost in broker.vhosts.values())
        if node.store.pager.used and not delayed:
            raise Defect(f"{node.store.pager.used} octets are counted as held with no queue left")


# -- clients -----------------------------------------------------------------------------------------------------------


def handshake(frame_max: int = 131072) -> bytes:
    """What a client says until its connection is open, without waiting for the answers."""
    return c.PROTOCOL_HEADER + b"".join(
        encode_method_frame(0, method)
        for method in (
            m.ConnectionStartOk(
                Table({"capabilities": {"authentication_failure_close": True, "consumer_cancel_notify": True}}),
                "PLAIN",
                b"\0guest\0guest",
                "en_US",
            ),
            m.ConnectionTuneOk(2047, frame_max, 0),
            m.ConnectionOpen("/"),
        )
    )


def on_channel(channel: int, *parts: m.Method | tuple[m.Method, bytes, bytes]) -> bytes:
    """Methods, or (publish, properties, body), as frames."""
    octets = b""
    for part in parts:
        if isinstance(part, tuple):
            octets += encode_method_frame(channel, part[0]) + encode_content(channel, part[1], part[2], 131072)
        else:
            octets += encode_method_frame(channel, part)
    return octets


_PERSISTENT = b"\x10\x00\x02"
_TRANSIENT = b"\x00\x00"


def neighbour_says() -> Sequence[bytes]:
    """A whole little life on queues of its own: declare, publish, confirm, get, consume, ack, delete, leave."""
    queue = "the neighbour's own"
    publish = m.BasicPublish(0, "", queue, True)
    return [
        handshake(),
        on_channel(
            1,
            m.ChannelOpen(),
            m.ConfirmSelect(),
            m.QueueDeclare(queue=queue, durable=True, exclusive=True),
            m.QueueBind(queue=queue, exchange="amq.topic", routing_key="the.neighbour.*"),
        ),
        on_channel(
            1, (publish, _PERSISTENT, b"one"), (publish, _TRANSIENT, b"two"), (publish, _TRANSIENT, b"x" * 20_000)
        ),
        on_channel(1, (m.BasicPublish(0, "amq.topic", "the.neighbour.x"), _TRANSIENT, b"three")),
        on_channel(1, (m.BasicPublish(0, "", "nobody has this queue", True), _TRANSIENT, b"back")),
        on_channel(1, m.BasicGet(0, queue, False), m.BasicAck(1)),
        on_channel(1, m.BasicQos(0, 1, False), m.BasicConsume(queue=queue, consumer_tag="mine")),
        on_channel(1, m.BasicAck(2)),
        on_channel(1, m.BasicAck(3), m.BasicCancel("mine"), m.QueueDelete(queue=queue)),
        on_channel(2, m.ChannelOpen(), m.QueueDeclare(queue="no such queue", passive=True)),
        on_channel(0, m.ConnectionClose(ReplyCode.REPLY_SUCCESS, "bye")),
    ]


_expected_neighbour: list[bytes] = []


def neighbour_answers() -> bytes:
    """What an untouched node says to the neighbour."""
    if not _expected_neighbour:
        harness = Harness()
        _expected_neighbour.append(neighbour_of(harness))
    return _expected_neighbour[0]


def neighbour_of(harness: Harness) -> bytes:
    """What this node says to the neighbour."""
    side = harness.open()
    harness.feed(side, neighbour_says())
    harness.check(side)
    harness.leave(side)
    return bytes(side.said)


def attack(chunks: Sequence[bytes], then_ms: int = 0, has_neighbour: bool = True) -> list[int]:
    """Feed the chunks to a new node as one client, with a neighbour before, meanwhile and afterwards, let time pass,
    and hold every invariant. Returns the codes of the closes. Raises Defect.
    """
    log = logging.getLogger("amqp_broker")
    harness = Harness()
    log.addHandler(harness.log)
    try:
        attacker = harness.open()
        script = neighbour_says() if has_neighbour else []
        neighbour = harness.open()
        middle = len(chunks) // 2
        harness.feed(neighbour, script[:4])
        harness.feed(attacker, chunks[:middle])
        harness.feed(neighbour, script[4:7])
        harness.feed(attacker, chunks[middle:])
        harness.feed(neighbour, script[7:])
        codes = harness.check(attacker)
        if has_neighbour and bytes(neighbour.said) != neighbour_answers():
            raise Defect(f"the neighbour was told {bytes(neighbour.said)!r} instead of {neighbour_answers()!r}")
        if then_ms:
            harness.pass_time(then_ms)
            harness.check(attacker)
        harness.check_empty()
        if harness.log.records:
            raise Defect("a defect was logged:\n" + "\n".join(harness.log.records))
        return codes
    finally:
        log.removeHandler(harness.log)

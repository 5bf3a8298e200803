"""`python -m benchmarks.node_load PATH MESSAGES FOLDER`: a node carries messages, driven without sockets and
clock.

It is what benchmarks.instructions runs under callgrind. A publisher's octets and a consumer's
acknowledgements go straight into the node, its output is thrown away, and every sync is run where it is
taken, so that each run does exactly the same: the same messages in each turn, the same turns in each commit.
It fails unless every message was delivered, confirmed and acknowledged.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from amqp_broker.bench.ring import build_publish
from amqp_broker.bench.scenario import Scenario
from amqp_broker.connection.connection import Connection
from amqp_broker.flow.peer import Peer
from amqp_broker.node import Node
from amqp_broker.protocol import constants, methods
from amqp_broker.protocol.fields import Table
from amqp_broker.protocol.frames import FrameParser, encode_method_frame
from amqp_broker.protocol.methods import Method
from amqp_broker.settings.config import Config
from amqp_broker.turn.sync_job import SyncJob
from storage.disk import FileDisk

CHANNEL = 1
#: Where there are many queues, a sync takes as many turns as bring each of them some messages: its disk is never idle.
SYNC_TURNS = 20
TURN_MESSAGES = 200  # what one read of a busy socket brings, roughly
ACK_EVERY = 100
PREFETCH = 1000
NOW = 1_700_000_000_000  # milliseconds; each turn takes one
QUEUE = "counted"

PATHS = {
    "transient": Scenario(queue=QUEUE),
    "persistent": Scenario(queue=QUEUE, durable=True, persistent=True, size=1024),
    "stream": Scenario(queue=QUEUE, durable=True, persistent=True, queue_type="stream"),
}
#: Those that are counted besides, and compared with nobody's.
ALONE = {
    "streams": Scenario(queue=QUEUE, durable=True, persistent=True, queue_type="stream", queues=500, consumers=0),
}
COUNTED = {**PATHS, **ALONE}


class DrivenNode:
    """A node on a folder, and the turns that its driver would run."""

    def __init__(self, folder: Path) -> None:
        self.now = NOW
        self.disk = FileDisk(folder)
        self.disk.lock()
        self.node = Node(Config(data_dir=folder), self.disk, self.now, bytes)
        self.node.recover(self.now)
        self._job: SyncJob | None = None
        self._turns = 0

    def turn(self) -> None:
        """End a turn, and commit what it wrote before the next."""
        self.now += 1
        while (turn := self.node.end_turn(self.now)).wants_sync or turn.checks:
            job = self.node.take_sync()
            if job is not None:
                job.run()
                self.node.synced(job, self.now)
            for check in turn.checks:
                check.run()
                self.node.checked(check, self.now)
            if job is None and not turn.checks:
                break

    def turn_of_a_busy_disk(self) -> None:
        """End a turn while a sync is under way, which is over after so many turns: what waits for it is next."""
        self.now += 1
        self._turns += 1
        if self._turns % SYNC_TURNS == 0 and self._job is not None:
            self._job.run()
            self.node.synced(self._job, self.now)
            self._job = None
        turn = self.node.end_turn(self.now)
        if turn.wants_sync and self._job is None:
            self._job = self.node.take_sync()
        for check in turn.checks:
            check.run()
            self.node.checked(check, self.now)

    def rest(self) -> None:
        """The sync that is under way ends, and all that waits for it."""
        if self._job is not None:
            self._job.run()
            self.node.synced(self._job, self.now)
            self._job = None
        self.turn()

    def connect(self, *calls: Method) -> Connection:
        """A connection that has shaken hands, opened its channel and made these calls."""
        peer = Peer("127.0.0.1", 40000, "127.0.0.1", 5672, is_loopback=True)
        connection = self.node.open_connection(peer, self.now)
        opening: list[tuple[int, Method]] = [
            (0, methods.ConnectionStartOk(Table(), "PLAIN", b"\0guest\0guest", "en_US")),
            (0, methods.ConnectionTuneOk(2047, constants.DEFAULT_FRAME_MAX, 0)),
            (0, methods.ConnectionOpen(virtual_host="/")),
            (CHANNEL, methods.ChannelOpen()),
        ]
        self.feed(connection, constants.PROTOCOL_HEADER)
        for channel, method in [*opening, *((CHANNEL, call) for call in calls)]:
            self.feed(connection, encode_method_frame(channel, method))
        return connection

    def feed(self, connection: Connection, octets: bytes) -> None:
        """Octets from the client, and the turn that they cause."""
        self.node.receive_data(connection, octets, self.now)
        self.turn()


def replies(connection: Connection) -> Iterator[Method]:
    """The methods among what a connection has to say."""
    for frame in FrameParser().receive_data(b"".join(connection.take_output())):
        if frame.type == constants.FRAME_METHOD:
            yield methods.decode_method(frame.payload)


def carry(scenario: Scenario, messages: int, folder: Path) -> None:
    """Publish, deliver, confirm and acknowledge `messages` messages. Raises RuntimeError when any was not."""
    if not scenario.consumers:
        publish_in_turn(scenario, messages, folder)
        return
    driven = DrivenNode(folder)
    declare = methods.QueueDeclare(queue=QUEUE, durable=scenario.durable, arguments=Table(scenario.declare_arguments))
    producer = driven.connect(declare, methods.ConfirmSelect())
    consumer = driven.connect(
        methods.BasicQos(prefetch_count=PREFETCH), methods.BasicConsume(queue=QUEUE, consumer_tag=QUEUE)
    )
    publishes = TURN_MESSAGES * build_publish(scenario, scenario.routes()[0], constants.DEFAULT_FRAME_MAX, CHANNEL)
    for connection in (producer, consumer):
        connection.take_output()
    for delivered in range(TURN_MESSAGES, messages + 1, TURN_MESSAGES):
        driven.feed(producer, publishes)
        if delivered < messages:
            producer.take_output()
            consumer.take_output()
        for tag in range(delivered - TURN_MESSAGES + ACK_EVERY, delivered + 1, ACK_EVERY):
            ack = methods.BasicAck(delivery_tag=tag, multiple=True)
            driven.node.receive_data(consumer, encode_method_frame(CHANNEL, ack), driven.now)
    kept = messages if scenario.queue_type == "stream" else 0
    check(driven, producer, consumer, messages, kept)


def publish_in_turn(scenario: Scenario, messages: int, folder: Path) -> None:
    """Publish `messages` messages to the queues in turn, and have them confirmed. Raises RuntimeError when any was
    not."""
    driven = DrivenNode(folder)
    arguments = Table(scenario.declare_arguments)
    declares = [
        methods.QueueDeclare(queue=name, durable=scenario.durable, arguments=arguments)
        for name in scenario.queue_names
    ]
    producer = driven.connect(*declares, methods.ConfirmSelect())
    octets = [build_publish(scenario, route, constants.DEFAULT_FRAME_MAX, CHANNEL) for route in scenario.routes()]
    for begin in range(0, messages, TURN_MESSAGES):
        turn = [octets[number % len(octets)] for number in range(begin, begin + TURN_MESSAGES)]
        producer.take_output()
        driven.node.receive_data(producer, b"".join(turn), driven.now)
        driven.turn_of_a_busy_disk()
    driven.rest()
    confirmed = max(
        (reply.delivery_tag for reply in replies(producer) if isinstance(reply, methods.BasicAck)), default=0
    )
    driven.disk.close()
    if confirmed != messages:
        raise RuntimeError(f"of {messages} messages {confirmed} were confirmed")


def check(driven: DrivenNode, producer: Connection, consumer: Connection, messages: int, kept: int) -> None:
    """The last turn's replies speak for all: tags count from the first message on. kept: so many stay."""
    confirmed = max(
        (reply.delivery_tag for reply in replies(producer) if isinstance(reply, methods.BasicAck)), default=0
    )
    said = list(replies(consumer))
    delivered = max((reply.delivery_tag for reply in said if isinstance(reply, methods.BasicDeliver)), default=0)
    driven.feed(consumer, encode_method_frame(CHANNEL, methods.QueueDeclare(queue=QUEUE, passive=True)))
    left = [reply.message_count for reply in replies(consumer) if isinstance(reply, methods.QueueDeclareOk)]
    driven.disk.close()
    if (confirmed, delivered, left) != (messages, messages, [kept]):
        raise RuntimeError(f"of {messages} messages {confirmed} were confirmed, {delivered} delivered; left: {left}")


if __name__ == "__main__":
    carry(COUNTED[sys.argv[1]], int(sys.argv[2]), Path(sys.argv[3]))

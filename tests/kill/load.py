"""What the clients do until the broker is gone: publishers with confirms, workers that settle and publish receipts."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from random import Random
from threading import Thread

from amqp_broker.client.messages import Delivery
from amqp_broker.protocol import methods as m
from tests.kill.broker_process import BrokerProcess
from tests.kill.ledger import Copy, Ledger, body_of
from tests.kill.streams import PRODUCERS, READERS, StreamLedger, declare_streams, run_producer, run_reader
from tests.kill.wire_client import BrokerGone, LoadConnection, Refused

DIRECT = "kill.direct"
FANOUT = "kill.fanout"
RECEIPTS = "kill.receipts"
#: (exchange, routing key) -> the queues behind it; every binding is made from this.
ROUTES: dict[tuple[str, str], tuple[str, ...]] = {
    (DIRECT, "a"): ("kill.direct.a",),
    (DIRECT, "b"): ("kill.direct.b",),
    (FANOUT, ""): ("kill.fan.0", "kill.fan.1"),
    ("", "kill.plain"): ("kill.plain",),
    ("", RECEIPTS): (RECEIPTS,),
}
QUEUES = tuple(queue for queues in ROUTES.values() for queue in queues)

UNCONFIRMED_WINDOW = 300
#: So much a publisher says in one life; a drained machine must not need minutes to look at it.
MESSAGES_PER_LIFE = 1500
IDLE_S = 0.05


@dataclass(frozen=True, slots=True)
class Habits:
    """How a worker works. Chances are of each delivery, drop_chance is of each batch.

    keeps: of so many messages one is held for the whole life; 0: none.
    """

    queues: tuple[str, ...]
    prefetch: int
    requeue_chance: float = 0.03
    reject_chance: float = 0.02
    keeps: int = 0
    drop_chance: float = 0.0
    acks_multiple: bool = False


WORKERS = (
    Habits(("kill.direct.a", "kill.plain"), 60, acks_multiple=True, requeue_chance=0, reject_chance=0),
    Habits(("kill.direct.a",), 20, drop_chance=0.02),
    Habits(("kill.direct.b", "kill.fan.0"), 100),
    # In the end it holds all that it may: its queue grows, and what it holds is spread over pages and segments.
    Habits(("kill.fan.1",), 200, keeps=5),
    Habits((RECEIPTS,), 50, acks_multiple=True, requeue_chance=0, reject_chance=0),
)


def declare(connection: LoadConnection) -> None:
    """Everything durable."""
    connection.call(m.ExchangeDeclare(exchange=DIRECT, type="direct", durable=True), m.ExchangeDeclareOk)
    connection.call(m.ExchangeDeclare(exchange=FANOUT, type="fanout", durable=True), m.ExchangeDeclareOk)
    for (exchange, key), queues in ROUTES.items():
        for queue in queues:
            connection.call(m.QueueDeclare(queue=queue, durable=True), m.QueueDeclareOk)
            if exchange:
                bind = m.QueueBind(queue=queue, exchange=exchange, routing_key=key)
                connection.call(bind, m.QueueBindOk)
    declare_streams(connection)


class Receipts:
    """Publishes on one connection, and knows what each confirm makes certain."""

    def __init__(self, connection: LoadConnection, ledger: Ledger, publisher: int) -> None:
        self.connection = connection
        self.ledger = ledger
        self.publisher = publisher
        self._first = 1
        self._number = 0
        self._waiting: OrderedDict[int, tuple[list[Copy], list[Copy]]] = OrderedDict()

    def __len__(self) -> int:
        """How many publishes are not confirmed."""
        return len(self._waiting)

    def publish(self, route: tuple[str, str], is_persistent: bool = True, settled: list[Copy] | None = None) -> None:
        """Publish the next message; its confirm says that `settled`, sent before it, is settled for certain."""
        self._number += 1
        message = (self.publisher, self._number)
        copies = self.ledger.publishing(message, ROUTES[route], is_persistent)
        tag = self.connection.publish(*route, body_of(message), is_persistent)
        self._waiting[tag] = (copies, settled or [])

    def uncertain(self) -> list[Copy]:
        """What was settled before publishes that are not confirmed yet."""
        return [copy for _, settled in self._waiting.values() for copy in settled]

    def on_confirm(self, confirm: m.BasicAck) -> None:
        taken = []
        if confirm.multiple:
            while self._waiting and next(iter(self._waiting)) <= confirm.delivery_tag:
                taken.append(self._waiting.popitem(last=False)[1])
        else:
            taken.append(self._waiting.pop(confirm.delivery_tag))
        self.ledger.confirmed(copies for copies, _ in taken)
        for _, settled in taken:
            self.ledger.settled(settled)


def run_publisher(connection: LoadConnection, ledger: Ledger, publisher: int, chance: Random) -> None:
    """Publish until the broker is gone."""
    receipts = Receipts(connection, ledger, publisher)
    routes = [route for route in ROUTES if route[1] != RECEIPTS]
    while True:
        if len(receipts) < UNCONFIRMED_WINDOW and connection.published < MESSAGES_PER_LIFE:
            for _ in range(chance.randint(1, 40)):
                receipts.publish(chance.choice(routes), is_persistent=chance.random() < 0.9)
            timeout_s = 0.0
        else:
            timeout_s = IDLE_S
        for event in connection.poll(timeout_s):
            if not isinstance(event, m.BasicAck):
                raise Refused(f"a publisher was sent {event}")
            receipts.on_confirm(event)


class Worker:
    """Consumes, settles, and publishes receipts, until the broker is gone."""

    def __init__(self, process: BrokerProcess, ledger: Ledger, habits: Habits, number: int, chance: Random) -> None:
        self._process = process
        self._ledger = ledger
        self._habits = habits
        self._number = number
        self._chance = chance
        self._connections = 0

    def run(self, connection: LoadConnection) -> None:
        """`connection` is the first; others follow when it is dropped."""
        while True:
            self._connections += 1
            held = self._work(connection)
            # Said before it happens: another consumer may have them the moment the socket is closed.
            self._ledger.requeued(held)
            connection.drop()
            connection = LoadConnection(self._process.host, self._process.port)

    def _work(self, connection: LoadConnection) -> list[Copy]:
        """Work until the connection is to be dropped. Returns what was held then."""
        number = self._number * 1000 + self._connections
        receipts = Receipts(connection, self._ledger, number * 1000 + self._ledger.life)
        connection.call(m.BasicQos(0, self._habits.prefetch), m.BasicQosOk)
        tags = {}
        for queue in self._habits.queues:
            tags[f"{queue}#{number}"] = queue
            connection.send(m.BasicConsume(queue=queue, consumer_tag=f"{queue}#{number}"))
        held: dict[int, Copy] = {}
        while True:
            fresh = 0
            for event in connection.poll(IDLE_S):
                if isinstance(event, m.BasicAck):
                    receipts.on_confirm(event)
                elif isinstance(event, Delivery):
                    queue = tags[event.consumer_tag]
                    copy = self._ledger.delivered(queue, event.body, number, event.redelivered)
                    if copy is not None:
                        held[event.delivery_tag] = copy
                        fresh += 1
            if self._chance.random() < self._habits.drop_chance:
                self._ledger.abandoned(receipts.uncertain())
                return list(held.values())
            if fresh:
                settled = self._settle(connection, held)
                if settled:
                    receipts.publish(("", RECEIPTS), settled=settled)

    def _settle(self, connection: LoadConnection, held: dict[int, Copy]) -> list[Copy]:
        """Settle some of what is held, give some back. Returns what was settled."""
        habits = self._habits
        if habits.acks_multiple:
            count = self._chance.randint(1, len(held))
            tags = list(held)[:count]
            settled = [held.pop(tag) for tag in tags]
            self._ledger.settling(settled)
            connection.send(m.BasicAck(tags[-1], True))
            return settled
        settled = []
        for tag in list(held):
            if habits.keeps and held[tag].message[1] % habits.keeps == 0:
                continue
            copy = held.pop(tag)
            choice = self._chance.random()
            if choice < habits.requeue_chance:
                self._ledger.requeued([copy])
                connection.send(m.BasicNack(tag, False, True))
                continue
            self._ledger.settling([copy])
            settled.append(copy)
            if choice > 1 - habits.reject_chance:
                connection.send(m.BasicReject(tag, False))
            else:
                connection.send(m.BasicAck(tag))
        return settled


class Load:
    """The clients of one life, each in a thread of its own; `join` after the kill."""

    def __init__(
        self, process: BrokerProcess, ledger: Ledger, publishers: int, chance: Random, streams: StreamLedger
    ) -> None:
        self._ledger = ledger
        self._threads: list[Thread] = []
        life = ledger.life
        for number in range(publishers):
            args = (LoadConnection(process.host, process.port), ledger, life * 100 + number, Random(chance.random()))
            self._start(run_publisher, args)
        for number, habits in enumerate(WORKERS, start=1):
            worker = Worker(process, ledger, habits, number, Random(chance.random()))
            self._start(worker.run, (LoadConnection(process.host, process.port),))
        for number in range(PRODUCERS):
            connection = LoadConnection(process.host, process.port)
            self._start(run_producer, (connection, streams, f"producer {number}", Random(chance.random())))
        for queue in READERS:
            connection = LoadConnection(process.host, process.port)
            self._start(run_reader, (connection, streams, queue, Random(chance.random())))

    def _start(self, target: object, args: tuple[object, ...]) -> None:
        thread = Thread(target=self._run, args=(target, args), daemon=True)
        self._threads.append(thread)
        thread.start()

    def _run(self, target: object, args: tuple[object, ...]) -> None:
        try:
            target(*args)  # type: ignore[operator]
        except BrokerGone:
            return
        except Exception as error:  # noqa: BLE001 - whatever a client runs into is a finding, told with its text
            if not (self._ledger.is_ending and isinstance(error, Refused)):
                self._ledger.violated(f"a client failed: {error!r}")

    def join(self) -> None:
        """Wait until all clients have noticed that the broker is gone."""
        for thread in self._threads:
            thread.join(60)
            if thread.is_alive():
                self._ledger.violated("a client did not notice within 60 s that the broker is gone")

"""Streams under kill -9: numbered producers, groups of readers, queues over a stream, one of them with order by key,
partitions, and a stream that is compacted; and what has to be so at every start.

A producer outlives its broker: what was not confirmed goes again, with the number that it had. So in each life

    every message that was confirmed is at exactly one offset, and none is at two;
    an offset that somebody has read has the same message for ever, and the numbers of a producer rise;
    a group, and a queue over the stream, hand out everything at least once: what comes first in a life is not behind
    the lowest message that nobody has acknowledged;
    with order by key, no message comes before all earlier ones of its key were acknowledged;
    who reads a compacted stream from its beginning ends with each key's newest message, or a newer one than is known;
    where that is a tombstone it may be gone, but then with all that was there of its key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from threading import Lock

from amqp_broker.client.messages import Delivery
from amqp_broker.protocol import methods as m
from amqp_broker.protocol.fields import Table
from amqp_broker.protocol.properties import encode_properties
from tests.kill.wire_client import TIMEOUT_S, LoadConnection, Refused
from tests.leases.lease_service import LeaseService

STREAM, OVER, PARTED = "kill.stream", "kill.over", "kill.parted"
PARTITIONS = 3
GROUP = "kill"
#: The queues from which a stream is read, by the name that messages are published to.
LOGS = {STREAM: (STREAM,), PARTED: tuple(f"{PARTED}-{number}" for number in range(PARTITIONS))}
#: Who reads it all with acknowledgements: a group of readers by the name of the stream, a queue by its own.
SHARED = (STREAM, PARTED, OVER)
#: A queue over the first stream with order by key, and a stream that is compacted. Messages for the stream come through
#: an exchange, with their keys.
ORDERED, COMPACTED, BY_KEY = "kill.ordered", "kill.compacted", "kill.by key"
#: Who reads all here; others leave the queue with order out.
READERS = (*SHARED, ORDERED)

#: Of the messages with a key every so many is a tombstone in the stream that is compacted.
_TOMBSTONES = 4
#: What the stream that is compacted is declared with.
BY_NEWEST: dict[str, str | int] = {
    "x-queue-type": "stream", "x-stream-compact": True, "x-stream-key": "header:k",
    "x-stream-tombstone-age": "5s",
}  # fmt: skip

PRODUCERS = 2
_UNCONFIRMED = 200
_A_LIFE = 1000
_IDLE_S = 0.05
_PREFETCH = 100
_KEYS = 7

Message = tuple[str, int]
Place = tuple[str, int]


class StreamLedger:
    """What clients of streams know. All of a stream's log is read at a look: `check_log`. taken: by compaction, at most
    at any look."""

    def __init__(self, violated: Callable[[str], None]) -> None:
        self.violated = violated
        self.confirmed = self.delivered = self.taken = 0
        self._lock = Lock()
        self._next: dict[str, int] = {}
        self._unconfirmed: dict[str, dict[int, str]] = {}  # by producer: numbers, and to which stream
        self._confirmed: dict[str, set[Message]] = {name: set() for name in (*LOGS, COMPACTED)}
        self._at: dict[Place, Message] = {}
        self._ends: dict[str, int] = {}  # of a log: how far somebody has read it
        self._acked: dict[str, dict[str, set[int]]] = {name: {} for name in READERS}  # by log
        self._seen: dict[str, set[Place]] = {name: set() for name in READERS}
        self._of_key: dict[Message, dict[int, None]] = {}  # of the first stream: the offsets of a producer's key
        self._begun: set[tuple[str, str]] = set()  # in this life: who reads, and which log

    # -- producers -----------------------------------------------------------------------------------------------------

    def to_repeat(self, producer: str) -> list[tuple[int, str]]:
        """What a producer has published and nobody has confirmed, in its order."""
        with self._lock:
            return sorted(self._unconfirmed.setdefault(producer, {}).items())

    def publishing(self, producer: str, stream: str) -> int:
        """Returns the number of a new message."""
        with self._lock:
            number = self._next[producer] = self._next.get(producer, 0) + 1
            self._unconfirmed[producer][number] = stream
            return number

    def confirm(self, producer: str, number: int) -> None:
        with self._lock:
            stream = self._unconfirmed[producer].pop(number, None)
            if stream is not None:
                self.confirmed += 1
                self._confirmed[stream].add((producer, number))

    # -- readers -------------------------------------------------------------------------------------------------------

    def read(self, log: str, offset: int, body: bytes) -> Place:
        """A message has come from there."""
        producer, _, number = body.split(b".", 1)[0].decode().partition(":")
        return self._read((log, offset), (producer, int(number)))

    def read_of_key(self, offset: int, headers: Mapping[str, object], body: bytes) -> Place:
        """One of the stream that is compacted, where a tombstone has headers alone."""
        producer, number = str(headers["x-producer-id"]), int(str(headers["x-producer-sequence"]))
        if body.split(b".", 1)[0] != (b"" if is_tombstone(number) else f"{producer}:{number}".encode()):
            self.violated(f"{COMPACTED}: {producer}:{number} at {offset} begins with {body[:20]!r}")
        return self._read((COMPACTED, offset), (producer, number))

    def _read(self, place: Place, message: Message) -> Place:
        log, offset = place
        producer, number = message
        with self._lock:
            self.delivered += 1
            known = self._at.setdefault(place, message)
            if known != message:
                self.violated(f"{log}: offset {offset} had {known} and has {producer}:{number} now")
            if log == STREAM:
                self._of_key.setdefault((producer, number % _KEYS), {})[offset] = None
        return place

    def in_order(self, place: Place) -> None:
        """It was handed out by the queue with order by key: all before it with its key is settled."""
        with self._lock:
            producer, number = self._at[place]
            acked = self._acked[ORDERED].get(STREAM, set())
            early = [each for each in self._of_key[producer, number % _KEYS] if each < place[1] and each not in acked]
            if early:
                self.violated(f"{ORDERED}: {producer}:{number} at {place[1]} comes before {early[:5]} are settled")

    def shared(self, queue: str, place: Place) -> None:
        """It was handed out by a group, or a queue over the stream: where that goes on in a life, all before is
        settled."""
        log, offset = place
        with self._lock:
            acked = self._acked[queue].setdefault(log, set())
            is_first = (queue, log) not in self._begun
            self._begun.add((queue, log))
            if is_first:
                missed = next((each for each in range(offset) if each not in acked), None)
                if missed is not None:
                    self.violated(f"{queue}: goes on at offset {offset} of {log}, and nobody has settled {missed}")
            self._seen[queue].add(place)

    def handed_out(self, queue: str, place: Place) -> None:
        """The same, where there are several who share it, so that one may begin behind what others hold."""
        with self._lock:
            self._seen[queue].add(place)

    def begin_life(self) -> None:
        """The broker starts."""
        self._begun = set()

    def acking(self, queue: str, places: list[Place]) -> None:
        """An acknowledgement of these is about to be sent."""
        with self._lock:
            for log, offset in places:
                self._acked[queue].setdefault(log, set()).add(offset)

    # -- what must be there --------------------------------------------------------------------------------------------

    def check_log(self, stream: str, found: dict[str, list[int]]) -> None:
        """`found`: of each of its logs all offsets, as they came from the first one on."""
        with self._lock:
            there: dict[Message, Place] = {}
            for log, offsets in found.items():
                if offsets != list(range(len(offsets))):
                    self.violated(f"{log}: the offsets are {offsets[:5]} ... {offsets[-5:]}, of {len(offsets)}")
                if len(offsets) < self._ends.get(log, 0):
                    self.violated(f"{log}: {self._ends[log]} messages were there, and {len(offsets)} are")
                self._ends[log] = len(offsets)
                last: dict[str, int] = {}
                for offset in offsets:
                    producer, number = self._at[log, offset]
                    if (producer, number) in there:
                        self.violated(f"{log}: {producer}:{number} is at {offset} and at {there[producer, number]}")
                    elif number <= last.get(producer, 0):
                        self.violated(f"{log}: {producer}:{number} at {offset} is behind {last[producer]}")
                    there[producer, number] = (log, offset)
                    last[producer] = max(number, last.get(producer, 0))
            missing = sorted(self._confirmed[stream] - there.keys())
            if missing:
                self.violated(f"{stream}: {len(missing)} messages were confirmed and are missing, as {missing[:5]}")

    def check_compacted(self, offsets: list[int], end: int) -> None:
        """All offsets that are there, as they came from the first one on; end: its next offset."""
        with self._lock:
            if offsets != sorted(set(offsets)):
                self.violated(f"{COMPACTED}: the offsets do not rise")
            newest: dict[Message, int] = {}
            for offset in offsets:
                producer, number = self._at[COMPACTED, offset]
                key = (producer, number % _KEYS)
                if number <= newest.get(key, 0):
                    self.violated(f"{COMPACTED}: {producer}:{number} at {offset} is behind {newest[key]}")
                newest[key] = number
            hidden: dict[Message, int] = {}  # by key: its newest tombstone, which may be there, confirmed or not
            pending = [(producer, number) for producer, sent in self._unconfirmed.items()
                       for number, stream in sent.items() if stream == COMPACTED]  # fmt: skip
            for producer, number in (*self._confirmed[COMPACTED], *pending):
                if is_tombstone(number):
                    key = (producer, number % _KEYS)
                    hidden[key] = max(number, hidden.get(key, 0))
            missing = sorted([
                (producer, number) for producer, number in self._confirmed[COMPACTED]
                if number > newest.get((producer, number % _KEYS), 0)
                and not ((producer, number % _KEYS) not in newest
                         and number <= hidden.get((producer, number % _KEYS), 0))
            ])  # fmt: skip
            if missing:
                self.violated(f"{COMPACTED}: nothing as new as {missing[:5]} is there, which were confirmed")
            self.taken = max(self.taken, end - len(offsets))

    def check_shared(self, queue: str) -> None:
        """At the end, when everything was read: it has handed out all."""
        logs = LOGS.get(queue, (STREAM,))
        missing = [(log, each) for log in logs for each in range(self._ends.get(log, 0))
                   if (log, each) not in self._seen[queue]]  # fmt: skip
        if missing:
            self.violated(f"{queue}: {len(missing)} messages came to nobody, as {missing[:5]}")

    def ends(self, queue: str) -> int:
        """How many messages there are for who reads it all."""
        return sum(self._ends.get(log, 0) for log in LOGS.get(queue, (STREAM,)))

    def seen(self, queue: str) -> int:
        """How many of them have come."""
        return len(self._seen[queue])


def is_tombstone(number: int) -> bool:
    """Whether the message of this number is one in the stream that is compacted."""
    return number // _KEYS % _TOMBSTONES == _TOMBSTONES - 1


def offset_of(delivery: Delivery) -> int:
    """Where it is in its log."""
    return int((delivery.properties.headers or {})["x-stream-offset"])


def declare_streams(connection: LoadConnection) -> None:
    """Those, and the queue over one."""
    arguments: dict[str, dict[str, object]] = {
        STREAM: {"x-queue-type": "stream"},
        PARTED: {"x-queue-type": "stream", "x-stream-partitions": PARTITIONS},
        OVER: {"x-queue-type": "quorum", "x-stream-source": STREAM, "x-stream-offset": "first"},
        ORDERED: {
            "x-queue-type": "quorum", "x-stream-source": STREAM, "x-stream-offset": "first", "x-stream-key-order": True,
            "x-delivery-limit": -1,
        },
        COMPACTED: BY_NEWEST,
    }  # fmt: skip
    for queue, table in arguments.items():
        declare = m.QueueDeclare(queue=queue, durable=True, arguments=Table(table))  # type: ignore[arg-type]
        connection.call(declare, m.QueueDeclareOk)
    connection.call(m.ExchangeDeclare(exchange=BY_KEY, type="fanout", durable=True), m.ExchangeDeclareOk)
    connection.call(m.QueueBind(queue=STREAM, exchange=BY_KEY), m.QueueBindOk)


def run_producer(connection: LoadConnection, ledger: StreamLedger, name: str, chance: Random) -> None:
    """Publish until the broker is gone: first what may not have arrived."""
    waiting: dict[int, int] = {}  # confirms to come, and the numbers that they are for
    repeated = ledger.to_repeat(name)

    def publish(number: int, stream: str) -> None:
        key = f"{name} {number % _KEYS}"
        headers = {"x-producer-id": name, "x-producer-sequence": number, "x-stream-key": key, "k": key}
        section = encode_properties({"delivery_mode": 2, "headers": Table(headers)})
        octets = b"%s:%d." % (name.encode(), number) + bytes(chance.choice((10, 200, 3000)))
        if stream == COMPACTED and is_tombstone(number):
            octets = b""
        exchange, routing_key = (BY_KEY, key) if stream == STREAM else ("", stream)
        waiting[connection.publish_with(exchange, routing_key, octets, section)] = number

    for number, stream in repeated:
        publish(number, stream)
    while True:
        timeout_s = _IDLE_S
        if len(waiting) < _UNCONFIRMED and connection.published < _A_LIFE:
            for _ in range(chance.randint(1, 30)):
                stream = chance.choice((*LOGS, COMPACTED))
                publish(ledger.publishing(name, stream), stream)
            timeout_s = 0.0
        for event in connection.poll(timeout_s):
            if not isinstance(event, m.BasicAck):
                raise Refused(f"a producer was sent {event}")
            last = event.delivery_tag
            for tag in [each for each in waiting if each <= last] if event.multiple else [last]:
                ledger.confirm(name, waiting.pop(tag))


def consume(connection: LoadConnection, queue: str, group: str = "", offset: str = "first") -> None:
    """With a prefetch; what of a stream, from its beginning."""
    connection.call(m.BasicQos(0, _PREFETCH), m.BasicQosOk)
    table: dict[str, object] = {}
    if queue not in (OVER, ORDERED):
        table = {"x-stream-offset": offset, **({"x-stream-group": group} if group else {})}
    connection.call(m.BasicConsume(queue=queue, consumer_tag=queue, arguments=Table(table)), m.BasicConsumeOk)  # type: ignore[arg-type]


class SharedReader:
    """Reads a stream with its group, or a queue over it, acknowledges most, and gives some back. `work` looks once at
    what has come."""

    def __init__(self, connection: LoadConnection, ledger: StreamLedger, queue: str, chance: Random) -> None:
        self._connection = connection
        self._ledger = ledger
        self._queue = queue
        self._chance = chance
        consume(connection, queue, GROUP)

    def work(self, timeout_s: float, returns: float = 0.02) -> int:
        """Returns how many have come."""
        ledger, queue = self._ledger, self._queue
        places: dict[int, Place] = {}
        for event in self._connection.poll(timeout_s):
            if isinstance(event, Delivery):
                headers = event.properties.headers or {}
                partition = headers.get("x-stream-partition")
                log = f"{PARTED}-{partition}" if queue == PARTED else STREAM
                place = ledger.read(log, offset_of(event), event.body)
                ledger.shared(queue, place)
                if queue == ORDERED:
                    ledger.in_order(place)
                places[event.delivery_tag] = place
        kept = {tag: place for tag, place in places.items() if self._chance.random() >= returns}
        ledger.acking(queue, list(kept.values()))
        for tag in places:
            self._connection.send(m.BasicAck(tag) if tag in kept else m.BasicNack(tag, False, True))
        return len(places)


def run_reader(connection: LoadConnection, ledger: StreamLedger, queue: str, chance: Random) -> None:
    """Until the broker is gone."""
    reader = SharedReader(connection, ledger, queue, chance)
    while True:
        reader.work(_IDLE_S)


def read_log(connection: LoadConnection, ledger: StreamLedger, log: str, end: int) -> list[int]:
    """All of a stream, or of one partition, from its beginning; end: how many messages it has."""
    consume(connection, log)
    offsets: list[int] = []
    while len(offsets) < end:
        deliveries = [event for event in connection.poll(TIMEOUT_S) if isinstance(event, Delivery)]
        if not deliveries:
            ledger.violated(f"{log} says that it holds {end} messages and delivers {len(offsets)}")
            break
        offsets += [ledger.read(log, offset_of(each), each.body)[1] for each in deliveries]
        connection.send(m.BasicAck(deliveries[-1].delivery_tag, True))
    connection.call(m.BasicCancel(log), m.BasicCancelOk)
    return offsets


def read_compacted(connection: LoadConnection, ledger: StreamLedger, end: int) -> list[int]:
    """What there is of it; end: its next offset. The newest message is always there."""
    consume(connection, COMPACTED)
    offsets: list[int] = []
    while end and (not offsets or offsets[-1] < end - 1):
        deliveries = [event for event in connection.poll(TIMEOUT_S) if isinstance(event, Delivery)]
        if not deliveries:
            ledger.violated(f"{COMPACTED} says that it goes to offset {end} and delivers {offsets[-3:]} last")
            break
        for each in deliveries:
            offsets.append(ledger.read_of_key(offset_of(each), each.properties.headers or {}, each.body)[1])
        connection.send(m.BasicAck(deliveries[-1].delivery_tag, True))
    connection.call(m.BasicCancel(COMPACTED), m.BasicCancelOk)
    return offsets


def look_at_streams(host: str, port: int, ledger: StreamLedger) -> None:
    """Read them all and check them. Where each ends the broker says once it has applied what was committed before it
    was started: the number of a declaration is of what it has applied by then, which may be less."""
    connection = LoadConnection(host, port)
    with LeaseService(f"amqp://guest:guest@{host}:{port}/%2F") as service:
        names = [COMPACTED, *[log for logs in LOGS.values() for log in logs]]
        ends = {name: service.ask("stream.offsets", stream=name).fields["next"] for name in names}
        ledger.check_compacted(read_compacted(connection, ledger, ends[COMPACTED]), ends[COMPACTED])
        said = service.ask("stream.compact", vhost="/", name=COMPACTED)  # the broker may be killed in the midst of it
        if said.code != "ok":
            ledger.violated(f"{COMPACTED} is not to be compacted: {said.fields}")
    for stream, logs in LOGS.items():
        ledger.check_log(stream, {log: read_log(connection, ledger, log, ends[log]) for log in logs})
    connection.drop()


def read_to_the_end(host: str, port: int, ledger: StreamLedger) -> None:
    """Groups and the queues over the stream get what they have not had yet: behind a look."""
    for queue in READERS:
        connection = LoadConnection(host, port)
        reader = SharedReader(connection, ledger, queue, Random(1))
        while ledger.seen(queue) < ledger.ends(queue) and reader.work(TIMEOUT_S / 3, returns=0):
            pass
        ledger.check_shared(queue)
        connection.drop()

"""Redis, Debian's package, as a log (a Redis stream) beside our durable queues.

Publishes are XADD by `redis-benchmark`; a backlog is written and read by a client here, which knows how long each
answer is and looks at no entry.
"""

from __future__ import annotations

import csv
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path

from benchmarks import own_load
from benchmarks.brokers import Broker, BrokerError, foreign_broker, free_port
from benchmarks.contender import Case, Contender, Other, Step, Work, weighed

#: (connections, publishes that each has outstanding): how many messages.
OUTSTANDING = {(1, 1): 20_000, (1, 16): 200_000, (50, 16): 600_000}
PUBLISHED_SIZE = 1024
#: Messages of a backlog, by their octets.
BACKLOGS = {128: 1_000_000, 1024: 400_000}
HELD, HELD_SIZE = 1_000_000, 128
#: Entries of one XREAD, and XADD that are written at once where a backlog is made.
PAGE = 100
FILLED_AT_ONCE = 1000
#: Identities of entries are milliseconds and a number; from here on they are equally long.
FIRST_IDENTITY = 1_000_000_000_000
TIMEOUT_SECONDS = 60.0

PROMISE = (
    "appendfsync always: confirmed when it is on the disk (fdatasync), those of one turn of its loop in one sync; "
    f"XREAD COUNT {PAGE} leaves it there, and nothing is acknowledged"
)


def fetch() -> str:
    """Its version. Raises BrokerError, with the way out, where Redis is not installed."""
    if missing := [name for name in ("redis-server", "redis-benchmark") if shutil.which(name) is None]:
        raise BrokerError(f"{' and '.join(missing)}: not installed, so there is no Redis: apt-get install redis-server")
    said = subprocess.run(["redis-server", "--version"], capture_output=True, text=True, check=True).stdout
    return version_in(said)


def version_in(said: str) -> str:
    """The version in what `redis-server --version` says."""
    return next((word[2:] for word in said.split() if word.startswith("v=")), "of an unknown version")


@contextmanager
def redis_broker(folder: Path) -> Iterator[Broker]:
    """One Redis with its append-only file in `folder`."""
    folder.mkdir(parents=True)
    port = free_port()
    settings = {
        "port": port, "bind": "127.0.0.1", "dir": folder, "appendonly": "yes", "appendfsync": "always",
        "save": "", "auto-aof-rewrite-percentage": 0,
    }  # fmt: skip
    command = ["redis-server", *(word for name, value in settings.items() for word in (f"--{name}", str(value)))]
    with foreign_broker("Redis", "", command, port, folder / "log") as broker:
        yield broker


def publish(size: int, connections: int, outstanding: int) -> Work:
    """XADD by `redis-benchmark`."""

    def work(broker: Broker, name: str, messages: int) -> float:
        where = ["-h", "127.0.0.1", "-p", str(broker.target.port)]
        how = ["-n", str(messages), "-c", str(connections), "-P", str(outstanding), "--csv"]
        command = ["redis-benchmark", *where, *how, "XADD", name, "*", "m", size * "x"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            said = (done.stdout + done.stderr).strip()[-300:]
            raise BrokerError(f"redis-benchmark ended with status {done.returncode}: {said}")
        with Client(broker) as client:
            written = client.length(name)
        if written < messages:
            raise BrokerError(f"redis-benchmark wrote {written} of {messages} messages")
        return written_rate(done.stdout)

    return work


def written_rate(said: str) -> float:
    """Messages per second, as `redis-benchmark --csv` says. Raises BrokerError where it does not."""
    try:
        return float(next(csv.DictReader(said.splitlines()))["rps"])
    except (StopIteration, KeyError, ValueError) as error:
        raise BrokerError(f"redis-benchmark does not say how fast it was: {said[-300:]}") from error


def fill(size: int) -> Work:
    """A backlog of messages of so many octets."""

    def work(broker: Broker, name: str, messages: int) -> float:
        begin = time.monotonic()
        with Client(broker) as client:
            for first in range(0, messages, FILLED_AT_ONCE):
                client.add(name, range(first, min(messages, first + FILLED_AT_ONCE)), size * b"x")
        return messages / (time.monotonic() - begin)

    return work


def read(size: int) -> Work:
    """A backlog from its beginning, a page after the other, each asked for when the one before is there."""

    def work(broker: Broker, name: str, messages: int) -> float:
        begin = time.monotonic()
        with Client(broker) as client:
            for first in range(0, messages, PAGE):
                client.read(name, range(first, min(messages, first + PAGE)), size * b"x")
        return messages / (time.monotonic() - begin)

    return work


class Client:
    """A connection. Entries are numbered from 0 on."""

    def __init__(self, broker: Broker) -> None:
        self._sock = socket.create_connection(("127.0.0.1", broker.target.port), TIMEOUT_SECONDS)
        self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._answers = BufferedReader(socket.SocketIO(self._sock, "r"), 1 << 16)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self._answers.close()
        self._sock.close()

    def length(self, name: str) -> int:
        """How many entries a stream has."""
        self._sock.sendall(command("XLEN", name))
        answer = self._answers.readline()
        if not answer.startswith(b":"):
            raise BrokerError(f"Redis did not say how long {name!r} is: {answer!r}")
        return int(answer[1:])

    def add(self, name: str, numbers: range, body: bytes) -> None:
        """Entries with these numbers and this body. Raises BrokerError unless each is confirmed."""
        self._sock.sendall(b"".join(command("XADD", name, identity(number), b"m", body) for number in numbers))
        confirms = b"".join(bulk(identity(number)) for number in numbers)
        what = f"confirm entries {numbers[0]} to {numbers[-1]} of {name!r}"
        answer = self._receive(len(confirms), what)
        if answer != confirms:
            raise BrokerError(f"Redis did not {what}: {answer[:100]!r}")

    def read(self, name: str, numbers: range, body: bytes) -> None:
        """These entries. Raises BrokerError where others come."""
        after = identity(numbers[0] - 1) if numbers[0] else b"0"
        self._sock.sendall(command("XREAD", "COUNT", str(len(numbers)), "STREAMS", name, after))
        head = b"*1\r\n*2\r\n" + bulk(name.encode()) + f"*{len(numbers)}\r\n".encode()
        first, last = entry(numbers[0], body), entry(numbers[-1], body)
        what = f"send entries {numbers[0]} to {numbers[-1]} of {name!r}"
        answer = self._receive(len(head) + len(numbers) * len(first), what)
        if not (answer.startswith(head + first) and answer.endswith(last)):
            raise BrokerError(f"Redis did not {what}: {answer[:100]!r}")

    def _receive(self, count: int, what: str) -> bytes:
        """So many octets, unless it says early that it refuses. Raises BrokerError."""
        if self._answers.peek(1)[:1] == b"-":
            raise BrokerError(f"Redis did not {what}: {self._answers.readline()!r}")
        try:
            return self._answers.read(count)
        except TimeoutError as error:
            raise BrokerError(f"Redis did not {what} within {TIMEOUT_SECONDS:g} s, or refused some of it") from error


def identity(number: int) -> bytes:
    """Of the entry with this number."""
    return b"%d-0" % (FIRST_IDENTITY + number)


def entry(number: int, body: bytes) -> bytes:
    """An entry as XREAD answers it."""
    return b"*2\r\n" + bulk(identity(number)) + b"*2\r\n" + bulk(b"m") + bulk(body)


def bulk(octets: bytes) -> bytes:
    """A string as it is written to the socket."""
    return b"$%d\r\n%b\r\n" % (len(octets), octets)


def command(*words: str | bytes) -> bytes:
    """A command as it is written to the socket."""
    octets = [word if isinstance(word, bytes) else word.encode("ascii") for word in words]
    return b"*%d\r\n" % len(octets) + b"".join(bulk(each) for each in octets)


def redis(messages: int, *steps: Step) -> Contender:
    """Redis as it is run here."""
    return Contender("Redis", PROMISE, redis_broker, steps, messages)


def publish_case(connections: int, outstanding: int) -> Case:
    """Publishes that are synced before they are confirmed, with so many outstanding."""
    each = (
        f"{connections} connections with {outstanding} outstanding each"
        if connections > 1
        else f"{outstanding} outstanding"
    )
    what = f"publish, {PUBLISHED_SIZE:,} B, {each}"
    messages = OUTSTANDING[connections, outstanding]
    own = Step(what, own_load.publish(PUBLISHED_SIZE, outstanding, connections))
    theirs = Step(what, publish(PUBLISHED_SIZE, connections, outstanding))
    return Case((own_load.ours("classic", own_load.TAKEN, messages, own), redis(messages, theirs)))


def backlog_case(size: int) -> Case:
    """A backlog that is written, and then read."""
    written, what = f"backlog written, {size:,} B, {FILLED_AT_ONCE:,} outstanding", f"backlog read, {size:,} B"
    messages = BACKLOGS[size]

    def own(kind: str, promise: str) -> Contender:
        filled = Step(written, own_load.publish(size, FILLED_AT_ONCE, queue_type=kind))
        return own_load.ours(kind, promise, messages, filled, Step(what, own_load.read(size, kind)))

    theirs = redis(messages, Step(written, fill(size)), Step(what, read(size)))
    return Case((own("classic", own_load.TAKEN), own("stream", own_load.READ), theirs))


def weight_case() -> Case:
    """An empty broker, and one with a backlog."""
    what = f"messages of {HELD_SIZE} B"
    own = Step(what, own_load.publish(HELD_SIZE, FILLED_AT_ONCE))
    return Case(
        (
            own_load.ours("classic", own_load.TAKEN, HELD, own),
            redis(HELD, Step(what, fill(HELD_SIZE))),
        ),
        weighed,
    )


OTHER = Other(
    "Our durable queues and Redis",
    fetch,
    {
        "Redis": "one, a stream for a queue; neither snapshots nor rewriting of its append-only file meanwhile",
        "load of Redis": "publishes by redis-benchmark; a backlog by XADD, and XREAD with one page outstanding",
        "memory": "what the broker's process has resident",
    },
    (*(publish_case(*each) for each in OUTSTANDING), *(backlog_case(size) for size in BACKLOGS), weight_case()),
)

"""NATS beside our broker: its core beside transient queues, JetStream beside durable ones.

nats-server is built from its Go module (`go` is needed). Its load is a client here, lighter than theirs: the protocol
is lines of text, so a publisher sends the same octets again and again, and a subscriber counts octets.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from threading import Thread

from benchmarks import own_load
from benchmarks.brokers import ROOT, Broker, BrokerError, foreign_broker, free_port, last_lines
from benchmarks.contender import Case, Contender, Other, Step, Work, weighed

VERSION = "2.15.3"
MODULE = f"github.com/nats-io/nats-server/v2@v{VERSION}"
FOLDER = ROOT / ".venv" / f"nats-{VERSION}"
#: Messages that go through the core, by their octets.
THROUGH = {16: 10_000_000, 128: 8_000_000, 1024: 3_000_000}
#: What a publisher of the core writes at once, as NATS's own clients buffer it.
WRITE_BYTES = 32 << 10
READ_BYTES = 1 << 20
#: JetStream, where each message is synced, gets fewer than who syncs several at once or none.
SYNCED, KEPT = 60_000, 400_000
KEPT_SIZE, WINDOW = 1024, 500
HELD, HELD_SIZE = 1_000_000, 128
TIMEOUT_SECONDS = 60.0
INBOX = "acks"

CORE_PROMISE = (
    "handed over at most once: neither confirmed nor kept; who reads too slowly is cut off and loses messages"
)
SYNCED_PROMISE = "sync_interval: always: confirmed when it is on the disk (fsync)"
UNSYNCED_PROMISE = (
    "as it comes, synced every two minutes: confirmed when it is in the page cache, and a power failure loses it"
)


def fetch() -> str:
    """Builds nats-server into .venv, once; its version. Raises BrokerError, with the way out, where that cannot be."""
    if (FOLDER / "nats-server").exists():
        return VERSION
    if shutil.which("go") is None:
        raise BrokerError("go is not installed, so nats-server cannot be built: see https://go.dev/doc/install")
    command, environment = ["go", "install", MODULE], {**os.environ, "GOBIN": str(FOLDER)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BrokerError(f"{' '.join(command)} ended with status {done.returncode}: {done.stderr.strip()[-300:]}")
    return VERSION


@contextmanager
def nats_broker(folder: Path, jetstream: str = "") -> Iterator[Broker]:
    """One nats-server. jetstream: settings of JetStream, which has its files in `folder` then; without them it is the
    core alone."""
    folder.mkdir(parents=True)
    port = free_port()
    kept = f'jetstream {{ store_dir: "{folder}", {jetstream} }}\n' if jetstream else ""
    settings, log = folder / "nats.conf", folder / "log"
    settings.write_text(f"listen: 127.0.0.1:{port}\n{kept}", encoding="ascii")
    with foreign_broker("NATS", VERSION, [str(FOLDER / "nats-server"), "-c", str(settings)], port, log) as broker:
        try:
            yield broker
        except ConnectionError as error:
            raise BrokerError(f"NATS cut its client off ({error}): {last_lines(log)}") from error


class Client:
    """A connection that has shaken hands."""

    def __init__(self, broker: Broker) -> None:
        self.sock = socket.create_connection(("127.0.0.1", broker.target.port), TIMEOUT_SECONDS)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        options = {"verbose": False, "pedantic": False, "lang": "benchmark", "version": "1"}
        self.sock.sendall(f"CONNECT {json.dumps(options)}\r\n".encode("ascii"))
        self.flush()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.sock.close()

    def receive(self) -> bytes:
        """What comes next. Raises ConnectionError where the server has gone."""
        octets = self.sock.recv(READ_BYTES)
        if not octets:
            raise ConnectionError("the connection was closed")
        return octets

    def flush(self) -> None:
        """Until the server has done all that was sent before, and has sent what came of it. Raises BrokerError."""
        self.ask(b"PING\r\n", b"PONG\r\n")

    def ask(self, question: bytes, ending: bytes) -> bytes:
        """The answer to a question, which has this ending. Raises BrokerError where the server refuses it."""
        self.sock.sendall(question)
        answer = b""
        while ending not in answer:
            answer += self.receive()
            if b"-ERR" in answer:
                raise BrokerError(f"NATS refused {question[:60]!r}: {answer[-200:]!r}")
        return answer


def through(size: int) -> Work:
    """From a publisher to a subscriber at once."""

    def work(broker: Broker, name: str, messages: int) -> float:
        one = publication(name, "", size)
        with Client(broker) as subscriber, Client(broker) as publisher:
            subscriber.sock.sendall(f"SUB {name} 1\r\n".encode("ascii"))
            subscriber.flush()
            begin = time.monotonic()
            publishing = Thread(target=send_all, args=[publisher.sock, one, messages], daemon=True)
            publishing.start()
            count_octets(subscriber, messages * len(delivery(name, size)))
            seconds = time.monotonic() - begin
            publishing.join()
        return messages / seconds

    return work


def send_all(sock: socket.socket, one: bytes, messages: int) -> None:
    """So many times the same octets. Ends where the connection does, which who reads notices."""
    many = max(1, WRITE_BYTES // len(one))
    ring = many * one
    try:
        for _ in range(messages // many):
            sock.sendall(ring)
        sock.sendall(messages % many * one)
    except OSError:
        sock.close()


def count_octets(client: Client, octets: int) -> None:
    """Wait for so many. A PING of the server's among them makes it end six octets before the last message has."""
    buffer = bytearray(READ_BYTES)
    while octets > 0:
        count = client.sock.recv_into(buffer)
        if not count:
            raise ConnectionError(f"the subscriber misses {octets:,} octets")
        octets -= count


def publish(size: int, window: int) -> Work:
    """Into a stream of JetStream's, with so many unconfirmed."""

    def work(broker: Broker, name: str, messages: int) -> float:
        with Client(broker) as client:
            client.sock.sendall(f"SUB {INBOX} 1\r\nSUB made 2\r\n".encode("ascii"))
            make_stream(client, name)
            begin = time.monotonic()
            send_confirmed(client, publication(name, INBOX, size), messages, window)
            return messages / (time.monotonic() - begin)

    return work


def make_stream(client: Client, name: str) -> None:
    """A stream that keeps what is published to its name, in files. Raises BrokerError."""
    settings = json.dumps({"name": name, "subjects": [name], "storage": "file", "num_replicas": 1})
    request = f"PUB $JS.API.STREAM.CREATE.{name} made {len(settings)}\r\n{settings}\r\n"
    answer = client.ask(request.encode("ascii"), b"}\r\n")
    if b'"error"' in answer:
        raise BrokerError(f"NATS did not make a stream {name!r}: {answer[-300:]!r}")


def send_confirmed(client: Client, one: bytes, messages: int, window: int) -> None:
    """So many messages, with `window` unconfirmed. Raises BrokerError for one that is refused."""
    sent = confirmed = 0
    rest = b""
    while confirmed < messages:
        if room := min(window - (sent - confirmed), messages - sent):
            client.sock.sendall(room * one)
            sent += room
        lines = (rest + client.receive()).split(b"\r\n")
        rest = lines.pop()
        for line in lines:
            if line == b"PING":
                client.sock.sendall(b"PONG\r\n")
            elif line.startswith(b"{"):
                confirmed += 1
                if b'"seq"' not in line:
                    raise BrokerError(f"NATS refused a message: {line!r}")


def publication(name: str, reply: str, size: int) -> bytes:
    """A message as it is published."""
    words = ["PUB", name, *([reply] if reply else []), str(size)]
    return " ".join(words).encode("ascii") + b"\r\n" + size * b"x" + b"\r\n"


def delivery(name: str, size: int) -> bytes:
    """A message as subscription 1 gets it."""
    return f"MSG {name} 1 {size}\r\n".encode("ascii") + size * b"x" + b"\r\n"


def jetstream(promise: str, settings: str, messages: int, *steps: Step) -> Contender:
    """NATS with JetStream."""
    start: Callable[[Path], AbstractContextManager[Broker]] = partial(nats_broker, jetstream=settings)
    name = "JetStream, synced" if settings == ALWAYS else "JetStream, not synced"
    return Contender(name, promise, start, steps, messages)


ALWAYS, AS_IT_COMES = "sync_interval: always", "sync_interval: 2m"


def core_case(size: int) -> Case:
    """At most once, straight through."""
    what, messages = f"straight through, {size:,} B", THROUGH[size]
    own = own_load.ours("transient", own_load.TRANSIENT, messages, Step(what, own_load.through(size)))
    return Case((own, Contender("NATS", CORE_PROMISE, nats_broker, (Step(what, through(size)),), messages)))


def publish_case() -> Case:
    """Confirmed publishes."""
    what = f"publish, {KEPT_SIZE:,} B, {WINDOW} outstanding"
    theirs = Step(what, publish(KEPT_SIZE, WINDOW))
    return Case(
        (
            own_load.ours("classic", own_load.TAKEN, KEPT, Step(what, own_load.publish(KEPT_SIZE, WINDOW))),
            jetstream(SYNCED_PROMISE, ALWAYS, SYNCED, theirs),
            jetstream(UNSYNCED_PROMISE, AS_IT_COMES, KEPT, theirs),
        )
    )


def weight_case() -> Case:
    """An empty broker, and one with a backlog."""
    what = f"messages of {HELD_SIZE} B"
    own = own_load.ours("classic", own_load.TAKEN, HELD, Step(what, own_load.publish(HELD_SIZE, WINDOW)))
    theirs = jetstream(UNSYNCED_PROMISE, AS_IT_COMES, HELD, Step(what, publish(HELD_SIZE, WINDOW)))
    return Case((own, theirs), weighed)


OTHER = Other(
    "Our broker and NATS",
    fetch,
    {
        "NATS": "one nats-server, the core alone where JetStream is not named; streams of JetStream are in files",
        "load of NATS": f"a client of benchmarks/nats.py; of the core, a publisher that writes {WRITE_BYTES:,} octets "
        "at once, and a subscriber",
        "memory": "what the broker's process has resident",
    },
    (*(core_case(size) for size in THROUGH), publish_case(), weight_case()),
)

"""The broker as a real process that is watched, and a well-behaved client that watches it meanwhile."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from amqp_broker.client.connection import Connection
from amqp_broker.protocol import constants as c
from amqp_broker.protocol import methods as m
from amqp_broker.protocol.frames import FrameParser
from amqp_broker.system_client import SystemClient
from tests.fuzz.harness import handshake

PROJECT_ROOT = Path(__file__).resolve().parents[2]
START_TIMEOUT_S = 120.0
MIB = 1 << 20
#: The plain modules are so much slower that a load is made smaller for them.
IS_PLAIN = bool(os.environ.get("AMQP_BROKER_PLAIN"))
#: How long a round trip of the well-behaved client may take while others misbehave, seconds: generous, because the
#: machine that runs the tests is shared.
PATIENCE_S = 20.0


def _has(flags: tuple[str, ...], name: str) -> bool:
    return any(each.partition("=")[0] == name for each in flags)


class Broker:
    """One life of a broker on `folder`/data; a context manager that ends with SIGTERM if it still runs. ulimit: what
    the shell's command of that name is told before the start. module: the program that is the broker's command."""

    def __init__(
        self,
        folder: Path,
        *flags: str,
        env: Mapping[str, str] | None = None,
        ulimit: str | None = None,
        module: str = "amqp_broker",
    ) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.log = folder / "broker.log"
        self.port = 0
        pages = [name for name in ("--management-listen", "--prometheus-listen") if not _has(flags, name)]
        command = [sys.executable, "-P", "-m", module, "serve", *[f"{name}=off" for name in pages]]
        command += ["--listen", "127.0.0.1:0"]
        command += ["--data-dir", str(self.data), *flags]
        if ulimit is not None:
            command = ["sh", "-c", f'ulimit {ulimit}; exec "$@"', "sh", *command]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=folder,
                env={**os.environ, "PYTHONPATH": str(PROJECT_ROOT), **(env or {})},
            )
        self.port = self._await_ready()
        self.url = f"amqp://guest:guest@127.0.0.1:{self.port}/"
        self.rss_at_start = self.rss()

    def _await_ready(self) -> int:
        assert self.process.stdout is not None
        if select.select([self.process.stdout], [], [], START_TIMEOUT_S)[0]:
            line = self.process.stdout.readline().decode()
            if line.startswith("ready amqp://"):
                return int(line.rpartition(":")[2])
        self.process.kill()
        self.process.wait()
        raise AssertionError(f"the broker did not start: {self.log_text()[-3000:]}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
            try:
                self.process.wait(START_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise AssertionError("the broker did not end within its time after SIGTERM") from error
        assert self.process.stdout is not None
        self.process.stdout.close()

    def kill(self) -> None:
        """SIGKILL: what was not synced is lost."""
        self.process.kill()
        self.process.wait()

    def rss(self) -> int:
        """Octets of RAM that the process occupies now."""
        text = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        return next(int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("VmRSS:"))

    def grown(self) -> int:
        """How much more RAM it occupies than at its start, octets."""
        return self.rss() - self.rss_at_start

    def log_text(self) -> str:
        return self.log.read_text(errors="replace")

    def connect(self, **options: Any) -> Connection:
        return Connection.open(self.url, **options)

    def statistics(self) -> dict[str, Any]:
        """What the broker says of itself; the connection that asks is counted too."""
        with SystemClient(self.url) as client:
            return dict(client.request("statistics")["statistics"])

    def settled_statistics(self, **expected: int) -> dict[str, Any]:
        """Statistics once these counts are reached, or as they are after the patience is over."""
        deadline = time.monotonic() + PATIENCE_S
        with SystemClient(self.url) as client:
            while True:
                found = dict(client.request("statistics")["statistics"])
                if all(found[key] == value for key, value in expected.items()) or time.monotonic() > deadline:
                    return found

    def socket(self) -> socket.socket:
        """A transport that has said nothing."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=10)

    def raw(self, frame_max: int = 131072) -> socket.socket:
        """A transport whose handshake was sent; what the broker says is left to be read."""
        transport = self.socket()
        transport.sendall(handshake(frame_max))
        return transport


def frames_of(transport: socket.socket, seconds: float = 5.0, until: int = 1 << 62) -> list[tuple[int, bytes]]:
    """(type, payload) of what arrives until there is silence for so long, the end, or so many frames."""
    parser = FrameParser(c.DEFAULT_FRAME_MAX)
    found: list[tuple[int, bytes]] = []
    transport.settimeout(seconds)
    while len(found) < until:
        try:
            data = transport.recv(262144)
        except (TimeoutError, ConnectionResetError):
            break
        if not data:
            break
        found += [(frame.type, frame.payload) for frame in parser.receive_data(data)]
    return found


class Witness:
    """A well-behaved client in a thread: declares, publishes persistently, awaits the confirm, gets, acknowledges,
    round after round, while the block runs, which begins after its first. At its end it must have finished rounds, and
    none may have taken too long.
    """

    def __init__(self, broker: Broker, patience_s: float = PATIENCE_S) -> None:
        self._broker = broker
        self._patience_s = patience_s
        self._goes = threading.Event()
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._error: BaseException | None = None
        self.rounds = 0
        self.longest_s = 0.0

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._goes.wait(60.0), "the well-behaved client has done no round"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ends.set()
        self._thread.join(60)
        if error is None:
            assert self._error is None, f"the well-behaved client failed: {self._error!r}"
            assert self.rounds > 0
            assert self.longest_s < self._patience_s, f"a round trip took {self.longest_s:.2f} s"

    def _run(self) -> None:
        try:
            with self._broker.connect(timeout=60.0) as connection:
                channel = connection.channel()
                channel.confirm_select()
                while True:
                    begun = time.monotonic()
                    round_trip(channel)
                    self.longest_s = max(self.longest_s, time.monotonic() - begun)
                    self.rounds += 1
                    self._goes.set()
                    if self._ends.wait(0.02):
                        return
        except BaseException as error:  # noqa: BLE001 - told to the test's own thread
            self._goes.set()
            self._error = error


def round_trip(channel: Any) -> None:
    """One message there and back on a queue of its own, confirmed and acknowledged."""
    queue = channel.call(m.QueueDeclare(durable=True, exclusive=True)).queue
    channel.publish("", queue, b"there and back", {"delivery_mode": 2})
    assert channel.wait_for_confirms() == []
    delivery = channel.get(queue)
    assert delivery is not None
    assert delivery.body == b"there and back"
    channel.ack(delivery)
    channel.call(m.QueueDelete(queue=queue))

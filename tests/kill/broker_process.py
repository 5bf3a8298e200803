"""The broker as a child process that is going to be killed, with all the processes that it has."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.kill.host_processes import kill_session, processes_in, send, wait_until_gone

PROJECT_ROOT = Path(__file__).resolve().parents[2]
START_TIMEOUT_S = 60.0
READY = "ready amqp://"


class BrokerProcess:
    """One life of a broker on `folder`/data; `host` and `port` are valid after `wait_ready`.

    settings: flags of `serve`. What it says goes to `folder`/broker.log.
    """

    def __init__(self, folder: Path, settings: dict[str, str]) -> None:
        self.host = ""
        self.port = 0
        self.data = folder / "data"
        self.log = folder / "broker.log"
        command = [
            sys.executable, "-P", "-m", "amqp_broker", "serve",
            "--management-listen=off", "--prometheus-listen=off", "--listen", "127.0.0.1:0",
        ]
        command += ["--data-dir", str(self.data), "--exit-with-parent"]
        for flag, value in settings.items():
            command += [f"--{flag}", value]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=folder,
                env={**os.environ, "PYTHONPATH": str(PROJECT_ROOT)},
                start_new_session=True,
            )

    def wait_ready(self) -> bool:
        """Whether it accepts clients; False when it ended instead, or took too long."""
        assert self._process.stdout is not None
        deadline = time.monotonic() + START_TIMEOUT_S
        received = b""
        while (remaining := deadline - time.monotonic()) > 0:
            if not select.select([self._process.stdout], [], [], remaining)[0]:
                return False
            piece = os.read(self._process.stdout.fileno(), 4096)
            if not piece:
                return False
            received += piece
            line, end, _ = received.decode(errors="replace").partition("\n")
            if end and line.startswith(READY):
                self.host, _, port = line[len(READY) :].strip().rstrip("/").rpartition(":")
                self.port = int(port)
                return True
        return False

    def ends_within(self, seconds: float) -> int | None:
        """Its exit status if it ends by itself within this time, else None."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def kill(self) -> None:
        """SIGKILL for all of it, and wait until it is gone."""
        kill_session(self._process.pid)
        self._close()

    def kill_supervisor(self) -> bool:
        """SIGKILL for the process that has the ports. Returns whether its workers then leave by themselves."""
        workers = [each for each in processes_in(self._process.pid) if each != self._process.pid]
        send([self._process.pid], signal.SIGKILL)
        have_left = wait_until_gone(workers)
        self.kill()
        return have_left

    def stop(self) -> int:
        """SIGTERM. Returns its exit status."""
        self._process.terminate()
        self._close()
        return self._process.returncode

    def _close(self) -> None:
        self._process.wait(START_TIMEOUT_S)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()

    def log_tail(self) -> str:
        """The end of its log."""
        return self.log.read_text(errors="replace")[-3000:]

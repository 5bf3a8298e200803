"""A Celery worker as a child process, ready when it answers a ping, and gone with all its children when it is
killed.
"""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from interop_tests.broker_under_test import PROJECT_ROOT

START_TIMEOUT_S = 180.0
STOP_TIMEOUT_S = 120.0


class CeleryWorker:
    """`celery worker` for interop_tests.celery_app, in a process group of its own."""

    def __init__(
        self,
        app: Any,
        url: str,
        queue: str,
        folder: Path,
        name: str = "worker",
        concurrency: int = 2,
        queue_type: str = "classic",
        exchange_type: str = "direct",
        stream: str = "",
    ) -> None:
        self.name = f"{name}@{queue}"
        self._app = app
        self._log = folder / f"{name}.log"
        self._command = [
            sys.executable,
            "-m",
            "celery",
            "-A",
            "interop_tests.celery_app",
            "worker",
            "-n",
            self.name,
        ]
        self._command += ["-c", str(concurrency), "-l", "INFO", "-Q", f"{queue},{queue}-priority"]
        path = os.pathsep.join(filter(None, [str(PROJECT_ROOT), os.environ.get("PYTHONPATH", "")]))
        # a worker as root is fine here: its pickles are our own
        own = {"INTEROP_BROKER_URL": url, "INTEROP_QUEUE": queue, "INTEROP_QUEUE_TYPE": queue_type}
        own |= {"INTEROP_EXCHANGE_TYPE": exchange_type, "INTEROP_STREAM": stream}
        own |= {"PYTHONPATH": path, "C_FORCE_ROOT": "1"}
        self._environment = {**os.environ, **own}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> CeleryWorker:
        """Start it and wait until it answers; raises with its log when it does not."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                stdout=log,
                stderr=log,
                env=self._environment,
                cwd=PROJECT_ROOT,
                start_new_session=True,
            )
        try:
            self.await_answer()
        except BaseException:
            self.kill()
            raise
        return self

    def await_answer(self, app: Any = None) -> None:
        """Return when the worker answers a ping, of another side of its application if one is given."""
        control = (app or self._app).control
        deadline = time.monotonic() + START_TIMEOUT_S
        while not control.ping(destination=[self.name], timeout=1.0, limit=1):
            assert self._process is not None
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"worker {self.name} does not answer; its log:\n{self.log()}")

    def log(self) -> str:
        return self._log.read_text(errors="replace")[-6000:]

    def stop(self) -> int:
        """SIGTERM, a warm shutdown; the exit status."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(STOP_TIMEOUT_S)
        finally:
            self.kill()

    def kill(self) -> None:
        """SIGKILL for the worker and all its children."""
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

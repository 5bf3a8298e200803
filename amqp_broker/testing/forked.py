"""Brokers that are forked by a process of their own which has loaded everything already, the fork server
(amqp_broker/cli/fork_server.py): the second broker of a program starts in a tenth of the first one's time.

There is one fork server for each program, started with its first broker and ended with the program.

Invariants:
1. A ForkedProcess is to its user what a `subprocess.Popen` is.
2. The fork server's interpreter is what a new one would be: where that could differ, another takes its place.
"""

from __future__ import annotations

import atexit
import json
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO

#: What begins so is read by interpreter and libraries once, when they start.
_OF_THE_START = ("AMQP_BROKER_PLAIN", "GLIBC_", "LANG", "LC_", "LD_", "MALLOC_", "OPENSSL_", "PYTHON")
_LIMITS = sorted({getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")})
_ANSWER_OCTETS = 64
_LENGTH_OCTETS = 4
_END_S = 5.0
#: The status of a process that ended after the fork server had been killed: nobody was told.
STATUS_UNKNOWN = 255

IS_POSSIBLE = hasattr(os, "pidfd_open") and hasattr(signal, "pidfd_send_signal")


class ForkedProcess:
    """A process that the fork server has forked. Names and meanings are those of `subprocess.Popen`."""

    def __init__(
        self, args: Sequence[str], answers: socket.socket, pid: int, watched: int, ends: tuple[IO[bytes], IO[bytes]]
    ) -> None:
        self.args = args
        self.pid = pid
        self.returncode: int | None = None
        self._stdin, self._stdout = ends
        self._answers = answers
        self._watched = watched
        self._guard = threading.Lock()

    @property
    def stdin(self) -> IO[bytes]:
        return self._stdin

    @property
    def stdout(self) -> IO[bytes]:
        return self._stdout

    def poll(self) -> int | None:
        return self._look(0.0)

    def wait(self, timeout: float | None = None) -> int:
        """Raises subprocess.TimeoutExpired."""
        status = self._look(timeout)
        if status is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired(self.args, timeout)
        return status

    def send_signal(self, number: int) -> None:
        """Does nothing once it has ended."""
        with self._guard:
            if self.returncode is None:
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(self._watched, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def close(self) -> None:
        """It has ended, and was waited for."""
        for each in (self._stdin, self._stdout, self._answers):
            each.close()
        with self._guard:
            if self._watched >= 0:
                os.close(self._watched)
                self._watched = -1

    def _look(self, timeout_s: float | None) -> int | None:
        if self.returncode is None and _is_readable(self._answers.fileno(), timeout_s):
            with self._guard:
                if self.returncode is None:
                    answer = self._answers.recv(_ANSWER_OCTETS)
                    if not answer:
                        _is_readable(self._watched, None)
                    self.returncode = int(answer) if answer else STATUS_UNKNOWN
        return self.returncode


class ForkServer:
    """The process, and the socket over which it is asked."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.owner_pid = os.getpid()
        self._start = _of_the_start(environment), _inherited()
        self._asking, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "amqp_broker.cli.fork_server"],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                env=dict(environment),
                process_group=0,
            )

    def serves(self, environment: Mapping[str, str]) -> bool:
        """Whether a broker with this environment may come from it."""
        return self._process.poll() is None and self._start == (_of_the_start(environment), _inherited())

    def fork(self, arguments: Sequence[str], environment: Mapping[str, str], log: IO[bytes]) -> ForkedProcess:
        """A process that runs the command amqp-broker with these arguments. Raises OSError."""
        text = json.dumps({"arguments": arguments, "environment": dict(environment)}).encode()
        folder = os.open(".", os.O_PATH)
        theirs_in, ours_in = os.pipe()
        ours_out, theirs_out = os.pipe()
        ends = open(ours_in, "wb", 0), open(ours_out, "rb", 0)  # noqa: SIM115 - live as long as the process
        answers, told = socket.socketpair()
        try:
            descriptors = [theirs_in, theirs_out, log.fileno(), folder, told.fileno()]
            socket.send_fds(self._asking, [len(text).to_bytes(_LENGTH_OCTETS)], descriptors)
            self._asking.sendall(text)
            told.close()
            answer, (watched,), _, _ = socket.recv_fds(answers, _ANSWER_OCTETS, 1)
        except (OSError, ValueError) as error:
            for end in (*ends, answers):
                end.close()
            raise OSError(f"the fork server has ended with status {self._process.poll()}") from error
        finally:
            told.close()
            for each in (theirs_in, theirs_out, folder):
                os.close(each)
        return ForkedProcess(["amqp-broker", *arguments], answers, int(answer), watched, ends)

    def forget(self) -> None:
        """In a forked copy of its program."""
        self._asking.close()

    def close(self) -> None:
        """Its brokers go on."""
        self._asking.close()
        if self.owner_pid == os.getpid():
            try:
                self._process.wait(_END_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()


def fork(
    arguments: Sequence[str], environment: Mapping[str, str], secrets: Mapping[str, str], log: IO[bytes]
) -> ForkedProcess:
    """A process that runs the command amqp-broker with these arguments, by this program's fork server. secrets: what
    is in its environment besides, and in nobody else's. log: its standard error. Raises OSError."""
    whole = {**environment, **secrets}
    with _guard:
        try:
            return _fork_server(environment).fork(arguments, whole, log)
        except OSError:
            _end_fork_server()  # somebody has killed it, perhaps
            return _fork_server(environment).fork(arguments, whole, log)


def _fork_server(environment: Mapping[str, str]) -> ForkServer:
    """The one that there is, or the one that takes its place."""
    global _server
    if _server is not None and not _server.serves(environment):
        _end_fork_server()
    if _server is None:
        _server = ForkServer(environment)
    return _server


def _end_fork_server() -> None:
    global _server
    if _server is not None:
        _server.close()
        _server = None


def forget_after_fork() -> None:
    """In a forked copy of the program: the fork server is the original's."""
    global _server, _guard
    _guard = threading.Lock()
    if _server is not None:
        _server.forget()
        _server = None


def _is_readable(descriptor: int, timeout_s: float | None) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(None if timeout_s is None else timeout_s * 1000))


def _inherited() -> tuple[object, ...]:
    """What a process has of the one that starts it, and may be changed while that runs."""
    limits = tuple(resource.getrlimit(each) for each in _LIMITS)
    return limits, os.getpriority(os.PRIO_PROCESS, 0), os.sched_getaffinity(0)


def _of_the_start(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(_OF_THE_START)}


@atexit.register
def _close() -> None:
    with _guard:
        _end_fork_server()


_server: ForkServer | None = None
_guard = threading.Lock()

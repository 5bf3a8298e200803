"""Brokers that are forked by a process of their own which has loaded everything already, the fork server
(amqp_broker/cli/fork_server.py): the second broker of a program starts in a tenth of the first one's time.

There is one fork server for each program, started with its first broker and ended with the program; two where threads
of it differ in what they hand down.

Invariants:
1. A ForkedProcess is to its user what a `subprocess.Popen` is, but for what docs/embedding.md names.
2. The fork server's interpreter is what a new one would be: where that could differ, another takes its place.
3. Nothing waits for a fork server longer than it was told to, and a start that it fails is one without it.
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
import time
import weakref
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from types import TracebackType
from typing import IO, Self

#: What begins so is read by interpreter and libraries once, when they start.
_OF_THE_START = ("AMQP_BROKER_PLAIN", "GLIBC_", "LANG", "LC_", "LD_", "MALLOC_", "OPENSSL_", "PYTHON")
#: What begins so in a thread's status is inherited by what it starts. Blocked signals are not: a broker blocks none.
_OF_THE_STATUS = ("Cap", "Cpus_allowed:", "Gid:", "Groups:", "NoNewPrivs:", "Seccomp", "Uid:", "Umask:")
_LIMITS = sorted({getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")})
_ANSWER_OCTETS = 64
_LENGTH_OCTETS = 4
_END_S = 5.0
#: The status of a process that ended after the fork server had been killed: nobody was told.
STATUS_UNKNOWN = 255


class ForkedProcess:
    """A process that the fork server has forked. Names and meanings are those of `subprocess.Popen`.

    The descriptors of the process and of its end live as long as this object, so that no other thread that waits
    or sends a signal meets closed ones.
    """

    def __init__(
        self, args: Sequence[str], answers: socket.socket, pid: int, watched: int, ends: tuple[IO[bytes], IO[bytes]]
    ) -> None:
        self.args = args
        self.pid = pid
        self.returncode: int | None = None
        self._stdin, self._stdout = ends
        self._answers = answers
        self._watched = watched
        weakref.finalize(self, _let_go, answers, watched).atexit = False

    @property
    def stdin(self) -> IO[bytes]:
        return self._stdin

    @property
    def stdout(self) -> IO[bytes]:
        return self._stdout

    @property
    def stderr(self) -> None:
        """It goes to the log."""
        return None

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
        if self.returncode is None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._watched, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Closes the pipes, by which a broker is told to stop, and waits."""
        self._stdin.close()
        self._stdout.close()
        self.wait()

    def _look(self, timeout_s: float | None) -> int | None:
        """The exit status; None if it lives after this time. The status stays where it is: a forked copy of the
        program may have looked before."""
        deadline = _Deadline(timeout_s)
        if self.returncode is None and _is_readable(self._answers.fileno(), deadline):
            answer = self._answers.recv(_ANSWER_OCTETS, socket.MSG_PEEK)
            if answer:
                self.returncode = int(answer)
            elif _is_readable(self._watched, deadline):  # there is nobody any more who could tell
                self.returncode = STATUS_UNKNOWN
        return self.returncode


class ForkServer:
    """The process, and the socket over which it is asked."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._start = _of_the_start(environment), _inherited()
        self._forked: weakref.WeakSet[ForkedProcess] = weakref.WeakSet()
        self._asking, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "amqp_broker.cli.fork_server"],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                env=dict(environment),
                process_group=0,
            )

    @property
    def is_there(self) -> bool:
        return self._process.poll() is None

    def serves(self, environment: Mapping[str, str]) -> bool:
        """Whether a broker with this environment may come from it."""
        return self.is_there and self._start == (_of_the_start(environment), _inherited())

    def fork(
        self, arguments: Sequence[str], environment: Mapping[str, str], log: IO[bytes], timeout_s: float
    ) -> ForkedProcess:
        """A process that runs the command amqp-broker with these arguments. Raises OSError; then there is none."""
        text = json.dumps({"arguments": arguments, "environment": dict(environment)}).encode()
        with ExitStack() as ours, ExitStack() as theirs:
            folder = os.open(".", os.O_PATH)
            theirs.callback(os.close, folder)
            answers, told = socket.socketpair()
            ours.enter_context(answers)
            theirs.enter_context(told)
            theirs_in, ours_in = os.pipe()
            theirs.callback(os.close, theirs_in)
            stdin = ours.enter_context(open(ours_in, "wb", 0))
            ours_out, theirs_out = os.pipe()
            theirs.callback(os.close, theirs_out)
            stdout = ours.enter_context(open(ours_out, "rb", 0))

            deadline = _Deadline(timeout_s)
            self._send(text, [theirs_in, theirs_out, log.fileno(), folder, told.fileno()], deadline)
            theirs.close()  # or the end of the answers would not be seen
            pid, watched = self._receive(answers, deadline)
            process = ForkedProcess(["amqp-broker", *arguments], answers, pid, watched, (stdin, stdout))
            ours.pop_all()
        self._forked.add(process)
        return process

    def close(self) -> None:
        """It is asked no more, and goes when its last broker has ended. In a forked copy of its program it is let go
        of."""
        self._asking.close()

    def await_end(self) -> None:
        """At the end of the program. It is not waited for where a broker lives, which ends after the program."""
        if any(each.poll() is None for each in self._forked):
            return
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            with suppress(PermissionError):  # of a program that is root no longer
                self._process.kill()
                self._process.wait()

    def _send(self, text: bytes, descriptors: Sequence[int], deadline: _Deadline) -> None:
        self._asking.settimeout(deadline.left_s)
        try:
            socket.send_fds(self._asking, [len(text).to_bytes(_LENGTH_OCTETS)], descriptors)
            self._asking.sendall(text)
        except TimeoutError:
            self._process.kill()
            raise

    def _receive(self, answers: socket.socket, deadline: _Deadline) -> tuple[int, int]:
        """The process's number and descriptor. Raises OSError where there is no such process: it answers itself, so
        that the end of the answers says that there is none, whatever became of the fork server."""
        if not _is_readable(answers.fileno(), deadline):
            self._process.kill()  # it has stopped, perhaps, and must not go on with this later
        answers.settimeout(_END_S)
        answer, descriptors, _, _ = socket.recv_fds(answers, _ANSWER_OCTETS, 1)
        answers.settimeout(None)
        if not descriptors:
            raise OSError("the fork server has ended, or had no room for another process")
        os.set_inheritable(descriptors[0], False)
        return int(answer), descriptors[0]


class _Deadline:
    """A time until which something may take; None: for ever."""

    def __init__(self, timeout_s: float | None) -> None:
        self._at = None if timeout_s is None else time.monotonic() + timeout_s

    @property
    def left_s(self) -> float | None:
        return None if self._at is None else max(0.0, self._at - time.monotonic())


def fork(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    secrets: Mapping[str, str],
    log: IO[bytes],
    timeout_s: float,
) -> ForkedProcess | None:
    """A process that runs the command amqp-broker with these arguments, by this program's fork server. secrets: what
    is in its environment besides, and in nobody else's. log: its standard error. None where it could not be had within
    this time; then nothing was started, and another fork server is next."""
    with _guard:
        try:
            return _fork_server(environment).fork(arguments, {**environment, **secrets}, log, timeout_s)
        except OSError:
            _replace_fork_server()
            return None


def _fork_server(environment: Mapping[str, str]) -> ForkServer:
    """The one that there is, or the one that takes its place."""
    global _server, _other
    _replaced[:] = [each for each in _replaced if each.is_there]
    if _server is None or not _server.serves(environment):
        _server, _other = _other, _server  # threads may differ in what they hand down, and take turns
        if _server is not None and not _server.serves(environment):
            _replace_fork_server()
    if _server is None:
        _server = ForkServer(environment)
    return _server


def _replace_fork_server() -> None:
    global _server
    if _server is not None:
        _server.close()
        _replaced.append(_server)
        _server = None


def forget_after_fork() -> None:
    """In a forked copy of the program: the fork servers are the original's."""
    global _guard, _server, _other
    _guard = threading.Lock()
    for each in (_server, _other):
        if each is not None:
            each.close()
    _server = _other = None
    _replaced.clear()


def _is_readable(descriptor: int, deadline: _Deadline) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    left_s = deadline.left_s
    return bool(poll.poll(None if left_s is None else left_s * 1000))


def _is_possible() -> bool:
    """Whether processes have descriptors here: an old kernel, or a filter of system calls, says so only when asked."""
    try:
        own = os.pidfd_open(os.getpid())
        try:
            signal.pidfd_send_signal(own, 0)
        finally:
            os.close(own)
        return any(line.startswith("Umask:") for line in _inherited_status())
    except (AttributeError, OSError):
        return False


def _inherited() -> tuple[object, ...]:
    """What a process has of the thread that starts it, and may be changed while that runs. Raises OSError."""
    limits = tuple(resource.getrlimit(each) for each in _LIMITS)
    root = os.stat("/")
    return limits, os.getpriority(os.PRIO_PROCESS, 0), (root.st_dev, root.st_ino), _inherited_status()


def _inherited_status() -> list[str]:
    with open("/proc/thread-self/status", encoding="utf-8", errors="surrogateescape") as status:
        return [line for line in status if line.startswith(_OF_THE_STATUS)]


def _of_the_start(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(_OF_THE_START)}


def _let_go(answers: socket.socket, watched: int) -> None:
    answers.close()
    os.close(watched)


@atexit.register
def _close() -> None:
    """Takes no guard: a thread that is starting a broker now finds the fork server gone."""
    servers = [each for each in (*_replaced, _other, _server) if each is not None]
    for each in servers:
        each.close()
    for each in servers:
        each.await_end()


IS_POSSIBLE = _is_possible()
_server: ForkServer | None = None
#: The one that was used before it, for who wants that again.
_other: ForkServer | None = None
#: They wait for the ends of their brokers.
_replaced: list[ForkServer] = []
_guard = threading.Lock()

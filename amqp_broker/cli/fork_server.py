"""The fork server of the embedded mode: `python -m amqp_broker.cli.fork_server` loads what a broker is once, and is
forked for each one that is asked for. To load it takes ten times as long as to fork.

It is asked over its standard input, a socket of the program that embeds brokers, and goes with it:

    request    4 octets of length, big endian, with five descriptors: standard input, output and error of the broker,
               its folder, and a socket on which the answers go; then a JSON object of that length: `arguments` of the
               command amqp-broker and its `environment`
    answers    of the broker itself: its number with a descriptor of the process (a pidfd); of the fork server, when
               it has ended: its exit status, as `Popen.returncode` has it; each a line. Where they end without the
               first there is no process, where they end without the second nobody was told

Invariants:
1. A broker is a process as it would be without this one: its own group, descriptors, environment and folder.
2. Whoever has the descriptor of a process has a name for it that never becomes another's: it is taken before the
   process can be waited for.
3. There is one thread here, as a fork copies one only.
4. Nobody asks any more: it stays until the end of its last broker was told.
"""

from __future__ import annotations

import gc
import json
import os
import selectors
import signal
import socket
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from typing import NamedTuple

from amqp_broker import plain
from amqp_broker.cli.main import main

_LENGTH_OCTETS = 4
_DESCRIPTORS = 5


class Request(NamedTuple):
    """What is asked for, and the descriptors that came with it."""

    arguments: list[str]
    environment: Mapping[str, str]
    standard: list[int]
    folder: int
    answers: socket.socket

    def close(self) -> None:
        """But for the answers."""
        for descriptor in (*self.standard, self.folder):
            os.close(descriptor)


class Child(NamedTuple):
    """A broker that runs, and where its exit status is told."""

    pid: int
    answers: socket.socket

    def tell_end(self) -> None:
        """Waits until it has ended."""
        with suppress(OSError), self.answers:  # who asked may have gone, or somebody has waited
            _, status = os.waitpid(self.pid, 0)
            self.answers.send(b"%d\n" % os.waitstatus_to_exitcode(status))

    def forget(self) -> None:
        self.answers.close()


def load_broker() -> None:
    """Load what a broker needs. What cannot be loaded is its own to say."""
    plain.pin_packages()
    for name in ("amqp_broker.cli.serve", "amqp_broker.server.main", "uvloop"):
        with suppress(Exception):
            import_module(name)


def await_request(asking: socket.socket) -> Request | None:
    """Returns the request in each broker, and None in the fork server itself when nobody asks any more and the last
    broker has ended."""
    with selectors.DefaultSelector() as selector:
        selector.register(asking, selectors.EVENT_READ)
        while selector.get_map():
            for key, _ in selector.select():
                if isinstance(key.data, Child):
                    selector.unregister(key.fd)
                    os.close(key.fd)
                    key.data.tell_end()
                    continue
                request = _receive(asking)
                if request is None:
                    selector.unregister(asking)
                    continue
                if _fork(request, selector) == 0:
                    return request
    return None


def become(request: Request) -> None:
    """Make this process what it would be, had the program started it by itself."""
    os.setpgid(0, 0)  # Ctrl-C is for the caller, who then stops the broker
    _tell_start(request.answers)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())  # the caller's may have been blocked when it started the fork server
    os.fchdir(request.folder)
    for number, descriptor in enumerate(request.standard):
        os.dup2(descriptor, number)
    request.close()
    os.environ.clear()
    os.environ.update(request.environment)


def _receive(asking: socket.socket) -> Request | None:
    """None where nobody asks any more, and where there is no room here for the descriptors: another fork server has."""
    head, descriptors, _, _ = socket.recv_fds(asking, _LENGTH_OCTETS, _DESCRIPTORS, socket.MSG_WAITALL)
    length, text = int.from_bytes(head), bytearray()
    while len(text) < length and (part := asking.recv(length - len(text))):
        text += part
    if len(descriptors) == _DESCRIPTORS and len(text) == length:
        *standard, folder, answers = descriptors
        return Request(**json.loads(text), standard=standard, folder=folder, answers=socket.socket(fileno=answers))
    if length:
        _say(f"a request of {len(text)} octets instead of {length}, {len(descriptors)} descriptors of {_DESCRIPTORS}")
    for each in descriptors:
        os.close(each)
    return None


def _fork(request: Request, selector: selectors.BaseSelector) -> int:
    """0 in the broker. What cannot be forked has no answer but the end of the answers."""
    try:
        pid = os.fork()
    except OSError as error:
        _say(f"no process: {error.strerror}")
        request.close()
        request.answers.close()
        return -1
    if pid == 0:
        _let_go(selector)
        return pid
    request.close()
    child = Child(pid, request.answers)
    try:
        selector.register(os.pidfd_open(pid), selectors.EVENT_READ, child)
    except OSError as error:
        _say(f"process {pid} cannot be watched, and is killed: {error.strerror}")
        os.kill(pid, signal.SIGKILL)
        child.tell_end()
    return pid


def _tell_start(answers: socket.socket) -> None:
    """By the broker itself: what the fork server has forked answers, even if it is killed now."""
    watched = os.pidfd_open(os.getpid())
    with suppress(OSError), answers:  # who asked may have gone
        socket.send_fds(answers, [b"%d\n" % os.getpid()], [watched])
    os.close(watched)


def _say(what: str) -> None:
    with suppress(OSError):  # the standard error of who asks
        print(f"amqp-broker: fork server: {what}; the broker is started without it", file=sys.stderr)


def _let_go(selector: selectors.BaseSelector) -> None:
    """A broker has nothing to do with the others, and the request socket is its standard input no longer."""
    for key in list(selector.get_map().values()):
        if isinstance(key.data, Child):
            os.close(key.fd)
            key.data.forget()


def serve() -> int:
    """Returns the exit status: of a broker in each broker, and of the fork server in itself."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # who ignores the ends of children hands that down, and they are gone
    asking = socket.socket(fileno=0)
    load_broker()
    # A broker's collector does not look at it, so its pages stay shared. Before there is next to no garbage.
    gc.freeze()
    request = await_request(asking)
    asking.detach()
    if request is None:
        return 0
    become(request)
    return main(request.arguments)


if __name__ == "__main__":
    sys.exit(serve())

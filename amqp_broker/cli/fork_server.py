"""The fork server of the embedded mode: `python -m amqp_broker.cli.fork_server` loads what a broker is once, and is
forked for each one that is asked for. To load it takes ten times as long as to fork.

It is asked over its standard input, a socket of the program that embeds brokers, and goes with it:

    request    4 octets of length, big endian, with five descriptors: standard input, output and error of the broker,
               its folder, and a socket on which the answers go; then a JSON object of that length: `arguments` of the
               command amqp-broker and its `environment`
    answers    the process's number with a descriptor of the process (a pidfd); later its exit status, as
               `Popen.returncode` has it; each a line

Invariants:
1. A broker is a process as it would be without this one: its own group, descriptors, environment and folder.
2. Whoever has the descriptor of a process has a name for it that never becomes another's: it is taken before the
   process can be waited for.
3. There is one thread here, as a fork copies one only.
"""

from __future__ import annotations

import gc
import json
import os
import selectors
import socket
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from typing import NamedTuple

from amqp_broker import plain
from amqp_broker.cli.main import main

_LENGTH_OCTETS = 4


class Request(NamedTuple):
    """What is asked for, and the descriptors that came with it."""

    arguments: list[str]
    environment: Mapping[str, str]
    standard: list[int]
    folder: int
    answers: socket.socket


class Child(NamedTuple):
    """A broker that runs, and where its exit status is told."""

    pid: int
    answers: socket.socket


def load_broker() -> None:
    """Load what a broker needs. What cannot be loaded is its own to say."""
    plain.pin_packages()
    for name in ("amqp_broker.cli.serve", "amqp_broker.server.main", "uvloop"):
        with suppress(Exception):
            import_module(name)


def await_request(asking: socket.socket) -> Request | None:
    """Returns the request in each broker, and None in the fork server itself when nobody asks any more."""
    with selectors.DefaultSelector() as selector:
        selector.register(asking, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if isinstance(key.data, Child):
                    selector.unregister(key.fileobj)
                    _tell_end(key.fd, key.data)
                    continue
                request = _receive(asking)
                if request is None:
                    return None
                pid = os.fork()
                if pid == 0:
                    _let_go(selector)
                    return request
                selector.register(_tell_start(pid, request), selectors.EVENT_READ, Child(pid, request.answers))


def become(request: Request) -> None:
    """Make this process what it would be, had the program started it by itself."""
    os.setpgid(0, 0)  # Ctrl-C is for the caller, who then stops the broker
    os.fchdir(request.folder)
    for number, descriptor in enumerate(request.standard):
        os.dup2(descriptor, number)
    _close(request)
    request.answers.close()
    os.environ.clear()
    os.environ.update(request.environment)


def _receive(asking: socket.socket) -> Request | None:
    head, descriptors, _, _ = socket.recv_fds(asking, _LENGTH_OCTETS, 5, socket.MSG_WAITALL)
    if not head:
        return None
    asked = json.loads(asking.recv(int.from_bytes(head), socket.MSG_WAITALL))
    *standard, folder, answers = descriptors
    return Request(**asked, standard=standard, folder=folder, answers=socket.socket(fileno=answers))


def _tell_start(pid: int, request: Request) -> int:
    """Returns the process's descriptor."""
    _close(request)
    watched = os.pidfd_open(pid)
    with suppress(OSError):  # who asked may have gone
        socket.send_fds(request.answers, [b"%d\n" % pid], [watched])
    return watched


def _tell_end(watched: int, child: Child) -> None:
    _, status = os.waitpid(child.pid, 0)
    os.close(watched)
    with suppress(OSError), child.answers:
        child.answers.send(b"%d\n" % os.waitstatus_to_exitcode(status))


def _close(request: Request) -> None:
    for descriptor in (*request.standard, request.folder):
        os.close(descriptor)


def _let_go(selector: selectors.BaseSelector) -> None:
    """A broker has nothing to do with the others, and the request socket is its standard input no longer."""
    for key in list(selector.get_map().values()):
        if isinstance(key.data, Child):
            os.close(key.fd)
            key.data.answers.close()


def serve() -> int:
    """Returns the exit status: of a broker in each broker, and of the fork server in itself."""
    asking = socket.socket(fileno=0)
    load_broker()
    gc.collect()
    gc.freeze()  # a broker's collector does not look at it, so its pages stay shared
    request = await_request(asking)
    asking.detach()
    if request is None:
        return 0
    become(request)
    return main(request.arguments)


if __name__ == "__main__":
    sys.exit(serve())

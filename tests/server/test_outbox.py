"""What is said between a supervisor and a worker waits for room, and is not lost."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator

import pytest

from amqp_broker.server.outbox import MOST_WAITING, Outbox


class Pair:
    """An outbox, and whoever reads from it. wishes: what the outbox has said of room."""

    def __init__(self) -> None:
        self.ours, self.theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for each in (self.ours, self.theirs):
            each.setblocking(False)
        self.wishes: list[bool] = []
        self.outbox = Outbox(self.ours, self.wishes.append)

    def fill(self) -> int:
        """Until there is no room any more. Returns what was said."""
        count = 0
        while self.outbox.offer(b"filler", ()):
            count += 1
        return count

    def read(self) -> list[tuple[bytes, list[int]]]:
        found: list[tuple[bytes, list[int]]] = []
        while True:
            try:
                said, descriptors, _, _ = socket.recv_fds(self.theirs, 100, 1)
            except BlockingIOError:
                return found
            found.append((said, descriptors))


@pytest.fixture
def pair() -> Iterator[Pair]:
    made = Pair()
    yield made
    made.outbox.clear()
    made.ours.close()
    made.theirs.close()


def test_what_there_is_no_room_for_leaves_later_in_order_and_once(pair: Pair) -> None:
    before = pair.fill()
    reader, writer = os.pipe()
    pair.outbox.put(b"one")
    pair.outbox.put(b"two", [writer])
    pair.outbox.put(b"three")
    assert pair.outbox.is_waiting
    assert pair.wishes == [True]
    assert not pair.outbox.offer(b"four", ()), "it would come before the others"
    assert len(pair.read()) == before
    pair.outbox.flush()
    assert pair.wishes == [True, False]
    (one, two, three) = pair.read()
    assert [each[0] for each in (one, two, three)] == [b"one", b"two", b"three"]
    os.write(two[1][0], b"through")
    assert os.read(reader, 100) == b"through"
    os.close(two[1][0])
    assert os.read(reader, 100) == b"", "its copy here is closed"
    os.close(reader)
    assert not pair.outbox.is_waiting


def test_what_is_too_much_is_refused_and_closed(pair: Pair) -> None:
    pair.fill()
    for _ in range(MOST_WAITING):
        pair.outbox.put(b"more")
    reader, writer = os.pipe()
    with pytest.raises(OSError, match="wait already"):
        pair.outbox.put(b"too much", [writer])
    assert os.read(reader, 1) == b""
    os.close(reader)


def test_what_is_for_a_process_that_is_gone_is_counted(pair: Pair) -> None:
    pair.fill()
    reader, writer = os.pipe()
    pair.outbox.put(b"client", [writer])
    pair.theirs.close()
    pair.outbox.flush()
    assert pair.wishes == [True, False], "no room is waited for where nobody reads"
    assert pair.outbox.clear() == 1
    assert os.read(reader, 1) == b""
    os.close(reader)


def test_a_system_that_is_short_of_something_is_asked_again(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.ETOOMANYREFS, "too many references")

    with monkeypatch.context() as short:
        short.setattr(socket, "send_fds", refuse)
        pair.outbox.put(b"later")
    assert pair.outbox.is_waiting
    assert pair.wishes == []
    pair.outbox.flush()
    assert pair.read() == [(b"later", [])]

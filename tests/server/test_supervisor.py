"""The supervisor of several workers, without their processes: what it says to whom, and what it does not lose."""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from amqp_broker.server.main import _reload_log
from amqp_broker.server.moves import MOVE, NUMBER_BYTES
from amqp_broker.server.sockets import address_of
from amqp_broker.server.supervisor import Supervisor, Worker
from amqp_broker.server.worker import GONE, LEND, PLAIN, SERVING, SILENT, WORD, word_s
from amqp_broker.settings.config import Config
from amqp_broker.settings.kinds import Address

HELD = 3


class World:
    """A supervisor, and the other ends of what it says to its workers. reloads: how often it was told to reload."""

    def __init__(self, data_dir: Path, workers: int) -> None:
        config = replace(
            Config(), data_dir=data_dir, workers=workers, listen=(Address("127.0.0.1", 0),), listen_backlog=HELD,
            management_listen=(), prometheus_listen=(),
        )  # fmt: skip
        self.reloads = 0
        self.supervisor = Supervisor(config, self._reload)
        self.ends: dict[int, socket.socket] = {}
        self._stack = ExitStack()
        for worker in self.supervisor.workers.values():
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            for each in (ours, theirs):
                each.setblocking(False)
            self.ends[worker.number] = self._stack.enter_context(theirs)
            self.supervisor._connect(worker, ours)
        for worker in self.supervisor.workers.values():
            worker.process_id = os.getpid()
            worker.word_at = time.monotonic()

    def _reload(self) -> None:
        self.reloads += 1

    def worker(self, number: int) -> Worker:
        return self.supervisor.workers[number]

    def run(self, number: int, *command: str) -> None:
        """A worker is this process from now on."""
        worker, process = self.worker(number), subprocess.Popen(command)
        worker.process_id, worker.watched = process.pid, os.pidfd_open(process.pid)
        self.supervisor._selector.register(worker.watched, 1, lambda: None)
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)

    def end(self, number: int) -> None:
        """Wait for its end, and tell the supervisor."""
        os.waitid(os.P_PID, self.worker(number).process_id, os.WEXITED | os.WNOWAIT)
        self.supervisor._ended(self.worker(number))

    def turn(self) -> None:
        for key, _ in self.supervisor._selector.select(0.05):
            key.data()
        self.supervisor._look()

    def fill(self, number: int) -> int:
        """What is said to a worker has no room any more. Returns what was."""
        outbox, count = self.worker(number).outbox, 0
        assert outbox is not None
        while outbox.offer(PLAIN, ()):
            count += 1
        return count

    def heard(self, number: int) -> list[tuple[bytes, list[int]]]:
        """What a worker has been told since, but of memory."""
        found: list[tuple[bytes, list[int]]] = []
        while True:
            try:
                said, descriptors, _, _ = socket.recv_fds(self.ends[number], 100, 1)
            except BlockingIOError:
                return found
            if said[:1] != LEND:
                found.append((said, descriptors))

    def close(self) -> None:
        for worker in self.supervisor.workers.values():
            worker.process_id = 0
        self.supervisor.close()
        self._stack.close()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path, 3)
    yield made
    made.close()


def test_a_client_on_its_way_to_a_worker_that_does_not_read_waits_for_it(world: World) -> None:
    before = world.fill(1)
    clients = [socket.socketpair() for _ in range(100)]
    said = MOVE + (1).to_bytes(NUMBER_BYTES, "big")
    for number, (client, gone) in enumerate(clients):
        socket.send_fds(world.ends[0], [said + b"%d" % number], [gone.fileno()])
        gone.close()
        world.turn()
        client.setblocking(False)
        with pytest.raises(BlockingIOError):
            client.recv(1)
    assert len(world.heard(1)) == before
    for _ in range(10):
        world.turn()
    heard = world.heard(1)
    assert [each[0] for each in heard] == [MOVE + b"%d" % number for number in range(100)]
    for (client, _), (_, (descriptor,)) in zip(clients, heard, strict=True):
        os.write(descriptor, b"x")
        assert client.recv(1) == b"x"
        os.close(descriptor)
        assert client.recv(1) == b"", "no copy is left"
        client.close()


def test_who_ends_before_it_takes_clients_of_others_is_said_to_have_lost_them(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.fill(1)
    client, gone = socket.socketpair()
    socket.send_fds(world.ends[0], [MOVE + (1).to_bytes(NUMBER_BYTES, "big") + b"token"], [gone.fileno()])
    gone.close()
    world.turn()
    world.ends[1].close()
    world.turn()
    assert client.recv(1) == b""
    client.close()
    assert "worker 1 has ended before it could be given 1 clients of others" in caplog.text


def test_what_all_are_told_waits_for_who_does_not_read(world: World) -> None:
    before = world.fill(2)
    world.supervisor._tell_serving(world.worker(2))
    assert len(world.heard(2)) == before
    world.turn()
    assert world.heard(2) == [(SERVING, [])]


def test_a_worker_that_is_gone_is_nobodys_to_call(world: World) -> None:
    link = world.worker(2).link
    world.supervisor._write_workers()
    world.run(2, "true")
    world.worker(2).is_empty = True
    world.end(2)
    gone = GONE + (2).to_bytes(8, "big")
    assert [said for number in (0, 1) for said, _ in world.heard(number)] == [gone, gone]
    assert link.fileno() == -1, "nobody connects to what nobody accepts from"
    assert sorted(world.supervisor._addresses) == [0, 1], "who starts later does not hear of it"


def test_one_that_was_empty_and_dies_starts_again_and_may_be_empty_again(world: World) -> None:
    world.run(2, "false")
    world.worker(2).is_empty = True
    world.end(2)
    assert world.worker(2).start_at is not None
    assert not world.worker(2).is_empty


def test_worker_0_has_as_long_to_stop_as_the_others_had(world: World) -> None:
    for number, command in ((0, ("sleep", "60")), (1, ("true",)), (2, ("true",))):
        world.run(number, *command)
    world.supervisor._is_stopping = True
    world.supervisor._stop_by = time.monotonic() + 0.01
    world.end(1)
    world.end(2)
    assert world.supervisor._stop_by > time.monotonic() + 5


def test_no_more_clients_are_held_than_the_backlog(world: World) -> None:
    """No worker is ready."""
    supervisor = world.supervisor
    supervisor._is_serving = True
    (listener,) = supervisor._plain
    listener.setblocking(False)
    listener.listen(100)
    supervisor._accept_clients()
    with ExitStack() as stack:
        for _ in range(3 * HELD):
            stack.enter_context(socket.create_connection(address_of(listener)))
        until = time.monotonic() + 0.5
        while time.monotonic() < until:
            world.turn()
        assert len(supervisor._held) == HELD
        world.worker(0).is_ready = True
        deadline = time.monotonic() + 20
        heard: list[tuple[bytes, list[int]]] = []
        while len(heard) < 3 * HELD:
            assert time.monotonic() < deadline, "who waited in the listener is not accepted any more"
            world.turn()
            heard += world.heard(0)
        for _, descriptors in heard:
            os.close(descriptors[0])


def test_the_others_hear_of_a_worker_whose_loop_stands_still_once(world: World) -> None:
    world.supervisor._looked_at = time.monotonic()
    world.worker(1).word_at -= 4.0
    world.supervisor._look()
    world.supervisor._look()
    silent: tuple[bytes, list[int]] = (SILENT + (1).to_bytes(8, "big"), [])
    assert [world.heard(number) for number in range(3)] == [[silent], [], [silent]]
    world.ends[1].send(WORD + bytes(40))
    world.turn()
    world.worker(1).word_at -= 4.0
    world.supervisor._look()
    assert world.heard(0) == [silent]


def test_words_come_often_enough_for_whoever_waits_for_them() -> None:
    for limits in ((10_000, 3000), (1000, 3000), (10_000, 60_000), (200, 3000)):
        config = replace(Config(), worker_timeout_ms=max(1000, limits[0]), peer_timeout_ms=max(1000, limits[1]))
        assert 0.05 <= word_s(config) <= min(1.0, config.worker_timeout_ms / 3000, config.peer_timeout_ms / 3000)


def test_a_node_at_rest_is_looked_at_rarely(world: World) -> None:
    supervisor = world.supervisor
    assert supervisor._look_s() == 0.1
    supervisor._is_serving = True
    assert supervisor._look_s() >= 0.5
    world.fill(1)
    supervisor._tell_serving(world.worker(1))
    assert supervisor._look_s() == 0.1


def test_sighup_reloads_the_supervisor_too(world: World) -> None:
    for worker in world.supervisor.workers.values():
        worker.is_ready = False
    world.supervisor._woken.send(bytes([signal.SIGHUP]))
    world.supervisor._on_signal()
    assert world.reloads == 1


def test_the_log_is_as_the_settings_say_now(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    root = logging.getLogger()
    monkeypatch.setattr(root, "level", root.level)
    handler = logging.StreamHandler()
    _reload_log(partial(replace, Config(), log_level="warning", log_format="json"), handler)
    assert root.level == logging.WARNING
    assert handler.format(logging.LogRecord("a", 30, "", 0, "text", (), None)).startswith("{")

    def fail() -> Config:
        raise OSError("it is gone")

    _reload_log(fail, handler)
    assert "the log of the supervisor stays as it is: it is gone" in caplog.text


def test_a_worker_is_told_whether_others_are_there(world: World) -> None:
    """What is not durable goes when the node starts as a whole, and not with worker 0."""
    supervisor = world.supervisor
    for worker in supervisor.workers.values():
        worker.process_id = 0
    assert not supervisor._config_of(world.worker(0)).worker_joins
    world.worker(0).process_id = os.getpid()
    assert not supervisor._config_of(world.worker(0)).worker_joins
    world.worker(1).process_id = os.getpid()
    assert supervisor._config_of(world.worker(0)).worker_joins
    for worker in supervisor.workers.values():
        worker.process_id = os.getpid()

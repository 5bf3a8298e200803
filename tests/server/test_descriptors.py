"""A process that may have few files open: a crowd of clients takes nothing from the disk, and ends nothing."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from amqp_broker.protocol import methods as m
from amqp_broker.server.descriptors import ClientRoom
from storage.disk import FileDisk
from tests.robustness.broker import Broker, Witness, frames_of


def test_the_soft_limit_is_raised_to_the_hard_one(tmp_path: Path) -> None:
    with Broker(tmp_path, ulimit="-S -n 256") as broker:
        line = next(
            line
            for line in Path(f"/proc/{broker.process.pid}/limits").read_text().splitlines()
            if line.startswith("Max open files")
        )
        soft, hard = line.split()[3:5]
        assert soft == hard != "256"
        assert "(max_connections)" not in broker.log_text() or int(hard) < 12_000


def test_more_silent_clients_than_descriptors(tmp_path: Path) -> None:
    """The oldest make room for those who come; files are opened all the while."""
    with Broker(tmp_path, "--handshake-timeout", "60s", ulimit="-n 400") as broker:
        assert "at most 168 connections, not 10000 (max_connections)" in broker.log_text()
        with Witness(broker), ExitStack() as opened:
            for _ in range(450):
                opened.enter_context(broker.socket()).sendall(b"AMQP")
            with broker.connect() as client:
                channel = client.channel()
                for number in range(30):
                    channel.call(m.QueueDeclare(queue=f"durable {number}", durable=True))
                    channel.publish("", f"durable {number}", b"x", properties={"delivery_mode": 2})
                channel.confirm_select()
            assert broker.statistics()["is_full"] is False
        assert broker.process.poll() is None
    assert "the disk has failed" not in broker.log_text()


def test_more_clients_than_descriptors(tmp_path: Path) -> None:
    """As many as there is room for are let in, others are told why they are not, and there is room when some go."""
    with Broker(tmp_path, ulimit="-n 400") as broker:
        with Witness(broker), ExitStack() as opened:
            answers: list[object] = []
            for _ in range(230):
                frames = frames_of(opened.enter_context(broker.raw()), until=3)
                answers.append(m.decode_method(frames[2][1]))
            assert sum(isinstance(answer, m.ConnectionOpenOk) for answer in answers) == 168 - 1
            refusals = [answer for answer in answers if isinstance(answer, m.ConnectionClose)]
            assert len(refusals) == 230 - 167
            assert {refusal.reply_code for refusal in refusals} == {530}
            assert "max_connections" in refusals[0].reply_text
        with broker.connect() as client:
            client.channel()
        assert broker.statistics()["is_full"] is False


def test_nobody_is_accepted_while_there_is_no_room(caplog: pytest.LogCaptureFixture) -> None:
    changes: list[bool] = []
    listened: list[str] = []
    room = ClientRoom(8, 100, changes.append)
    assert (room.most, room.connections) == (4, 1)
    assert [room.take() for _ in range(4)] == [True, True, True, False]
    room.wait(lambda: listened.append("plain"))
    room.wait(lambda: listened.append("tls"))
    assert changes == [True]
    assert caplog.text.count("no client is accepted until one goes") == 1
    room.give()
    assert listened == ["plain", "tls"]
    assert changes == [True, False]
    assert room.take() is False


@pytest.fixture
def limit_restored() -> Iterator[None]:
    """The soft limit of this process is afterwards what it was."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("limit_restored")
def test_a_disk_without_descriptors_takes_them_from_files_that_nobody_uses(tmp_path: Path) -> None:
    disk = FileDisk(tmp_path / "data")
    disk.make_folder("")
    for number in range(10):
        disk.append(f"old {number}", [b"x"])
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = max(int(path.name) for path in Path("/proc/self/fd").iterdir())
    resource.setrlimit(resource.RLIMIT_NOFILE, (used, hard))
    with ExitStack() as taken:
        while True:
            try:
                taken.enter_context(Path("/dev/null").open("rb"))
            except OSError:
                break
        for number in range(5):
            disk.append(f"new {number}", [b"y"])
            disk.sync(f"new {number}")
        disk.sync_folder("")
        assert disk.read("old 3", 0, 10) == b"x"
    disk.close()

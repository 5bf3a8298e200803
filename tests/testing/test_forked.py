"""Brokers come from a fork server: each is a process as it would be without one, and what happens to the fork server is
no concern of theirs."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
from pathlib import Path

import pytest

import amqp_broker
from amqp_broker.testing import forked
from tests.testing.test_running import is_alive

pytestmark = pytest.mark.skipif(not forked.IS_POSSIBLE, reason="brokers are forked where processes have descriptors")


def parent_of(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("PPid:")[2].split()[0])


def test_the_second_comes_from_where_the_first_came_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with amqp_broker.running() as first:
        server = parent_of(first.process.pid)
    monkeypatch.chdir(tmp_path)
    with amqp_broker.running() as second:
        pid = second.process.pid
        assert parent_of(pid) == server != os.getpid()
        assert os.getpgid(pid) == pid, "an interrupt from the keyboard is not for it"
        assert Path(f"/proc/{pid}/cwd").resolve() == tmp_path


def test_it_has_the_limits_that_the_program_has_now() -> None:
    with amqp_broker.running():
        pass
    soft, hard = resource.getrlimit(resource.RLIMIT_STACK)
    wanted = 1 << 26 if soft == resource.RLIM_INFINITY else soft // 2
    resource.setrlimit(resource.RLIMIT_STACK, (wanted, hard))
    try:
        with amqp_broker.running() as broker:
            assert resource.prlimit(broker.process.pid, resource.RLIMIT_STACK)[0] == wanted
    finally:
        resource.setrlimit(resource.RLIMIT_STACK, (soft, hard))


def test_it_has_no_descriptor_of_another() -> None:
    """Or the first would not see the end of its input while the second lives."""
    with amqp_broker.running() as first, amqp_broker.running() as second:
        assert first.process.stdin is not None
        pipe = os.readlink(f"/proc/self/fd/{first.process.stdin.fileno()}")
        pids = (first.process.pid, second.process.pid, parent_of(first.process.pid))
        held = [[each.readlink().name for each in Path(f"/proc/{pid}/fd").iterdir()] for pid in pids]
    assert [pipe in files for files in held] == [True, False, False]


def test_how_it_ended_is_known() -> None:
    broker = amqp_broker.running().start()
    with pytest.raises(subprocess.TimeoutExpired):
        broker.process.wait(0.01)
    assert broker.process.poll() is None
    process = broker.process
    process.kill()
    assert process.wait() == process.poll() == process.returncode == -signal.SIGKILL
    process.terminate()
    broker.stop()
    assert process.poll() == -signal.SIGKILL


def test_what_the_interpreter_reads_at_its_start_is_what_it_is_now(monkeypatch: pytest.MonkeyPatch) -> None:
    def variables(pid: int) -> list[bytes]:
        return Path(f"/proc/{parent_of(pid)}/environ").read_bytes().split(b"\0")

    with amqp_broker.running(default_password="swordfish") as before:
        assert not [each for each in variables(before.process.pid) if b"swordfish" in each]
        monkeypatch.setenv("PYTHONHASHSEED", "5")
        with amqp_broker.running() as after:
            assert b"PYTHONHASHSEED=5" in variables(after.process.pid)
            assert is_alive(before), "whose fork server has ended"


def test_a_fork_server_that_is_killed_takes_nothing_along() -> None:
    broker = amqp_broker.running().start()
    os.kill(parent_of(broker.process.pid), signal.SIGKILL)
    assert is_alive(broker)
    process = broker.process
    with amqp_broker.running() as another:
        assert is_alive(another)
    broker.stop()
    assert process.returncode == forked.STATUS_UNKNOWN


def test_without_one_it_is_a_child_like_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forked, "IS_POSSIBLE", False)
    with amqp_broker.running() as broker:
        process = broker.process
        assert parent_of(process.pid) == os.getpid()
        assert is_alive(broker)
    assert process.returncode == 0

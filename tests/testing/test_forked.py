"""Brokers come from a fork server: each is a process as it would be without one, and what happens to the fork server is
no concern of theirs."""

from __future__ import annotations

import errno
import io
import os
import resource
import select
import selectors
import signal
import socket
import subprocess
from pathlib import Path

import pytest

import amqp_broker
from amqp_broker.cli import fork_server
from amqp_broker.testing import forked
from tests.testing.test_running import is_alive

pytestmark = pytest.mark.skipif(not forked.IS_POSSIBLE, reason="brokers are forked where processes have descriptors")


def status_of(pid: int, name: str) -> str:
    return Path(f"/proc/{pid}/status").read_text().partition(f"{name}:")[2].split()[0]


def parent_of(pid: int) -> int:
    return int(status_of(pid, "PPid"))


def wait_for(watched: int) -> None:
    ended, _, _ = select.select([watched], [], [], 30)
    assert ended


def failing(number: int) -> object:
    def fail(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    return fail


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
    copy = os.fork()
    if copy == 0:
        os._exit(process.wait() == -signal.SIGKILL)
    assert os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1]) == 1, "a forked copy of the program knows it too"
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
        assert broker.is_running
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.01)
    broker.stop()
    assert process.returncode == forked.STATUS_UNKNOWN


def test_without_one_it_is_a_child_like_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forked, "IS_POSSIBLE", False)
    with amqp_broker.running() as broker:
        process = broker.process
        assert parent_of(process.pid) == os.getpid()
        assert is_alive(broker)
    assert process.returncode == 0


def test_one_whose_place_is_taken_stays_for_its_brokers() -> None:
    before = os.umask(0o007)  # it has no broker of another test
    try:
        first = amqp_broker.running().start()
        process, server = first.process, os.pidfd_open(parent_of(first.process.pid))
        for mask in (0o027, 0o077):
            os.umask(mask)
            with amqp_broker.running() as another:
                assert status_of(another.process.pid, "Umask") == f"{mask:04o}"
                assert parent_of(another.process.pid) != parent_of(process.pid)
                assert first.is_running
    finally:
        os.umask(before)
    assert not select.select([server], [], [], 0)[0]
    first.stop()
    assert process.returncode == 0
    wait_for(server)
    os.close(server)


def test_threads_that_hand_down_something_else_take_turns_with_two() -> None:
    usual = os.umask(0o027)
    servers = []
    try:
        for mask in (0o027, usual, 0o027, usual):
            os.umask(mask)
            with amqp_broker.running() as broker:
                servers.append(parent_of(broker.process.pid))
    finally:
        os.umask(usual)
    assert servers[:2] == servers[2:]
    assert servers[0] != servers[1]


@pytest.mark.skipif(os.geteuid() != 0, reason="it takes root to become another user")
def test_a_program_that_is_root_no_longer_takes_another() -> None:
    before = forked._inherited()
    assert forked._inherited() == before
    copy = os.fork()
    if copy == 0:
        os.setuid(65534)
        os._exit(forked._inherited() == before)
    assert os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1]) == 0


def test_what_the_program_does_with_signals_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fork server that cannot wait for its children, and a broker that is deaf to SIGTERM, would be of no use."""
    monkeypatch.setenv("PYTHONHASHSEED", "6")  # it needs one that starts now
    handler = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    try:
        with amqp_broker.running() as broker:
            process, server = broker.process, parent_of(broker.process.pid)
            assert int(status_of(process.pid, "SigBlk"), 16) == 0
        with amqp_broker.running() as broker:
            assert parent_of(broker.process.pid) == server
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        signal.signal(signal.SIGCHLD, handler)
    assert process.returncode == 0


def test_one_that_has_stopped_is_not_waited_for() -> None:
    with amqp_broker.running() as first:
        os.kill(parent_of(first.process.pid), signal.SIGSTOP)
        second = amqp_broker.running(start_timeout_s=0.1)
        try:
            second.launch()
            second.wait_until_ready(30)
            assert parent_of(second.process.pid) == os.getpid()
            assert is_alive(first)
        finally:
            second.stop()


def test_one_without_room_for_another_is_replaced() -> None:
    with amqp_broker.running() as first:
        server = parent_of(first.process.pid)
        hard = resource.prlimit(server, resource.RLIMIT_NOFILE)[1]
        resource.prlimit(server, resource.RLIMIT_NOFILE, (len(os.listdir(f"/proc/{server}/fd")) + 2, hard))
        with amqp_broker.running() as second, amqp_broker.running() as third:
            assert parent_of(second.process.pid) == os.getpid()
            assert parent_of(third.process.pid) not in (server, os.getpid())
            assert parent_of(first.process.pid) == server
            process = first.process
    assert process.returncode == 0


def test_what_cannot_be_forked_has_no_answer(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "fork", failing(errno.EAGAIN))
    ours, theirs = socket.socketpair()
    *standard, folder = [os.open(os.devnull, os.O_RDONLY) for _ in range(4)]
    with ours, selectors.DefaultSelector() as selector:
        fork_server._fork(fork_server.Request([], {}, standard, folder, theirs), selector)
        assert ours.recv(1) == b""
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(folder)
    assert os.strerror(errno.EAGAIN) in capfd.readouterr().err


def test_the_process_answers_itself() -> None:
    """So that it is known of even where the fork server has ended since it was forked."""
    ours, theirs = socket.socketpair()
    with ours:
        fork_server._tell_start(theirs)
        answer, (watched,), _, _ = socket.recv_fds(ours, 64, 1)
        os.close(watched)
        assert (int(answer), ours.recv(1)) == (os.getpid(), b"")


def test_where_processes_have_no_descriptors_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """A filter of system calls says so only when it is asked."""
    assert forked._is_possible()
    with monkeypatch.context() as patch:
        patch.setattr(os, "pidfd_open", failing(errno.ENOSYS))
        assert not forked._is_possible()
    monkeypatch.setattr(signal, "pidfd_send_signal", failing(errno.EPERM))
    assert not forked._is_possible()


def test_its_descriptors_go_with_it_and_to_nobody() -> None:
    answers, theirs = socket.socketpair()
    watched = os.pidfd_open(os.getpid())
    process = forked.ForkedProcess([], answers, os.getpid(), watched, (io.BytesIO(), io.BytesIO()))
    del process
    with theirs, pytest.raises(OSError, match="Bad file"):
        os.fstat(watched)
    broker = amqp_broker.running().start()
    assert isinstance(broker.process, forked.ForkedProcess)
    assert not os.get_inheritable(broker.process._watched)
    with broker.process as ended:
        assert ended.stderr is None
    assert ended.returncode == 0, "the end of its input is what it stops at"
    broker.stop()

"""Disks that are full, fail, are damaged or are not ours: no confirm is ever false, nothing foreign is touched."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from amqp_broker.client.errors import ClientError, ClientTimeout
from amqp_broker.protocol import methods as m
from tests.robustness.broker import MIB, PROJECT_ROOT, Broker

PERSISTENT = {"delivery_mode": 2}
SMALL = ("--journal-segment-size", "1MiB", "--journal-limit", "2MiB", "--memory-budget", "64MiB")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 32 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=32m", "tmpfs", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"a small file system cannot be mounted here: {done.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def _contents(broker: Broker, queue: str) -> list[bytes]:
    with broker.connect() as client:
        channel = client.channel()
        found = []
        while (delivery := channel.get(queue)) is not None:
            found.append(delivery.body)
        return found


@pytest.mark.parametrize(("limit", "keeps_free"), [("0", 0), ("4MiB", 2 * MIB)], ids=["full", "low"])
def test_a_full_disk(small_disk: Path, limit: str, keeps_free: int) -> None:
    """Publishers are blocked and told so; what was confirmed is there after a kill; with room again everything goes
    on.
    """
    ballast = small_disk / "ballast"
    with Broker(small_disk, *SMALL, "--disk-free-limit", limit) as broker:
        with broker.connect(timeout=30.0) as client:
            channel = client.channel()
            channel.call(m.QueueDeclare(queue="kept", durable=True))
            channel.confirm_select()
            channel.publish("", "kept", b"before", PERSISTENT)
            assert channel.wait_for_confirms() == []
            free = shutil.disk_usage(small_disk).free
            with ballast.open("wb") as file:
                file.write(bytes(free - keeps_free))
            deadline = time.monotonic() + 60
            confirmed = 0
            while client.blocked_reason is None and time.monotonic() < deadline:
                channel.publish("", "kept", b"%06d" % confirmed + b"x" * 50_000, PERSISTENT)
                try:
                    channel.wait_for_confirms(1.5)
                except ClientTimeout:
                    continue
                confirmed += 1
            assert client.blocked_reason == "low on disk"
            ballast.unlink()
            assert channel.wait_for_confirms(60) == []
            deadline = time.monotonic() + 60
            while client.blocked_reason is not None and time.monotonic() < deadline:
                client.pump(time.monotonic() + 60, "connection.unblocked")
            channel.publish("", "kept", b"after", PERSISTENT)
            assert channel.wait_for_confirms() == []
        broker.kill()
    with Broker(small_disk, *SMALL, "--disk-free-limit", limit) as broker:
        found = _contents(broker, "kept")
    assert found[0] == b"before"
    assert found[-1] == b"after"
    assert len(found) >= confirmed + 2


_SHIM = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
int fdatasync(int fd) {
    const char *trigger = getenv("FAIL_SYNC_WHEN");
    if (trigger && access(trigger, F_OK) == 0) { errno = EIO; return -1; }
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    return real(fd);
}
"""


def test_a_failing_sync(tmp_path: Path) -> None:
    """The node stops with status 1, without a confirm; a restart has everything that was confirmed."""
    if shutil.which("gcc") is None:
        pytest.skip("no gcc: the shim that makes fdatasync fail cannot be made")
    source, shim, trigger = tmp_path / "shim.c", tmp_path / "shim.so", tmp_path / "fail"
    source.write_text(_SHIM)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", str(shim), str(source), "-ldl"], check=True)
    with Broker(tmp_path, env={"LD_PRELOAD": str(shim), "FAIL_SYNC_WHEN": str(trigger)}) as broker:
        client = broker.connect()
        channel = client.channel()
        channel.call(m.QueueDeclare(queue="kept", durable=True))
        channel.confirm_select()
        channel.publish("", "kept", b"confirmed", PERSISTENT)
        assert channel.wait_for_confirms() == []
        trigger.touch()
        channel.publish("", "kept", b"never confirmed", PERSISTENT)
        with pytest.raises(ClientError):
            channel.wait_for_confirms(60)
        assert broker.process.wait(60) == 1
        assert "the disk has failed" in broker.log_text()
    with Broker(tmp_path) as broker:
        assert _contents(broker, "kept")[:1] == [b"confirmed"]


#: Starts until one finds the folder as it is afterwards.
_TRIES = 10


def _tree(folder: Path) -> list[tuple[str, int, int, bytes]]:
    """Everything below the folder: path, mode, time of change, octets."""
    return [
        (str(path.relative_to(folder)), stat.st_mode, stat.st_mtime_ns, path.read_bytes() if path.is_file() else b"")
        for path in sorted(folder.rglob("*"))
        for stat in (path.stat(),)
    ]


def _serve(folder: Path, *flags: str, listen: str = "127.0.0.1:0") -> subprocess.CompletedProcess[str]:
    """A broker that is expected not to start."""
    return subprocess.run(
        [sys.executable, "-P", "-m", "amqp_broker", "serve",
        "--management-listen=off", "--prometheus-listen=off", "--listen", listen, "--data-dir", str(folder), *flags],
        capture_output=True,
        text=True,
        timeout=30,
        env={**os.environ, "PYTHONPATH": str(PROJECT_ROOT)},
        cwd=folder.parent,
    )


def _assert_refused(done: subprocess.CompletedProcess[str], *words: str) -> None:
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    lines = [line for line in done.stderr.strip().splitlines() if " INFO " not in line]
    assert len(lines) == 1, done.stderr
    for word in words:
        assert word in lines[0]


def test_what_stops_a_start_touches_nothing(tmp_path: Path) -> None:
    """One clear line on standard error, status 2."""
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "letters.txt").write_text("mine")
    before = _tree(tmp_path)
    _assert_refused(_serve(foreign), "foreign")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        _assert_refused(_serve(tmp_path / "new", listen=address), address, "--listen")
    _assert_refused(_serve(tmp_path / "new", "--memory-budget", "a lot"), "memory")
    _assert_refused(_serve(tmp_path / "new", "--no-such-flag"), "--no-such-flag")
    _assert_refused(_serve(foreign / "letters.txt"), "letters.txt")
    assert _tree(tmp_path) == before
    with Broker(tmp_path) as broker:
        for _ in range(_TRIES):  # the broker itself still writes in its first moments
            before = _tree(broker.data)
            _assert_refused(_serve(broker.data), "in use", str(broker.process.pid))
            if _tree(broker.data) == before:
                break
        assert _tree(broker.data) == before


def test_a_folder_that_cannot_be_written(small_disk: Path) -> None:
    """A file system that is mounted for reading only."""
    with Broker(small_disk) as broker, broker.connect() as client:
        client.channel().call(m.QueueDeclare(queue="kept", durable=True))
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    before = _tree(small_disk)
    _assert_refused(_serve(small_disk / "data"), str(small_disk))
    assert _tree(small_disk) == before


@pytest.mark.parametrize("kind", ["journal", "queues"])
def test_a_flipped_octet(tmp_path: Path, kind: str) -> None:
    """In the middle of what was synced: the start is refused and names file and offset, `inspect` shows it, `--recover`
    sets it aside and starts.
    """
    flags = (
        *("--memory-budget", "1MiB", "--page-size", "16KiB"),
        *("--queue-head-size", "16KiB", "--queue-head-messages", "10"),
        *("--journal-segment-size", "64KiB", "--journal-limit", "128KiB", "--disk-free-limit", "0"),
    )
    with Broker(tmp_path, *flags) as broker, broker.connect(timeout=30) as client:
        channel = client.channel()
        channel.confirm_select()
        for name in ("one", "two", "three"):
            channel.call(m.QueueDeclare(queue=name, durable=True))
            for number in range(400):
                channel.publish("", name, b"%d" % number * 800, PERSISTENT)
            assert channel.wait_for_confirms(30) == []
        data = broker.data
    if kind == "journal":
        # What the last batch wrote alone may be torn, which is no damage: other batches have to stand behind the octet.
        with Broker(tmp_path, *flags) as broker, broker.connect(timeout=30) as client:
            channel = client.channel()
            channel.confirm_select()
            for _ in range(20):
                channel.publish("", "one", b"x" * 800, PERSISTENT)
                assert channel.wait_for_confirms(30) == []
            broker.kill()
    damaged = _largest(data / kind)
    octets = bytearray(damaged.read_bytes())
    octets[min(len(octets) // 2, 200)] ^= 0x10
    damaged.write_bytes(octets)
    name = str(damaged.relative_to(data))
    before = _tree(data)
    _assert_refused(_serve(data, *flags), name, "offset", "--recover")
    after = {path: octets for path, _, _, octets in _tree(data) if path != "LOCK"}
    # Pages are looked at when it is known which queues there are: by then a start has written to the journal.
    may_grow = _last_segment(data) if kind == "queues" else ""
    for path, _, _, octets in before:
        if path != "LOCK":
            assert after[path].startswith(octets) if path == may_grow else after[path] == octets, path
    assert len(after) == len(before) - 1
    inspected = subprocess.run(
        [sys.executable, "-P", "-m", "amqp_broker", "inspect", str(data)],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(PROJECT_ROOT)},
        cwd=tmp_path,
    )
    assert name in inspected.stdout + inspected.stderr
    with Broker(tmp_path, *flags, "--recover") as broker:
        assert broker.statistics()["connections"] == 1
    kept = list((data / "damaged").rglob("*"))
    assert kept, "what was set aside is kept"


def test_a_damaged_page_beyond_what_a_start_verifies(tmp_path: Path) -> None:
    """It stops the node soon after, and the log names file and offset."""
    flags = (
        *("--memory-budget", "1MiB", "--page-size", "16KiB"),
        *("--queue-head-size", "16KiB", "--queue-head-messages", "10"),
        *("--journal-segment-size", "64KiB", "--journal-limit", "128KiB", "--disk-free-limit", "0"),
    )
    with Broker(tmp_path, *flags) as broker, broker.connect(timeout=30) as client:
        channel = client.channel()
        channel.confirm_select()
        channel.call(m.QueueDeclare(queue="kept", durable=True))
        for number in range(1000):
            channel.publish("", "kept", b"%d" % number * 800, PERSISTENT)
        assert channel.wait_for_confirms(30) == []
        data = broker.data
    damaged = _largest(data / "queues")
    octets = bytearray(damaged.read_bytes())
    octets[len(octets) // 2] ^= 0x10
    damaged.write_bytes(octets)
    with Broker(tmp_path, *flags, "--verify-at-start", "0") as broker:
        assert broker.process.wait(60) == 1
        assert f"{damaged.relative_to(data)} at offset" in broker.log_text()
        assert "--recover" in broker.log_text()


def _last_segment(data: Path) -> str:
    return str(max((data / "journal").iterdir()).relative_to(data))


def _largest(folder: Path) -> Path:
    return max((path for path in sorted(folder.rglob("*")) if path.is_file()), key=lambda path: path.stat().st_size)

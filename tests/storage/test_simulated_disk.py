"""The simulated disk forgets what it claims to, and no more: the crash tests are worth no more than that."""

from __future__ import annotations

import errno
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.disk import Disk, FileDisk
from storage.errors import SyncFailed
from tests.example_counts import examples
from tests.simulation.simulated_disk import SimulatedCrash, SimulatedDisk


def disk_with(seed: int, synced: bytes, unsynced: list[bytes]) -> SimulatedDisk:
    disk = SimulatedDisk(random.Random(seed))
    disk.append("file", [synced])
    disk.sync("file")
    disk.sync_folder("")
    for piece in unsynced:
        disk.append("file", [piece])
    return disk


def test_what_was_synced_survives_and_the_rest_in_every_way() -> None:
    outcomes = set()
    for seed in range(3000):
        disk = disk_with(seed, b"safe", [b"aaaa", b"bbbb"])
        disk.crash()
        contents = disk.contents("file")
        assert contents[:4] == b"safe"
        assert disk.unsynced() == []
        outcomes.add(contents[4:])
    for survivor in (b"", b"aaaa", b"aa", b"aaaabbbb", b"aaaabb"):
        assert survivor in outcomes
    assert any(rest.startswith(b"aaaa") and rest[4:] not in b"bbbb" for rest in outcomes), (
        "nothing was flipped"
    )
    assert any(rest and not rest.strip(b"\0") for rest in outcomes), "no sector was lost"


def test_names_survive_by_chance_until_their_folder_is_synced() -> None:
    created = removed = renamed = 0
    for seed in range(200):
        disk = disk_with(seed, b"safe", [])
        disk.append("new", [b"x"])
        disk.sync("new")
        disk.append("old", [b"y"])
        disk.sync("old")
        disk.sync_folder("")
        disk.append("fresh", [b"z"])
        disk.remove("new")
        disk.rename("old", "renamed")
        disk.crash()
        created += disk.exists("fresh")
        removed += not disk.exists("new")
        renamed += disk.exists("renamed")
        assert disk.exists("old") != disk.exists("renamed")
        assert disk.contents("file") == b"safe"
    for count in (created, removed, renamed):
        assert 50 < count < 150


def test_what_lies_in_a_lost_folder_is_lost() -> None:
    outcomes = set()
    for seed in range(50):
        disk = SimulatedDisk(random.Random(seed))
        disk.make_folder("a/b")
        disk.append("a/b/file", [b"x"])
        disk.sync("a/b/file")
        disk.sync_folder("a/b")
        disk.sync_folder("a")
        disk.crash()
        outcomes.add(tuple(disk.files()))
    assert outcomes == {(), ("a/b/file",)}


def test_a_process_that_dies_loses_nothing() -> None:
    disk = disk_with(1, b"safe", [b"more"])
    disk.crash_at = 1
    with pytest.raises(SimulatedCrash):
        disk.sync("file")
    with pytest.raises(RuntimeError, match="the simulated disk is down"):
        disk.size("file")
    disk.come_back()
    assert disk.contents("file") == b"safemore"
    assert disk.unsynced() == ["file"]


def test_it_can_be_full_fail_and_stall() -> None:
    disk = disk_with(1, b"safe", [])
    disk.capacity = 6
    assert disk.free_bytes() == 2
    with pytest.raises(OSError, match="No space left") as raised:
        disk.append("file", [b"more"])
    assert raised.value.errno == errno.ENOSPC
    assert disk.contents("file") == b"safemo"
    disk.is_stalled = True
    with pytest.raises(RuntimeError, match="stalled"):
        disk.sync("file")
    disk.is_stalled = False
    disk.fail_sync_at = 2
    disk.sync("file")
    for _ in range(2):
        with pytest.raises(SyncFailed):
            disk.sync("file")
    with pytest.raises(SyncFailed):
        disk.append("file", [b"x"])


@settings(deadline=None, max_examples=examples(40))
@given(st.integers(0, 2**32))
def test_without_a_crash_it_does_what_a_real_disk_does(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    chance = random.Random(seed)
    real = FileDisk(tmp_path_factory.mktemp("disk"))
    disks: list[Disk] = [real, SimulatedDisk(chance)]
    names = ["a", "b", "folder/a", "folder/b"]
    for disk in disks:
        disk.make_folder("folder")
    for _ in range(40):
        name, other = chance.choice(names), chance.choice(["a", "b"])
        octets = chance.randbytes(chance.randrange(20))
        number = chance.randrange(8)
        if number in (3, 4, 6) and not real.exists(name):
            continue
        size = chance.randint(0, real.size(name)) if real.exists(name) else 0
        for disk in disks:
            match number:
                case 0 | 1 | 2:
                    disk.append(name, [octets, b"", octets])
                case 3:
                    disk.truncate(name, size)
                case 4:
                    disk.remove(name)
                case 5:
                    disk.sync_folder("folder")
                case 6:
                    disk.rename(name, f"{name[:-1]}{other}")
                case 7:
                    disk.make_folder("folder")
        first, second = (
            [(path, disk.read(path, 2, 30), disk.size(path)) for path in names if disk.exists(path)]
            for disk in disks
        )
        assert first == second
        assert disks[0].list("folder") == disks[1].list("folder")
    real.close()


def test_what_was_written_over_room_survives_in_every_way_and_the_rest_is_as_it_was() -> None:
    outcomes = set()
    for seed in range(2000):
        disk = disk_with(seed, b"safe" + bytes(1200), [])
        disk.write("file", 4, [b"a" * 1100])
        disk.crash()
        contents = disk.contents("file")
        assert contents[:4] == b"safe"
        assert contents[1104:] == bytes(100)
        outcomes.add(contents[4:1104])
    assert bytes(1100) in outcomes
    assert b"a" * 1100 in outcomes
    assert any(not one[:508].strip(b"\0") and b"a" in one for one in outcomes), "no sector was lost"
    assert any(0 < one.count(0) < 512 and one.endswith(b"\0") for one in outcomes), "none was torn"
    disk = disk_with(1, b"safe", [])
    with pytest.raises(ValueError, match="would leave a hole"):
        disk.write("file", 5, [b"x"])


def test_a_long_write_is_often_torn_near_its_beginning() -> None:
    """A record with room behind it must not survive an unsynced write almost always: nobody would notice that it was
    confirmed too early."""
    record = b"a" * 300
    survived = 0
    for seed in range(400):
        disk = disk_with(seed, b"safe", [])
        disk.write("file", 4, [record, bytes(65_536)])
        disk.crash()
        survived += disk.contents("file")[4:304] == record
    assert 100 < survived < 300

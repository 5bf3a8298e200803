"""The MEMBERS file: there and back, replaced in one step, and refused when it says nothing that makes sense."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest

from amqp_broker.links.members_file import MEMBERS_FILE, KnownMembers, read_members, write_members
from amqp_broker.settings.kinds import parse_members
from storage.errors import StorageError
from tests.example_counts import seeds
from tests.simulation.simulated_disk import SimulatedDisk

TWO = KnownMembers("n1", parse_members("n1=127.0.0.1:7101,n2=[::1]:7102"), joins=False)
THREE = KnownMembers(
    "n2", parse_members("n1=127.0.0.1:7101,n2=[::1]:7102,n3=db.example:7103"), joins=True, since=17, identity="00ff"
)
RESTORED = replace(TWO, generation=1_700_000_000_000)
REPLACING = replace(RESTORED, replaces=True)


def test_there_and_back() -> None:
    disk = SimulatedDisk(random.Random(1))
    assert read_members(disk) is None
    write_members(disk, TWO)
    assert read_members(disk) == TWO
    write_members(disk, THREE)
    assert read_members(disk) == THREE
    write_members(disk, RESTORED)
    assert read_members(disk) == RESTORED
    write_members(disk, REPLACING)
    assert read_members(disk) == REPLACING


def test_the_version_before_can_read_what_says_nothing_new() -> None:
    disk = SimulatedDisk(random.Random(1))
    for known, version in ((RESTORED, 3), (REPLACING, 4)):
        write_members(disk, known)
        assert json.loads(disk.read(MEMBERS_FILE, 0, 4096))["version"] == version


def test_the_version_before_replaces_nobody() -> None:
    disk = SimulatedDisk(random.Random(1))
    text = (
        '{"version": 3, "node": "n1", "members": ["n1=127.0.0.1:7101", "n2=[::1]:7102"], '
        '"joins": false, "since": 0, "identity": "", "generation": 1700000000000}'
    )
    disk.append(MEMBERS_FILE, [text.encode()])
    assert read_members(disk) == RESTORED


def test_one_without_generations_is_read_as_one_of_the_first() -> None:
    disk = SimulatedDisk(random.Random(1))
    text = (
        '{"version": 2, "node": "n2", "members": ["n1=127.0.0.1:7101", "n2=[::1]:7102", "n3=db.example:7103"], '
        '"joins": true, "since": 17, "identity": "00ff"}'
    )
    disk.append(MEMBERS_FILE, [text.encode()])
    assert read_members(disk) == THREE
    assert THREE.generation == 0


def test_the_first_version_is_read() -> None:
    disk = SimulatedDisk(random.Random(1))
    text = '{"version": 1, "node": "n1", "members": ["n1=127.0.0.1:7101", "n2=[::1]:7102"], "joins": false}'
    disk.append(MEMBERS_FILE, [text.encode()])
    assert read_members(disk) == TWO


@pytest.mark.parametrize("seed", seeds(range(20)))
def test_it_outlives_a_crash_as_it_was_or_as_it_is(seed: int) -> None:
    disk = SimulatedDisk(random.Random(seed))
    write_members(disk, TWO)
    disk.append("MEMBERS.new", [b'{"half'])
    disk.crash()
    assert read_members(disk) == TWO
    write_members(disk, THREE)
    disk.crash()
    assert read_members(disk) == THREE


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", '{"version": 5, "node": "n1", "members": [], "joins": false}',
     '{"version": 1, "node": "n1", "joins": true}', '{"version": 1, "members": [], "joins": true}',
     '{"version": 1, "node": "n1", "members": ["n1"], "joins": true}',
     '{"version": 1, "node": "n1", "members": [7], "joins": true}',
     '{"version": 2, "node": "n1", "members": [], "joins": true, "since": 7, "identity": "no number"}'],
)  # fmt: skip
def test_what_makes_no_sense_is_refused_with_a_way_out(text: str) -> None:
    disk = SimulatedDisk(random.Random(1))
    disk.append(MEMBERS_FILE, [text.encode()])
    with pytest.raises(StorageError, match=r"^MEMBERS in the data folder cannot be read .* `amqp-broker cluster"):
        read_members(disk)

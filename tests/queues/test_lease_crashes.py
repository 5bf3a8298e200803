"""Lease groups on a disk that crashes: at every single write of a given course, and at random ones of a random one."""

from __future__ import annotations

import random

import pytest

from queues import journaled_leases, leases
from tests.example_counts import seeds
from tests.queues.lease_life import Life
from tests.simulation.simulated_disk import SimulatedCrash, SimulatedDisk


@pytest.fixture(autouse=True)
def releases_take_several_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journaled_leases, "_RELEASE_BYTES", 1500)
    monkeypatch.setattr(leases, "_MOVE_MESSAGES", 5)


def course(life: Life) -> None:
    """Claim, acknowledge and release, while segments are retired and pages are stored."""
    for turn in range(6):
        for step in (life.publish, life.open_group, life.claim, life.get, life.other_traffic):
            step()
        life.sync()
        if turn == 3:
            while life.groups:
                life.release()
        for step in (life.publish, life.ack, life.page_out, life.settle, life.claim, life.other_traffic):
            step()
        life.sync()
        life.check()
    assert life.world.journal.oldest_segment > 1


def test_a_crash_at_every_write_loses_and_doubles_nothing() -> None:
    at = 0
    while True:
        at += 1
        disk = SimulatedDisk(random.Random(at))
        life = Life(random.Random(3), disk)
        life.open()
        disk.crash_at = at
        try:
            course(life)
        except SimulatedCrash:
            disk.crash()
            life.open()
            life.check()
            life.sync()
        else:
            break
    assert at > 100
    assert life.released >= 20


@pytest.mark.parametrize("seed", seeds(range(25)))
def test_random_lives_with_crashes(seed: int) -> None:
    chance = random.Random(seed)
    disk = SimulatedDisk(chance)
    life = Life(chance, disk, budget_bytes=chance.choice((2500, 5000, 100_000)))
    crashes = 0
    for _ in range(12):
        disk.crash_at = chance.randint(1, 60) if chance.random() < 0.7 else None
        try:
            life.open()
            for _ in range(chance.randint(1, 60)):
                step = chance.choice(
                    (
                        life.publish,
                        life.publish,
                        life.get,
                        life.settle,
                        life.open_group,
                        life.claim,
                        life.claim,
                        life.ack,
                        life.release,
                        life.purge,
                        life.page_out,
                        life.other_traffic,
                        life.sync,
                        life.sync,
                    )
                )
                step()
                life.check()
        except SimulatedCrash:
            crashes += 1
        disk.crash()
        disk.crash_at = None
    assert crashes

"""What readers who are far behind have of the loop's time: all of it, a slice of each turn, or a share."""

from __future__ import annotations

import asyncio
import time

import pytest

from amqp_broker.server.driver import Driver
from amqp_broker.server.spare_pace import SparePace

LIMIT_S = 0.001
SLICE_S = 0.0001
#: Long enough that nothing is known of what was before.
CALM_S = 1.0


class World:
    """A loop whose time is the test's. Others have something of each turn, and then those who are behind."""

    def __init__(self, share: float) -> None:
        self.now = 0.0
        self.pace = SparePace(share, LIMIT_S, lambda: self.now)

    def turn(self, others_s: float) -> int:
        """A turn in which others take so long; 0: they say nothing. Returns how many slices there were behind that."""
        began = self.now
        self.now += others_s
        self.pace.start()
        slices = 0
        while self.pace.goes_on():
            self.now += SLICE_S
            slices += 1
        self.pace.end()
        if others_s:
            self.pace.others_took(self.now - began)
        return slices

    def run(self, seconds: float, others_s: float, idle_s: float) -> tuple[float, float]:
        """Such turns, with so much time between them. Returns the parts of the time of others, and of those behind."""
        end, others, slices = self.now + seconds, 0.0, 0
        while self.now < end:
            slices += self.turn(others_s)
            others += others_s
            self.now += idle_s
        return others / seconds, slices * SLICE_S / seconds


def test_who_is_alone_has_as_much_of_a_turn_as_any_background_work() -> None:
    world = World(0.2)
    world.now += CALM_S
    assert all(world.turn(0.0) >= LIMIT_S / SLICE_S for _ in range(100))


@pytest.mark.parametrize(("others_s", "share"), [(0.0001, 0.05), (0.0001, 0.2), (0.001, 0.05)])
def test_beside_others_who_are_busy_it_has_its_share_and_no_less(others_s: float, share: float) -> None:
    world = World(share)
    world.run(CALM_S, others_s, 0.0)
    _, behind = world.run(CALM_S, others_s, 0.0)
    assert behind == pytest.approx(share, rel=0.1)


def test_of_long_turns_it_has_a_slice_each_at_most() -> None:
    world = World(0.5)
    world.run(CALM_S, 0.001, 0.0)
    assert {world.turn(0.001) for _ in range(100)} == {1}


def test_others_who_wait_for_the_disk_are_busy_too() -> None:
    world = World(0.2)
    world.run(CALM_S, 0.0005, 0.0005)
    _, behind = world.run(CALM_S, 0.0005, 0.0005)
    assert 0.05 < behind <= 0.21


def test_others_who_say_little_wait_for_no_more_than_a_slice() -> None:
    world = World(0.01)
    world.now += CALM_S
    world.turn(0.00001)
    most = 0
    for _ in range(1000):
        most = max(most, world.turn(0.00001), *(world.turn(0.0) for _ in range(10)))
    assert most == 1


def test_others_who_say_little_leave_it_all_the_rest() -> None:
    world = World(0.01)
    world.turn(0.00001)
    slices = sum(world.turn(0.00001) + sum(world.turn(0.0) for _ in range(10)) for _ in range(1000))
    assert slices == 11_000


def test_what_it_had_while_nobody_minded_is_not_held_against_it() -> None:
    world = World(0.2)
    world.now += CALM_S
    for _ in range(1000):
        world.turn(0.0)
    _, behind = world.run(0.1, 0.0003, 0.0)
    assert behind > 0.15


def test_it_has_all_again_soon_after_others_have_said_their_last() -> None:
    world = World(0.2)
    world.run(CALM_S, 0.0003, 0.0)
    world.now += 0.021
    assert world.turn(0.0) >= LIMIT_S / SLICE_S


def burn(seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pass


async def test_in_a_busy_loop_it_has_fewer_slices_than_others_have_turns_but_some(driver: Driver) -> None:
    done: list[str] = []

    def behind(now: int) -> bool:
        burn(0.001)
        done.append("behind")
        return True

    driver.node.background.add_behind(behind)
    until = time.monotonic() + 1.0
    while time.monotonic() < until:
        driver.others_spoke = True
        driver.wants_turn()
        burn(0.001)
        done.append("others")
        await asyncio.sleep(0)
    others = done.count("others")
    assert others / 20 < done.count("behind") < others / 2


async def test_in_a_loop_without_others_it_goes_on_without_being_called(driver: Driver) -> None:
    over = asyncio.get_running_loop().create_future()
    left = 200

    def behind(now: int) -> bool:
        nonlocal left
        left -= 1
        if not left:
            over.set_result(None)
        return left > 0

    driver.node.background.add_behind(behind)
    driver.wants_turn()
    await asyncio.wait_for(over, 10)
    assert not driver.node.background.behind


async def test_whose_share_is_over_goes_on_though_others_have_stopped(driver: Driver) -> None:
    over = asyncio.get_running_loop().create_future()
    left = 50

    def behind(now: int) -> bool:
        nonlocal left
        burn(0.001)
        left -= 1
        if not left:
            over.set_result(None)
        return left > 0

    driver.node.background.add_behind(behind)
    for _ in range(30):  # too few for it to have ended meanwhile
        driver.others_spoke = True
        driver.wants_turn()
        burn(0.001)
        await asyncio.sleep(0)
    assert left
    await asyncio.wait_for(over, 10)

"""How a guest of a queue group looks for who leads it, and what it keeps of what it has heard; time and the members are
the test's."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from amqp_broker.queue_types.groups.guest import ASK_MS, MOST_ASK_MS, MOST_FOUND_MS, Guest
from amqp_broker.queue_types.groups.guest_frames import (
    Closed,
    Effects,
    Found,
    Open,
    Opened,
    Standing,
    decode_request,
)
from amqp_broker.queue_types.remote.effects_codec import EffectsWriter
from queues.quorum.feed import Heard
from tests.queues.quorum.quorum_world import message_named

SESSION = 7


class World:
    """The group as the guest sees it. asked: when, whom, and the number of the feed."""

    group_id = 1

    def __init__(self) -> None:
        self.now = 1_000_000
        self.members = ["n1", "n2", "n3"]
        self.linked = dict.fromkeys(self.members)
        self.delivery_owners: dict[int, Any] = {}
        self.host = SimpleNamespace(background=SimpleNamespace(add=lambda job: None))
        self.asked: list[tuple[int, str, int]] = []
        self.answers: list[tuple[int, str, Any]] = []
        self._numbers = 0
        self.guest = Guest(self, self._send, Heard.nothing(SESSION), 0)  # type: ignore[arg-type]
        self.answer: Any = lambda name, number: None
        self.delay = 0

    def wanted_members(self) -> list[str]:
        return self.members

    def is_linked(self, name: str) -> bool:
        return name in self.linked

    def draw_number(self) -> int:
        self._numbers += 1
        return self._numbers

    def touch(self) -> None:
        pass

    def attached(self, now: int) -> None:
        pass

    def absorb_effects(self, effects: list[Any], now: int) -> None:
        pass

    def _send(self, name: str, octets: bytes) -> bool:
        request = decode_request(octets)
        if isinstance(request, Open):
            self.asked.append((self.now, name, request.number))
            answer = self.answer(name, request.number)
            if answer is not None:
                self.answers.append((self.now + self.delay, name, answer))
        return True

    def run(self, milliseconds: int) -> None:
        end = self.now + milliseconds
        while self.now < end:
            due = [each for each in self.answers if each[0] <= self.now]
            self.answers = [each for each in self.answers if each[0] > self.now]
            for _, name, answer in due:
                self.guest.receive(name, answer, self.now)
            self.guest.work(self.now)
            self.now += 10

    def gaps(self) -> list[int]:
        times = [time for time, _, _ in self.asked]
        return [later - time for time, later in pairwise(times)]


@pytest.fixture
def world() -> World:
    return World()


def follows(leader: str) -> Any:
    return lambda name, number: Found(1, number, Standing.FOLLOWS, 3, leader)


def test_who_does_not_answer_has_longer_each_time(world: World) -> None:
    world.run(20_000)
    assert world.gaps()[:7] == [200, 400, 800, 1600, 3200, 3200, 3200]
    assert (ASK_MS, MOST_ASK_MS) == (200, 3200)
    assert {name for _, name, _ in world.asked} == set(world.members)


@pytest.mark.parametrize("delay", [150, 300, 1500, 3000])
def test_a_leader_that_is_far_away_is_found(world: World, delay: int) -> None:
    world.delay = delay
    world.answer = lambda name, number: Opened(1, number, 0) if name == "n3" else None
    world.run(30_000)
    assert world.guest.leader == "n3"


def test_while_nobody_leads_members_are_asked_now_and_then(world: World) -> None:
    world.answer = follows("")
    world.run(10_000)
    assert set(world.gaps()[3:]) == {MOST_FOUND_MS}


def test_members_that_name_each_other_are_not_asked_all_the_time(world: World) -> None:
    others = {"n1": "n2", "n2": "n3", "n3": "n1"}
    world.answer = lambda name, number: Found(1, number, Standing.FOLLOWS, 3, others[name])
    world.run(10_000)
    assert len(world.asked) < 2 * 10_000 / MOST_FOUND_MS + 8


def test_a_hint_is_followed_at_once_to_who_is_linked(world: World) -> None:
    world.answer = lambda name, number: (Opened if name == "n3" else _follows_n3)(1, number, 0)
    world.run(50)
    assert world.guest.leader == "n3"
    assert world.asked[-1][0] <= world.asked[0][0] + 20
    again = World()
    del again.linked["n3"]
    again.answer = follows("n3")
    again.run(10_000)
    assert min(again.gaps()) >= ASK_MS


def _follows_n3(group: int, number: int, _: int) -> Found:
    return Found(group, number, Standing.FOLLOWS, 3, "n3")


def test_the_next_one_is_asked_when_the_link_to_who_was_asked_goes(world: World) -> None:
    world.run(1000)
    _, asked, _ = world.asked[-1]
    world.run(20)
    before = len(world.asked)
    del world.linked[asked]
    world.guest.peer_disconnected(asked)
    world.run(20)
    assert len(world.asked) == before + 1
    assert world.asked[-1][1] != asked


def test_who_comes_is_asked_at_once_where_nobody_was_there(world: World) -> None:
    world.linked.clear()
    world.run(10_000)
    assert not world.asked
    world.linked["n2"] = None
    world.guest.peer_connected()
    world.run(20)
    assert [name for _, name, _ in world.asked] == ["n2"]


def test_a_leader_that_has_found_its_successor_names_it(world: World) -> None:
    world.answer = lambda name, number: Opened(1, number, 0)
    world.run(50)
    leader, (_, _, number) = world.guest.leader, world.asked[-1]
    successor = next(name for name in world.members if name != leader)
    world.guest.receive(str(leader), Closed(1, number, successor), world.now)
    world.run(20)
    assert world.guest.leader == successor


def test_consumers_that_are_gone_are_forgotten_while_it_goes_on(world: World) -> None:
    world.answer = lambda name, number: Opened(1, number, 0)
    world.run(50)
    guest, (_, _, number) = world.guest, world.asked[-1]
    world.delivery_owners[5] = object()
    for first in range(1, 20_000, 100):
        writer = EffectsWriter(SESSION)
        for consumer in range(first, first + 100):
            writer.put_delivered(consumer, 1, message_named(consumer), False, 0)
        for octets in writer.take():
            guest.receive(str(guest.leader), Effects(1, number, first, octets), world.now)
    assert len(guest.heard().consumers) < 5000
    assert guest.heard().consumers[5] == 2

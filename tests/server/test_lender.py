"""The memory of a node, divided among its workers: never more than there is, whoever dies, hangs or does not hear."""

from __future__ import annotations

import random
from collections import deque

import pytest

from amqp_broker.server.lender import Lender
from queues.pager import TIGHT_PERCENT

BUDGET = 1_000_000


class ModelWorker:
    """A process as the lender knows it. wants: octets of messages that would be in RAM if they fitted; stuck: those of
    them that cannot go to the disk."""

    def __init__(self, sure_bytes: int) -> None:
        self.inbox: deque[tuple[int, int, int]] = deque()  # when it is there, order, octets
        self.order = 0
        self.goes_by = self.kept = sure_bytes
        self.wants = self.stuck = self.used = 0
        self.hangs = False

    def live(self, now: int) -> None:
        while self.inbox and self.inbox[0][0] <= now:
            _, self.order, octets = self.inbox.popleft()
            self.kept = max(self.may_use(), octets)
            self.goes_by = octets
        fits = self.goes_by * TIGHT_PERCENT // 100
        if self.used > fits:
            self.used = max(fits, self.stuck, self.used - BUDGET // 20)
        else:
            self.used = min(self.wants, fits)

    def may_use(self) -> int:
        """As MemoryShare.kept_bytes."""
        self.kept = max(self.goes_by, min(self.kept, self.used))
        return self.kept

    def need(self) -> int:
        """As MemoryShare.needed_bytes."""
        fitting = self.used * 100 // TIGHT_PERCENT
        return 2 * max(fitting, self.goes_by) if 10 * fitting > 9 * self.goes_by else fitting * 6 // 5


class World:
    """Ten ticks are a second. delay: so many ticks words take at the most. told: all that was said to workers."""

    def __init__(self, count: int, seed: int = 1, delay: int = 0) -> None:
        self.chance = random.Random(seed)
        self.now = 0
        self.delay = delay
        self.lender = Lender(BUDGET, range(count))
        self.workers: dict[int, ModelWorker | None] = {}
        self.words: dict[int, deque[tuple[int, int, int, int]]] = {}
        self.told: list[int] = []
        self.deaf: set[int] = set()
        for number in range(count):
            self.start(number)

    def start(self, number: int) -> None:
        self.lender.begin(number)
        self.workers[number] = ModelWorker(self.lender.sure_bytes)
        self.words[number] = deque()

    def end(self, number: int) -> None:
        """What it said before its death is heard, or is not."""
        self.workers[number] = None
        if self.chance.random() < 0.5:
            self.hear(number, self.now + self.delay)
        self.words[number].clear()
        self.lender.begin(number)

    def hear(self, number: int, until: int) -> None:
        words = self.words[number]
        while words and words[0][0] <= until:
            _, *said = words.popleft()
            if self.lender.hear(number, *said):
                self.lend()

    def tell(self, number: int, order: int, octets: int) -> bool:
        worker = self.workers[number]
        if worker is None or number in self.deaf:
            return False
        self.told.append(octets)
        worker.inbox.append((self.now + self.chance.randint(0, self.delay), order, octets))
        return True

    def tick(self) -> None:
        self.now += 1
        for number, worker in self.workers.items():
            if worker is not None and not worker.hangs:
                worker.live(self.now)
                at = self.now + self.chance.randint(0, self.delay)
                if self.words[number]:
                    at = max(at, self.words[number][-1][0])
                self.words[number].append((at, worker.order, worker.may_use(), worker.need()))
            self.hear(number, self.now)
        if self.now % 10 == 0:
            self.lend()
        self.check()

    def lend(self) -> None:
        live = [number for number, worker in self.workers.items() if worker is not None and not worker.hangs]
        self.lender.lend(live, self.tell)

    def run(self, seconds: int) -> None:
        for _ in range(10 * seconds):
            self.tick()

    def check(self) -> None:
        assert sum(each.may_use() for each in self.workers.values() if each is not None) <= BUDGET
        assert sum(self.lender.may_keep().values()) <= BUDGET
        assert all(octets >= self.lender.sure_bytes for octets in self.told)

    def shares(self) -> list[int]:
        return [0 if each is None else each.goes_by for each in self.workers.values()]

    def worker(self, number: int) -> ModelWorker:
        found = self.workers[number]
        assert found is not None
        return found


@pytest.mark.parametrize("count", [1, 2, 3, 16])
def test_what_nobody_needs_is_divided_evenly(count: int) -> None:
    world = World(count)
    assert world.shares() == [BUDGET // (2 * count)] * count
    world.run(2)
    assert min(world.shares()) >= BUDGET // count - BUDGET // 128
    told = len(world.told)
    world.run(10)
    assert len(world.told) == told, "at rest nothing is said"


@pytest.mark.parametrize("count", [2, 4, 16])
def test_who_needs_it_has_all_that_is_lent_within_seconds_and_it_comes_back(count: int) -> None:
    world = World(count, delay=1)
    world.run(2)
    world.worker(1).wants = 2 * BUDGET
    world.run(6)
    sure = world.lender.sure_bytes
    assert world.shares()[1] > 0.95 * (BUDGET // 2 + sure)
    world.worker(1).wants = 0
    world.run(6)
    assert min(world.shares()) >= BUDGET // count - BUDGET // 64


def test_two_who_need_all_have_as_much_each_and_who_needs_most_has_most() -> None:
    world = World(4)
    for number, wants in ((0, 2 * BUDGET), (1, 2 * BUDGET)):
        world.worker(number).wants = wants
    world.run(8)
    shares = world.shares()
    assert abs(shares[0] - shares[1]) < 0.03 * BUDGET
    assert shares[0] > 0.36 * BUDGET
    world.worker(1).wants = 250_000 * TIGHT_PERCENT // 100
    world.run(8)
    shares = world.shares()
    assert shares[0] > 1.4 * shares[1]
    assert shares[1] >= 250_000
    assert min(shares[2:]) >= world.lender.sure_bytes


def test_what_a_worker_does_not_give_up_is_nobody_elses() -> None:
    """What its consumers hold cannot go to the disk."""
    world = World(2)
    world.worker(0).wants = world.worker(0).stuck = 400_000
    world.run(6)
    assert world.worker(0).used == 400_000
    world.worker(1).wants = 2 * BUDGET
    world.run(10)
    assert world.worker(0).used == 400_000
    assert world.worker(1).goes_by <= BUDGET - 400_000
    world.worker(0).stuck = world.worker(0).wants = 0
    world.run(6)
    assert world.worker(1).goes_by > 0.7 * BUDGET


@pytest.mark.parametrize("how", ["hangs", "is deaf"])
def test_one_that_does_not_hear_keeps_what_it_has(how: str) -> None:
    world = World(2)
    world.worker(0).wants = 2 * BUDGET
    world.run(6)
    had = world.worker(0).goes_by
    if how == "hangs":
        world.worker(0).hangs = True
    else:
        world.deaf.add(0)
    world.worker(1).wants = 2 * BUDGET
    world.run(6)
    assert world.worker(0).goes_by == had
    assert world.worker(1).goes_by == pytest.approx(BUDGET - had, rel=0.1)
    world.end(0)
    world.run(6)
    assert world.worker(1).goes_by > 0.7 * BUDGET
    world.deaf.clear()
    world.start(0)
    world.run(2)
    assert world.worker(0).goes_by == world.lender.sure_bytes


def test_what_one_that_is_gone_for_good_had_is_for_the_others() -> None:
    world = World(2)
    world.end(1)
    del world.workers[1]
    world.lender.remove(1)
    world.run(3)
    assert world.shares() == [BUDGET]


@pytest.mark.parametrize("seed", range(40))
def test_the_sum_is_never_more_than_there_is(seed: int) -> None:
    """Whatever they need, whoever dies, hangs, starts again or does not hear, however long words take."""
    chance = random.Random(seed)
    count = chance.choice([2, 3, 5, 16])
    world = World(count, seed, delay=chance.choice([0, 3, 25]))
    for _ in range(600):
        number = chance.randrange(count)
        worker = world.workers[number]
        event = chance.random()
        if worker is None:
            if event < 0.5:
                world.start(number)
        elif event < 0.02:
            world.end(number)
        elif event < 0.06:
            worker.hangs = not worker.hangs
        elif event < 0.08:
            world.deaf ^= {number}
        elif event < 0.3:
            worker.wants = chance.choice([0, 1000, BUDGET // 10, BUDGET, 3 * BUDGET])
            worker.stuck = chance.choice([0, 0, worker.wants // 2])
        world.tick()
    for number, one in list(world.workers.items()):
        if one is None:
            world.start(number)
        worker = world.worker(number)
        worker.hangs, worker.wants, worker.stuck = False, 0, 0
    world.deaf.clear()
    world.run(25)
    assert min(world.shares()) >= BUDGET // count - BUDGET // 64
    told = len(world.told)
    world.run(10)
    assert len(world.told) == told, "at rest nothing is said"

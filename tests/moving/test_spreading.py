"""Which classic queues move so that homes have about as much: few, none twice, and the fullest gets emptier."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from amqp_broker.moving.spreading import EVEN_PERCENT, Change, Weighed, spread

HOMES = ["n1", "n1/1", "n1/2"]


def queue(name: str, home: str, messages: int = 0, octets: int = 0) -> Weighed:
    return Weighed("/", name, home, messages, octets)


def loads(queues: list[Weighed], changes: list[Change]) -> dict[str, int]:
    found = dict.fromkeys(HOMES, 0)
    moved = {change.queue.name: change.home for change in changes}
    for each in queues:
        found[moved.get(each.name, each.home)] += each.weight
    return found


def test_what_is_even_stays() -> None:
    assert not spread([queue(home, home, 100, 10_000) for home in HOMES], HOMES)
    assert not spread([], HOMES)
    assert not spread([], [])


def test_one_large_queue_has_a_home_of_its_own() -> None:
    queues = [queue("large", "n1", 1000, 1_000_000), *[queue(f"s{number}", "n1", 10, 1000) for number in range(20)]]
    changes = spread(queues, HOMES)
    assert [change.queue.name for change in changes] == ["large"]
    assert max(loads(queues, changes).values()) < max(loads(queues, []).values())


def test_of_six_alike_at_one_home_four_move() -> None:
    queues = [queue(f"q{number}", "n1", 100, 100_000) for number in range(6)]
    changes = spread(queues, HOMES)
    assert len(changes) == 4
    assert len(set(loads(queues, changes).values())) == 1


def test_a_home_that_is_to_go_is_emptied() -> None:
    queues = [queue(f"q{number}", "n1/3") for number in range(5)] + [queue("own", "n1")]
    changes = spread(queues, HOMES)
    assert {change.queue.name for change in changes} >= {f"q{number}" for number in range(5)}


def test_none_moves_to_a_home_that_is_far_busier() -> None:
    queues = [queue(f"q{number}", home, 100, 100_000) for home in ("n1", "n1/7") for number in range(6)]
    for busy, taken in (({"n1": 100, "n1/1": 700, "n1/2": 90}, {"n1", "n1/2"}), ({"n1/1": 900}, {*HOMES})):
        changes = spread(queues, HOMES, busy)
        assert {change.home for change in changes} <= taken
        assert {change.home for change in changes} >= taken - {"n1"}, "of whom nothing is known may be given some"


queues_of = st.lists(
    st.tuples(st.sampled_from([*HOMES, "n1/7"]), st.integers(0, 10_000), st.integers(0, 10_000_000)), max_size=40
).map(lambda rows: [queue(f"q{number}", *row) for number, row in enumerate(rows)])


@given(queues_of)
def test_none_moves_twice_and_what_is_left_is_even_or_cannot_be_better(queues: list[Weighed]) -> None:
    changes = spread(queues, HOMES)
    names = [change.queue.name for change in changes]
    assert len(names) == len(set(names))
    assert all(change.home in HOMES and change.home != change.queue.home for change in changes)
    after = loads(queues, changes)
    gap = max(after.values()) - min(after.values())
    fullest = max(HOMES, key=after.__getitem__)
    moved = {change.queue.name for change in changes}
    stayed = [each for each in queues if each.home == fullest and each.name not in moved]
    even = max(4096, sum(after.values()) * EVEN_PERCENT // 300)
    assert gap <= even or all(each.weight >= gap for each in stayed)

"""Which worker all others wait for, and for which queue."""

from __future__ import annotations

from amqp_broker.server.bottleneck import Bottleneck, BottleneckWatch


def look_on(watch: BottleneckWatch, shares: list[tuple[float, float, float]]) -> list[tuple[int, Bottleneck]]:
    """A look each second, each worker having used so much of a core since the one before."""
    used = [0.0, 0.0, 0.0]
    said = []
    for second, each in enumerate([(0.0, 0.0, 0.0), *shares]):
        used = [before + share for before, share in zip(used, each, strict=True)]
        found = watch.look(dict(enumerate(used)), 100.0 + second)
        if found is not None:
            said.append((second, found))
    return said


BUSY = (0.1, 0.98, 0.3)


def test_it_is_said_once_it_has_gone_on_for_long() -> None:
    ((second, found),) = look_on(BottleneckWatch(3.0), [BUSY] * 20)
    assert second == 3
    assert (found.worker, round(found.share, 2), round(found.others, 2)) == (1, 0.98, 0.2)


def test_it_is_said_again_while_it_goes_on() -> None:
    assert [second for second, _ in look_on(BottleneckWatch(3.0), [BUSY] * 130)] == [3, 63, 123]


def test_a_pause_begins_anew() -> None:
    assert look_on(BottleneckWatch(3.0), [BUSY, BUSY, (0.1, 0.9, 0.1), BUSY, BUSY]) == []


def test_another_one_begins_anew() -> None:
    assert look_on(BottleneckWatch(3.0), [BUSY, BUSY, (0.99, 0.1, 0.1), (0.99, 0.1, 0.1)]) == []


def test_where_the_others_are_busy_too_more_workers_help() -> None:
    assert look_on(BottleneckWatch(3.0), [(0.97, 0.99, 0.2)] * 20) == []


def test_one_that_has_started_again_is_no_bottleneck_for_what_it_had_used() -> None:
    watch = BottleneckWatch(1.0)
    assert watch.look({0: 5.0, 1: 900.0}, 100.0) is None
    assert watch.look({0: 5.1, 1: 0.0}, 101.0) is None
    assert watch.look({0: 5.2, 1: 0.1}, 102.0) is None


def test_a_worker_alone_has_nobody_beside_it() -> None:
    watch = BottleneckWatch(1.0)
    assert [watch.look({0: float(second)}, 100.0 + second) for second in range(5)] == [None] * 5

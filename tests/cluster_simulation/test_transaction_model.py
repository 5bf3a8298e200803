"""TransactionModel has to complain: answers that a broken broker would give, and the right ones beside them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.cluster_simulation.transaction_model import Output, TransactionModel
from tests.cluster_simulation.transmission import Answer, Transmission
from tests.simulation.state import Violation

SINK, OTHER = "booked", "home-booked"


class Writer:
    """Stages and commits, and is answered as a test says. Each answer comes before the next question is sent."""

    def __init__(self) -> None:
        self.now = 0
        self.model = TransactionModel()

    def send(self, verb: str, **fields: Any) -> Transmission:
        self.now += 1
        transmission = Transmission(verb, {"app": "a", **fields}, self.now)
        self.model.sent(transmission)
        return transmission

    def answer(self, transmission: Transmission, code: str = "ok", **said: Any) -> None:
        self.now += 1
        transmission.end(Answer(code, said), self.now)
        self.model.answered(transmission)

    def stage(
        self, epoch: int, attempt: int, numbers: list[int], sequence: int = 0, code: str = "ok", partition: int = 0,
        **said: Any,
    ) -> Transmission:  # fmt: skip
        """Message 10 is made of the message 110, and goes to one sink; those above 50 go to both."""
        outputs = [Output(each, 100 + each, (SINK, OTHER) if each > 50 else (SINK,)) for each in numbers]
        self.model.staging("a", (epoch, partition, attempt), sequence, outputs)
        stage = self.send("txn.stage", epoch=epoch, partition=partition, attempt=attempt, sequence=sequence)
        self.answer(stage, code, **(said or {"staged": len(numbers)}))
        return stage

    def commit(self, epoch: int, attempts: dict[int, int], code: str = "ok", **said: Any) -> None:
        named = {str(partition): attempt for partition, attempt in attempts.items()}
        self.answer(self.send("txn.commit", epoch=epoch, attempts=named), code, **said)

    def abort(self, epoch: int) -> None:
        self.answer(self.send("txn.abort", epoch=epoch))

    def end(self, booked: list[int], other: tuple[int, ...] = (), repeats: int = 0) -> Counter[int]:
        return self.model.at_the_end({SINK: booked, OTHER: other}, {("a", OTHER): repeats})


@pytest.fixture
def writer() -> Writer:
    """Has staged epoch 0: two partitions, and a second attempt at the first one."""
    found = Writer()
    found.stage(0, 7, [1, 2])
    found.stage(0, 7, [3], sequence=1)
    found.stage(0, 8, [4, 5])
    found.stage(0, 9, [6], partition=1)
    return found


def refuses(what: str) -> Any:
    return pytest.raises(Violation, match=what)


def test_an_epoch_is_published_as_it_was_committed(writer: Writer) -> None:
    writer.commit(0, {1: 9, 0: 7}, done=True, published=4, unroutable=0)
    writer.commit(0, {1: 9, 0: 7}, done=True, again=True)
    writer.stage(1, 10, [51, 52])
    writer.commit(1, {0: 10}, done=True, published=2, unroutable=0)
    assert writer.end([1, 2, 3, 6, 51, 52], (51, 52)) == Counter([101, 102, 103, 106, 151, 152])


@pytest.mark.parametrize(
    "found", [[1, 2, 3], [], [1, 2, 3, 4, 5, 6], [4, 5, 6]], ids=["a part", "nothing", "all", "other"]
)
def test_something_else_is_published_than_was_committed(writer: Writer, found: list[int]) -> None:
    writer.commit(0, {0: 7, 1: 9}, done=True, published=4, unroutable=0)
    with refuses("that was not asked"):
        writer.end(found)


def test_a_commit_without_an_answer_may_have_come_or_not(writer: Writer) -> None:
    writer.send("txn.commit", epoch=0, attempts={"0": 8})
    writer.end([])
    writer.end([4, 5])
    with refuses("that was not asked"):
        writer.end([4])


def test_what_nobody_has_committed(writer: Writer) -> None:
    with refuses("that was not asked"):
        writer.end([1, 2, 3])
    with refuses("nobody has staged it"):
        writer.end([77])


def test_again_without_a_cause(writer: Writer) -> None:
    with refuses("nobody has asked for that"):
        writer.commit(0, {0: 7}, done=True, again=True)
    with refuses("nobody has asked for that"):
        writer.stage(1, 10, [10], staged=1, again=True)


def test_an_epoch_is_committed_twice(writer: Writer) -> None:
    writer.commit(0, {0: 7}, done=True, published=3, unroutable=0)
    with refuses("was committed before"):
        writer.commit(0, {0: 8}, done=True, published=2, unroutable=0)


def test_an_epoch_is_staged_after_it_was_committed(writer: Writer) -> None:
    writer.commit(0, {0: 7}, done=True, published=3, unroutable=0)
    writer.stage(0, 11, [11], staged=1, again=True)
    with refuses("is kept"):
        writer.stage(0, 12, [12])


def test_a_commit_that_has_published_fewer(writer: Writer) -> None:
    with refuses("has 3 messages"):
        writer.commit(0, {0: 7}, done=True, published=2, unroutable=1)


def test_what_was_aborted_is_gone(writer: Writer) -> None:
    writer.abort(0)
    writer.stage(0, 7, [30], sequence=2, code="gone", error="it is not there")
    writer.commit(0, {0: 7}, "gone", error="it is not there")
    with refuses("which was aborted"):
        writer.commit(0, {0: 8}, done=True, published=2, unroutable=0)


def test_a_stage_that_was_lost_may_come_behind_an_abort(writer: Writer) -> None:
    writer.send("txn.stage", epoch=0, partition=0, attempt=8, sequence=0)
    writer.abort(0)
    writer.commit(0, {0: 8}, done=True, published=2, unroutable=0)


def test_gone_without_a_cause(writer: Writer) -> None:
    with refuses("nobody has aborted it"):
        writer.commit(0, {0: 7}, "gone", error="it is not there")
    with refuses("nobody has aborted it"):
        writer.stage(0, 7, [30], sequence=2, code="gone", error="it is not there")


def test_a_code_that_is_never_right(writer: Writer) -> None:
    with refuses("fenced"):
        writer.stage(0, 7, [30], sequence=2, code="fenced", error="somebody else")


def test_another_order(writer: Writer) -> None:
    writer.commit(0, {0: 7, 1: 9}, done=True, published=4, unroutable=0)
    with refuses("came in another order"):
        writer.end([2, 1, 3, 6])


def test_epochs_in_another_order(writer: Writer) -> None:
    writer.commit(0, {0: 8}, done=True, published=2, unroutable=0)
    writer.stage(1, 10, [10])
    writer.commit(1, {0: 10}, done=True, published=1, unroutable=0)
    writer.end([4, 5, 10])
    with refuses("came in another order"):
        writer.end([10, 4, 5])


def test_a_message_that_comes_twice(writer: Writer) -> None:
    writer.stage(0, 13, [51, 52], partition=2)
    writer.commit(0, {2: 13}, done=True, published=2, unroutable=0)
    writer.end([51, 52], (51, 52, 51, 52), repeats=1)
    with refuses("1 blobs came again from 'home-booked', 0 may have"):
        writer.end([51, 52], (51, 52, 51, 52))
    with refuses("2 blobs came again"):
        writer.end([51, 52], (51, 52, 51, 51), repeats=1)
    with refuses("1 blobs came again from 'booked'"):
        writer.end([51, 51, 52], (51, 52), repeats=1)

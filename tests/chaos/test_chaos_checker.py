"""The checker is fed histories that must not be: it has to complain of each, and of no other."""

from __future__ import annotations

from math import inf

import pytest

from tests.chaos.checker import Counts, Findings, check, longest_gap, lost_connections, write_outage
from tests.chaos.history import Delivery, History, Outcome, QueueKind, QueueSpec, Settlement
from tests.kill.ledger import MessageId, body_of

QUORUM, CLASSIC = "quorum", "classic"
MESSAGE: MessageId = (1, 1)
CALM, DRAINED = 50.0, 60.0


class Story:
    """A history in the making, with two queues."""

    def __init__(self, queue: str = QUORUM) -> None:
        self.history = History(
            {
                QUORUM: QueueSpec(QUORUM, QueueKind.QUORUM),
                CLASSIC: QueueSpec(CLASSIC, QueueKind.CLASSIC, "n2"),
            }
        )
        self.queue = queue

    def publish(self, outcome: Outcome = Outcome.CONFIRMED, at: float = 1.0, message: MessageId = MESSAGE) -> None:
        attempt = self.history.publishing(message, self.queue, "n1", at)
        self.history.ended(attempt, outcome, at + 0.1)

    def deliver(
        self,
        at: float = 2.0,
        *,
        redelivered: bool = False,
        settlement: Settlement = Settlement.ACKED,
        body: bytes = body_of(MESSAGE),
        queue: str = "",
    ) -> None:
        delivery = Delivery(queue or self.queue, "n3", "consumer", at, redelivered, settlement, at + 0.1)
        self.history.delivered(delivery, body)

    def check(self, restarted: tuple[str, ...] = ()) -> Findings:
        return check(self.history, restarted, CALM, DRAINED)


def words(findings: Findings) -> list[str]:
    """What each violation is called."""
    return [text.partition(":")[0] for text in findings.violations]


def test_what_ought_to_be() -> None:
    story = Story()
    story.publish()
    story.deliver()
    findings = story.check()
    assert findings.violations == []
    assert findings.counts[QueueKind.QUORUM] == Counts(published=1, attempts=1, confirmed=1, deliveries=1)
    assert findings.counts[QueueKind.QUORUM].operations == 2
    assert findings.counts[QueueKind.CLASSIC] == Counts()


def test_a_confirmed_message_that_never_comes_is_lost() -> None:
    story = Story()
    story.publish()
    findings = story.check()
    assert findings.counts[QueueKind.QUORUM].lost == 1
    assert words(findings) == ["lost"]
    assert story.history.missing() == [MESSAGE]


def test_confirmed_at_the_second_attempt_is_confirmed() -> None:
    story = Story()
    story.publish(Outcome.UNKNOWN)
    story.publish()
    assert story.check().counts[QueueKind.QUORUM].lost == 1


@pytest.mark.parametrize("outcome", [Outcome.NACKED, Outcome.UNKNOWN, Outcome.PENDING])
def test_what_was_not_confirmed_may_come_or_not(outcome: Outcome) -> None:
    story = Story()
    story.publish(outcome)
    assert story.check().violations == []
    story.deliver()
    assert story.check().violations == []


def test_a_queue_that_is_there_returns_nothing() -> None:
    story = Story()
    story.publish(Outcome.RETURNED)
    assert words(story.check()) == ["returned"]


def test_redelivered_messages_are_counted_and_allowed() -> None:
    story = Story()
    story.publish()
    story.deliver(settlement=Settlement.NONE)
    story.deliver(3.0, redelivered=True)
    findings = story.check()
    assert (findings.counts[QueueKind.QUORUM].duplicated, findings.violations) == (1, [])


def test_a_retry_may_come_twice_but_not_three_times() -> None:
    story = Story()
    story.publish(Outcome.UNKNOWN)
    story.publish()
    story.deliver()
    story.deliver(3.0)
    assert story.check().violations == []
    story.deliver(4.0)
    assert words(story.check()) == ["unexplained"]


def test_a_second_copy_without_a_reason() -> None:
    story = Story()
    story.publish()
    story.deliver()
    story.deliver(3.0)
    assert words(story.check()) == ["unexplained"]


def test_only_a_home_that_was_restarted_forgets_what_it_delivered() -> None:
    story = Story(CLASSIC)
    story.publish()
    story.deliver()
    story.deliver(3.0)
    assert words(story.check()) == ["unexplained"]
    assert words(story.check(restarted=("n1",))) == ["unexplained"]
    assert words(story.check(restarted=("n2",))) == []


def test_an_ack_on_a_healthy_cluster_is_for_good() -> None:
    story = Story()
    story.publish()
    story.deliver(CALM + 1)
    story.deliver(DRAINED + 1, redelivered=True)
    assert words(story.check()) == ["came back"]


@pytest.mark.parametrize(
    ("at", "settlement"),
    [(CALM - 1, Settlement.ACKED), (CALM + 1, Settlement.NONE), (CALM + 1, Settlement.REQUEUED)],
    ids=["acked while there were faults", "held to the end", "given back"],
)
def test_what_may_come_back(at: float, settlement: Settlement) -> None:
    story = Story()
    story.publish()
    story.deliver(at, settlement=settlement)
    story.deliver(DRAINED + 1, redelivered=True)
    assert story.check().violations == []


def test_nobody_published_this() -> None:
    story = Story()
    story.publish()
    story.deliver(body=b"1 1|damaged")
    story.deliver(body=body_of((1, 2)))
    story.deliver(queue=CLASSIC)
    story.deliver()
    found = story.check().violations
    assert len(found) == 3
    assert "nobody published" in found[0]
    assert "never published" in found[1]
    assert "published to quorum" in found[2]


@pytest.mark.parametrize("keeps_order", [True, False])
def test_what_was_confirmed_before_comes_before(keeps_order: bool) -> None:
    story = Story(CLASSIC)
    for number, (published, delivered) in enumerate([(1.0, 4.0), (2.0, 3.0), (2.05, 2.5)], start=1):
        story.publish(at=published, message=(1, number))
        story.deliver(delivered, body=body_of((1, number)))
    found = check(story.history, (), CALM, DRAINED, keeps_order=keeps_order).violations
    assert [text.partition(":")[0] for text in found] == ["out of order"] * keeps_order
    assert not keeps_order or "1 messages" in found[0], "the second was not confirmed before the third was published"


def test_gaps() -> None:
    assert longest_gap([1.0, 2.0, 4.5, 5.0], 0.5, 6.0) == 2.5
    assert longest_gap([], 1.0, 3.0) == 2.0
    assert longest_gap([0.0, 9.0], 1.0, 3.0) == 2.0


def test_an_outage_is_the_longest_of_any_queue_on_any_node_that_counts() -> None:
    confirms = {
        ("n1", "a"): [1.0, 2.0, 3.0, 4.0],
        ("n1", "b"): [1.0, 3.5, 4.0],
        ("n2", "a"): [4.0, 1.0],
    }
    assert write_outage(confirms, ["a"], ["n1"], 1.0, 4.0) == 1.0
    assert write_outage(confirms, ["a", "b"], ["n1"], 1.0, 4.0) == 2.5
    assert write_outage(confirms, ["a"], ["n1", "n2"], 1.0, 4.0) == 3.0
    assert write_outage(confirms, ["c"], ["n1"], 1.0, 4.0) == 3.0


def test_a_defect_that_the_broker_admits_is_told_once() -> None:
    story = Story()
    story.history.failed("consume", ConnectionError("reset"), "n1", 1.0)
    assert story.check().violations == []
    for _ in range(2):
        story.history.failed("publish", OSError("INTERNAL_ERROR - defect in the broker: KeyError"), "n1", 1.0)
    assert words(story.check()) == ["publish"]
    assert story.history.errors["publish: OSError"] == 2


def test_connections_to_nodes_that_are_well_are_kept() -> None:
    story = Story()
    story.history.failed("consume", ConnectionError("reset"), "n1", 2.0)
    story.history.failed("consume", TimeoutError("late"), "n2", 2.0)
    assert lost_connections(story.history, ["n2", "n3"], 1.0, 3.0) == []
    assert lost_connections(story.history, ["n1"], 2.5, 3.0) == []
    (found,) = lost_connections(story.history, ["n1"], 1.0, 3.0)
    assert "n1 at 2.000" in found


def test_before_the_end_nothing_is_lost() -> None:
    story = Story()
    story.publish()
    assert check(story.history, (), inf, inf).violations == []

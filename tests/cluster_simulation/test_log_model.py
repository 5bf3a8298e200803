"""LogModel has to complain: each wrong history is one that a broken broker would leave, and the right one beside it."""

from __future__ import annotations

from typing import Any

import pytest

from queues.effects import Delivered, Effect, GetAnswered
from queues.message import Address, Message, build_message
from queues.quorum.commands import (
    Attach,
    Batch,
    Command,
    Detach,
    DropQueue,
    Enqueue,
    Get,
    How,
    NodeDown,
    OpenQueue,
    Purge,
    Settle,
    encode_batch,
    encode_leader_batch,
)
from queues.quorum.settings import QuorumSettings
from tests.cluster_simulation.log_model import LogModel
from tests.cluster_simulation.queue_kinds import DELAYED, HELD_BACK, HOLDING, LETTERS, SCRATCH, QueueKind
from tests.simulation.state import Violation

GROUP = 1
PLAIN, DYING, SINGLE, LEVELS, DEAD, GOING, TO, HELD = 1, 2, 3, 4, 5, 6, 7, 8
SESSION = 1000
ENDLESS = {"x-delivery-limit": -1}
KINDS = {
    "plain": QueueKind("plain", arguments=ENDLESS),
    "dying": QueueKind("dying", arguments={"x-dead-letter-exchange": "dead", "x-message-ttl": 100, **ENDLESS}),
    "single": QueueKind("single", arguments={"x-single-active-consumer": True, **ENDLESS}),
    "levels": QueueKind("levels", arguments={"x-max-priority": 2, **ENDLESS}),
    LETTERS: QueueKind(LETTERS, arguments=ENDLESS),
    SCRATCH: QueueKind(SCRATCH, is_scratch=True, arguments=ENDLESS),
    DELAYED: QueueKind(DELAYED, arguments=ENDLESS),
    HELD_BACK: HOLDING,
}


def message(number: int, priority: int = -1) -> Message:
    """A message as applications of the simulation publish it."""
    return build_message(Address(b"\x00\x01q"), b"\x00\x00", b"%d:" % number, True, priority, -1, 1)


class History:
    """Writes a log, and says what machines make of it."""

    def __init__(self) -> None:
        self.model = LogModel(KINDS)
        self.model.name_of = dict(zip((PLAIN, DYING, SINGLE, LEVELS, DEAD, GOING, TO, HELD), KINDS, strict=True))
        self.index = 0
        self.time = 0
        self.sequences: dict[tuple[str, int], int] = {}
        self.say("admin", *[OpenQueue(each, QuorumSettings()) for each in self.model.name_of])

    def entry(self, data: bytes, node: str = "n1") -> int:
        self.index += 1
        self.model.entry(GROUP, self.index, data, node)
        return self.index

    def batch(self, node: str, *commands: Command, session: int = SESSION) -> bytes:
        first = self.sequences.get((node, session), 0) + 1
        self.sequences[node, session] = first + len(commands) - 1
        return encode_batch(Batch(self.time, node, session, first, 0, list(commands)))

    def say(self, node: str, *commands: Command, session: int = SESSION) -> int:
        """Commands of a node. Returns their index."""
        return self.entry(self.batch(node, *commands, session=session))

    def publish(self, *numbers: int, queue_id: int = PLAIN, priority: int = -1) -> int:
        return self.say("n1", *[Enqueue((queue_id,), message(number, priority)) for number in numbers])

    def attach(
        self, node: str, number: int, queue_id: int = PLAIN, session: int = SESSION, priority: int = 0
    ) -> None:
        self.say(node, Attach(number, queue_id, 0, False, priority, False, f"tag{number}"), session=session)

    def told(self, node: str, effect: Effect, index: int | None = None) -> None:
        self.model.told(GROUP, index or self.index, node, [effect])

    def hand(
        self, node: str, consumer: int, delivery: int, number: int, *, again: bool = False, index: int = 0
    ) -> None:
        self.told(node, Delivered(consumer, delivery, message(number), again, int(again)), index or self.index)

    def settle(self, node: str, consumer: int, delivery: int, how: How = How.ACK, session: int = SESSION) -> int:
        return self.say(node, Settle(consumer, how, ((delivery, delivery),)), session=session)


@pytest.fixture
def history() -> History:
    return History()


def refuses(what: str) -> Any:
    return pytest.raises(Violation, match=what)


# -- L1 ----------------------------------------------------------------------------------------------------------------


def test_two_nodes_apply_the_same(history: History) -> None:
    data = history.batch("n1", Enqueue((PLAIN,), message(1)))
    history.entry(data)
    assert history.model.entry(GROUP, history.index, data, "n2") is False
    with refuses("n3 applies another entry"):
        history.model.entry(GROUP, history.index, data + b"\0", "n3")
    with refuses("where nobody had one"):
        del history.model.group(GROUP).entries[history.index]
        history.model.entry(GROUP, history.index, data, "n2")


def test_two_nodes_have_the_same_state(history: History) -> None:
    history.model.digest(GROUP, 5, b"a", "n1")
    history.model.digest(GROUP, 5, b"a", "n2")
    with refuses("n3 has another state"):
        history.model.digest(GROUP, 5, b"b", "n3")


# -- L2, L3: hands -----------------------------------------------------------------------------------------------------


def two_consumers(history: History) -> None:
    history.attach("n1", 1)
    history.attach("n2", 2)
    history.publish(7)
    history.hand("n1", 1, 1, 7)


def test_a_message_is_in_one_hand(history: History) -> None:
    two_consumers(history)
    history.settle("n1", 1, 1, How.REQUEUE)
    history.hand("n2", 2, 1, 7, again=True)


def test_a_message_in_two_hands_is_noticed(history: History) -> None:
    two_consumers(history)
    history.say("n2")
    with refuses("in two hands"):
        history.hand("n2", 2, 1, 7, again=True)


def test_also_if_the_first_is_told_late(history: History) -> None:
    history.attach("n1", 1)
    history.attach("n2", 2)
    index = history.publish(7)
    history.say("n2")
    history.hand("n2", 2, 1, 7, again=True)
    with refuses("in two hands"):
        history.hand("n1", 1, 1, 7, index=index)


def test_a_session_that_was_closed_has_given_back(history: History) -> None:
    two_consumers(history)
    history.entry(encode_leader_batch(0, [NodeDown("n1", SESSION)]))
    history.hand("n2", 2, 1, 7, again=True)
    history.settle("n1", 1, 1)
    assert history.model.queues[PLAIN].copies[7].end == "", "the acknowledgement came too late to count"
    history.settle("n2", 2, 1)
    assert history.model.queues[PLAIN].copies[7].end == "acknowledged"


def test_so_has_one_that_was_replaced_and_a_consumer_that_gives_back(history: History) -> None:
    two_consumers(history)
    history.say("n1", session=SESSION + 1)
    history.hand("n2", 2, 1, 7, again=True)
    history.say("n2", Detach(2, True))
    history.attach("n1", 3, session=SESSION + 1)
    history.hand("n1", 3, 1, 7, again=True)


def test_what_was_acknowledged_and_comes_back_is_noticed(history: History) -> None:
    two_consumers(history)
    history.settle("n1", 1, 1)
    history.say("n2")
    with refuses("comes back"):
        history.hand("n2", 2, 1, 7, again=True)


def test_two_acknowledgements_that_count_are_noticed(history: History) -> None:
    """Whoever has it gives it back, and the broker does not notice: the second holder's acknowledgement counts too."""
    two_consumers(history)
    other = history.model.group(GROUP).delivery_owners["n2", 2]
    history.settle("n1", 1, 1, How.REQUEUE)
    history.hand("n2", 2, 1, 7, again=True)
    history.settle("n2", 2, 1)
    handing = other.handings[1]
    handing.end = ""
    with refuses("was acknowledged at"):
        history.settle("n2", 2, 1)


def test_first_comes_once(history: History) -> None:
    two_consumers(history)
    history.settle("n1", 1, 1, How.REQUEUE)
    with refuses("as if for the first time"):
        history.hand("n2", 2, 1, 7)


def test_a_delivery_stays_what_it_is(history: History) -> None:
    two_consumers(history)
    history.hand("n1", 1, 1, 7)
    history.publish(8)
    with refuses("was message 7, and is message 8"):
        history.hand("n1", 1, 1, 8)


def test_nobody_gets_what_was_never_there(history: History) -> None:
    history.attach("n1", 1)
    with refuses("was never in 'plain'"):
        history.hand("n1", 1, 1, 7)
    with refuses("which never came"):
        history.hand("n2", 2, 1, 7)


def test_a_message_is_taken_once(history: History) -> None:
    history.publish(7)
    with refuses("is taken again"):
        history.publish(7)


def test_unless_its_producer_says_that_it_is_the_same(history: History) -> None:
    for _ in range(2):
        history.say("n1", Enqueue((PLAIN,), message(7), b"producer", 1))
    assert len(history.model.by_number[7]) == 1


def test_what_a_node_sends_again_is_skipped(history: History) -> None:
    data = history.batch("n1", Enqueue((PLAIN,), message(7)))
    history.entry(data)
    history.entry(data)
    assert history.model.counts["commands skipped"] == 1


# -- L4, L5: order -----------------------------------------------------------------------------------------------------


def test_first_deliveries_are_in_order(history: History) -> None:
    history.attach("n1", 1)
    history.publish(1, 2)
    history.hand("n1", 1, 1, 1)
    history.settle("n1", 1, 1)
    history.hand("n1", 1, 2, 2)
    history.settle("n1", 1, 2)
    history.model.at_the_end()


def test_those_that_are_not_are_noticed(history: History) -> None:
    history.attach("n1", 1)
    history.publish(1, 2)
    history.hand("n1", 1, 1, 2)
    history.settle("n1", 1, 1)
    history.hand("n1", 1, 2, 1)
    history.settle("n1", 1, 2)
    with refuses("message 1 in 'plain'.* came after message 2"):
        history.model.at_the_end()


def test_what_came_back_unseen_may_be_late(history: History) -> None:
    history.attach("n1", 1)
    history.attach("n3", 3)
    history.publish(1, 2)
    history.hand("n1", 1, 1, 2)
    history.settle("n1", 1, 1)
    history.say("n3", Detach(3, True, 0))
    history.hand("n1", 1, 2, 1)
    history.settle("n1", 1, 2)
    history.model.at_the_end()


def test_priorities_go_first(history: History) -> None:
    history.attach("n1", 1, LEVELS)
    history.publish(1, queue_id=LEVELS, priority=0)
    history.publish(2, queue_id=LEVELS, priority=9)
    for delivery, number in enumerate((2, 1), 1):
        history.hand("n1", 1, delivery, number)
        history.settle("n1", 1, delivery)
    history.model.at_the_end()


@pytest.mark.parametrize("goes", [True, False])
def test_one_active_consumer(history: History, goes: bool) -> None:
    history.attach("n1", 1, SINGLE)
    history.attach("n2", 2, SINGLE)
    history.publish(1, 2, queue_id=SINGLE)
    history.hand("n1", 1, 1, 1)
    history.settle("n1", 1, 1)
    if goes:
        history.say("n1", Detach(1, False))
    history.hand("n2", 2, 1, 2)
    history.settle("n2", 2, 1)
    if goes:
        history.model.at_the_end()
    else:
        with refuses("two active consumers"):
            history.model.at_the_end()


@pytest.mark.parametrize("holds", [True, False])
def test_the_active_consumer_gives_way_to_a_higher_priority_when_it_holds_nothing(
    history: History, holds: bool
) -> None:
    history.attach("n1", 1, SINGLE)
    history.attach("n2", 2, SINGLE, priority=5)
    history.publish(1, queue_id=SINGLE)
    history.hand("n1", 1, 1, 1)
    if not holds:
        history.settle("n1", 1, 1)
    history.publish(2, queue_id=SINGLE)
    history.hand("n2", 2, 1, 2)
    if holds:
        history.settle("n1", 1, 1)
    history.settle("n2", 2, 1)
    if holds:
        with refuses("two active consumers"):
            history.model.at_the_end()
    else:
        history.model.at_the_end()


# -- L6 ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_overtaken", [True, False])
def test_an_acknowledgement_is_not_overtaken(history: History, is_overtaken: bool) -> None:
    history.attach("n1", 1)
    history.publish(7)
    history.hand("n1", 1, 1, 7)
    handing = history.model.seen("n1", "tag1", 7, is_get=False)
    history.model.follows("n1", 8, [handing])
    if is_overtaken:
        with refuses("message 8 is taken at .* before the acknowledgement"):
            history.publish(8)
    else:
        history.settle("n1", 1, 1)
        history.publish(8)
        assert history.model.counts["covered acks"] == 1


def test_nobody_settles_what_is_in_a_queue_that_a_client_is_deleting(history: History) -> None:
    """Seed 136 of three nodes: its deletion is on its way, and takes along what the acknowledgement was for."""
    history.attach("n1", 1, GOING)
    history.publish(7, queue_id=GOING)
    history.hand("n1", 1, 1, 7)
    history.model.follows("n1", 8, [history.model.seen("n1", "tag1", 7, is_get=False)])
    history.publish(8)
    assert history.model.counts["covered acks"] == 0


def test_one_of_an_earlier_session_means_nothing(history: History) -> None:
    history.attach("n1", 1)
    history.publish(7)
    history.hand("n1", 1, 1, 7)
    history.model.follows("n1", 8, [history.model.seen("n1", "tag1", 7, is_get=False)])
    history.say("n1", Enqueue((PLAIN,), message(8)), session=SESSION + 1)


# -- L7 ----------------------------------------------------------------------------------------------------------------


def test_what_was_taken_does_not_vanish(history: History) -> None:
    history.publish(1)
    with refuses("message 1 in 'plain' .* is gone"):
        history.model.at_the_end()


def test_unless_it_was_purged_or_went_with_its_queue(history: History) -> None:
    history.publish(1)
    history.say("n2", Purge(PLAIN))
    history.publish(2, queue_id=SINGLE)
    history.say("n2", DropQueue(SINGLE))
    history.model.at_the_end()


def test_a_purge_takes_nothing_that_comes_later(history: History) -> None:
    history.say("n2", Purge(PLAIN))
    history.publish(1)
    with refuses("is gone"):
        history.model.at_the_end()


@pytest.mark.parametrize("why", ["rejected", "expired"])
@pytest.mark.parametrize("is_there", [True, False])
def test_what_dies_becomes_a_letter(history: History, why: str, is_there: bool) -> None:
    history.attach("n1", 1, DYING)
    history.publish(1, queue_id=DYING)
    if why == "rejected":
        history.hand("n1", 1, 1, 1)
        history.settle("n1", 1, 1, How.REJECT)
    else:
        history.time += 100
    history.say("n3")
    if not is_there:
        with refuses(f"was {why}, and there is no dead letter"):
            history.model.at_the_end()
        return
    history.say("n2", Enqueue((DEAD,), message(1)))
    history.attach("n3", 3, DEAD)
    history.hand("n3", 3, 1, 1)
    history.settle("n3", 3, 1)
    history.model.at_the_end()


@pytest.mark.parametrize("is_there", [True, False])
def test_what_is_held_back_comes(history: History, is_there: bool) -> None:
    history.publish(7, queue_id=HELD)
    if is_there:
        history.publish(7, queue_id=TO)
        history.attach("n1", 1, TO)
        history.hand("n1", 1, 1, 7)
        history.settle("n1", 1, 1)
        history.model.at_the_end()
    else:
        with refuses("was held back, and never came"):
            history.model.at_the_end()


def test_what_was_held_back_comes_once(history: History) -> None:
    history.publish(7, queue_id=HELD)
    history.publish(7, queue_id=TO)
    with refuses("is taken again"):
        history.publish(7, queue_id=TO)


def test_a_letter_is_no_excuse_before_it_has_expired(history: History) -> None:
    history.publish(1, queue_id=DYING)
    history.time += 99
    history.say("n3")
    with refuses("is gone"):
        history.model.at_the_end()


# -- clients -----------------------------------------------------------------------------------------------------------


def test_what_is_confirmed_is_in_the_log(history: History) -> None:
    history.publish(1)
    history.model.confirmed(1, ["plain"])
    with refuses("no committed entry has it for 'dying'"):
        history.model.confirmed(1, ["plain", "dying"])
    with refuses("no committed entry has it"):
        history.model.confirmed(2, ["plain"])


def test_what_clients_get_was_handed_to_them(history: History) -> None:
    history.attach("n1", 1)
    history.publish(1, 2)
    history.hand("n1", 1, 1, 1)
    history.model.seen("n1", "tag1", 1, is_get=False)
    for node, tag, number, is_get in (
        ("n1", "tag1", 1, False), ("n1", "tag1", 2, False), ("n2", "tag1", 1, False), ("n1", "", 1, True),
    ):  # fmt: skip
        with refuses("handed it to nobody there"):
            history.model.seen(node, tag, number, is_get=is_get)


def test_what_is_fetched_was_handed_out_too(history: History) -> None:
    history.publish(1)
    index = history.say("n1", Get(9, PLAIN))
    history.told("n1", GetAnswered(2, 9, 1, message(1), False, 0, 0), index)
    assert history.model.seen("n1", "", 1, is_get=True).holder.is_getter

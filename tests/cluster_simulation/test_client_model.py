"""ClientModel has to complain: wrong histories as clients see them, and the right ones beside them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster_simulation.client_model import Arrival, Channel, ClientModel, Consumer, Removal, Sent
from tests.cluster_simulation.queue_kinds import LETTERS, QueueKind
from tests.simulation.state import Violation

DEAD = {"x-dead-letter-exchange": "dead"}
KINDS = {
    "plain": QueueKind("plain"),
    "other": QueueKind("other"),
    "dying": QueueKind("dying", arguments={"x-message-ttl": 100, **DEAD}),
    "home": QueueKind("home", is_quorum=False),
    "ram": QueueKind("ram", is_quorum=False, is_durable=False),
    LETTERS: QueueKind(LETTERS),
}


class Clients:
    """A publisher and a reader."""

    def __init__(self) -> None:
        self.model = ClientModel(KINDS)
        self.publisher = Channel("publisher", "n1", 1, is_confirming=True)
        self.reader = Channel("reader", "n2", 1)
        self.consumer = Consumer("tag", "plain", False, 1 << 30)

    def publish(self, number: int, *targets: str, is_persistent: bool = True, is_mandatory: bool = False) -> Sent:
        message = Sent(number, b"%d:" % number, is_persistent, targets, targets)
        self.model.now += 1
        self.model.publish(self.publisher, message, is_mandatory=is_mandatory)
        return message

    def confirm(self, tag: int, *, is_multiple: bool = False, is_nack: bool = False) -> None:
        self.model.now += 1
        self.model.confirm(self.publisher, tag, is_multiple=is_multiple, is_nack=is_nack)

    def deliver(self, number: int, queue: str = "plain", **changes: Any) -> Arrival:
        values = {
            "channel": self.reader, "consumer": self.consumer, "queue": queue, "number": number,
            "body": b"%d:" % number, "delivery_tag": self.reader.next_tag,
        }  # fmt: skip
        flags = {"is_redelivered": False, "no_ack": False, "deaths": []}
        return self.model.deliver(**{**values, **flags, **changes})

    def ack(self, arrival: Arrival, how: str = "ack") -> None:
        self.model.settle(self.reader, arrival.delivery_tag, how, is_multiple=False)


@pytest.fixture
def clients() -> Clients:
    return Clients()


def refuses(what: str) -> Any:
    return pytest.raises(Violation, match=what)


# -- K1, K2, K5 --------------------------------------------------------------------------------------------------------


def test_a_message_comes_as_it_was(clients: Clients) -> None:
    clients.publish(1, "plain")
    clients.deliver(1)


def test_what_is_wrong_with_one_is_noticed(clients: Clients) -> None:
    clients.publish(1, "plain")
    with refuses("nobody has published it"):
        clients.deliver(2)
    with refuses("another body"):
        clients.deliver(1, body=b"1:x")
    with refuses("delivery tag 5"):
        clients.deliver(1, delivery_tag=5)
    clients.reader.next_tag = 1
    with refuses("comes from 'other'"):
        clients.deliver(1, "other")
    with refuses("with deaths"):
        clients.deliver(1, deaths=[("dying", "expired")])


def test_it_comes_once_for_the_first_time(clients: Clients) -> None:
    clients.publish(1, "plain")
    clients.ack(clients.deliver(1), "requeue")
    clients.deliver(1, is_redelivered=True)
    with refuses("as if for the first time"):
        clients.deliver(1)


@pytest.mark.parametrize(
    ("deaths", "complaint"),
    [
        ([("dying", "expired")], ""),
        ([], "without a word on its death"),
        ([("plain", "expired")], "died in 'plain'"),
        ([("dying", "rejected")], "by rejected"),
        ([("dying", "maxlen")], "by maxlen"),
    ],
)
def test_a_letter_says_truly_how_it_died(clients: Clients, deaths: list[tuple[str, str]], complaint: str) -> None:
    clients.publish(1, "dying")
    if complaint:
        with refuses(complaint):
            clients.deliver(1, LETTERS, deaths=deaths)
    else:
        clients.deliver(1, LETTERS, deaths=deaths)


# -- K3 ----------------------------------------------------------------------------------------------------------------


def test_prefetch_of_a_consumer(clients: Clients) -> None:
    clients.consumer.limit = 1
    clients.publish(1, "plain")
    clients.publish(2, "plain")
    clients.publish(3, "plain")
    clients.ack(clients.deliver(1))
    clients.deliver(2)
    with refuses("its prefetch is 1"):
        clients.deliver(3)


def test_prefetch_begins_anew_where_a_queue_has_moved(clients: Clients) -> None:
    clients.consumer.limit = 1
    for number in (1, 2, 3):
        clients.publish(number, "home")
    clients.deliver(1, "home", stay=1)
    clients.deliver(2, "home", stay=2)
    with refuses("its prefetch is 1"):
        clients.deliver(3, "home", stay=2)


def test_prefetch_of_a_channel(clients: Clients) -> None:
    clients.reader.limit = 1
    clients.publish(1, "plain")
    clients.publish(2, "plain")
    clients.deliver(1)
    with refuses("its limit is 1"):
        clients.deliver(2, consumer=Consumer("tag2", "plain", False, 5))


def test_nothing_comes_after_the_end(clients: Clients) -> None:
    clients.publish(1, "plain")
    clients.consumer.is_over = True
    with refuses("after its end"):
        clients.deliver(1)


# -- K4 ----------------------------------------------------------------------------------------------------------------


def test_confirms_are_for_what_waits_for_them(clients: Clients) -> None:
    for number in range(1, 5):
        clients.publish(number, "plain")
    clients.confirm(2)
    clients.confirm(3, is_multiple=True)
    for tag in (2, 5):
        with refuses(f"publish {tag} is confirmed"):
            clients.confirm(tag)
    with refuses("publish 3 is confirmed"):
        clients.confirm(3, is_multiple=True)
    clients.confirm(4, is_nack=True)


def test_what_cannot_be_routed_is_returned_first(clients: Clients) -> None:
    clients.publish(1, is_mandatory=True)
    clients.model.returned(clients.publisher, 1)
    clients.confirm(1)
    clients.publish(2, is_mandatory=True)
    with refuses("was not returned"):
        clients.confirm(2)


def test_what_can_be_routed_is_not(clients: Clients) -> None:
    clients.publish(1, "plain", is_mandatory=True)
    with refuses("its queue is there"):
        clients.model.returned(clients.publisher, 1)
    clients.publish(2)
    with refuses("not mandatory"):
        clients.model.returned(clients.publisher, 2)


# -- K6 ----------------------------------------------------------------------------------------------------------------


def test_what_was_confirmed_and_acknowledged_is_kept(clients: Clients) -> None:
    clients.publish(1, "plain")
    clients.confirm(1)
    clients.ack(clients.deliver(1))
    clients.model.at_the_end()


@pytest.mark.parametrize("queue", ["plain", "home"])
def test_what_was_confirmed_and_never_came_is_lost(clients: Clients, queue: str) -> None:
    clients.publish(1, queue)
    clients.confirm(1)
    with refuses(f"'{queue}' has lost it"):
        clients.model.at_the_end()


def test_so_is_what_came_and_was_not_acknowledged(clients: Clients) -> None:
    clients.publish(1, "plain", "other")
    clients.confirm(1)
    clients.ack(clients.deliver(1))
    clients.deliver(1, "other")
    with refuses("'other' has lost it"):
        clients.model.at_the_end()


@pytest.mark.parametrize("outcome", ["none", "nack", "returned"])
def test_what_was_not_confirmed_may_be_lost(clients: Clients, outcome: str) -> None:
    clients.publish(1, "plain")
    if outcome == "nack":
        clients.confirm(1, is_nack=True)
    clients.model.at_the_end()


def test_so_may_what_was_not_to_be_kept(clients: Clients) -> None:
    clients.publish(1, "home", is_persistent=False)
    clients.publish(2, "ram")
    clients.confirm(2, is_multiple=True)
    clients.model.at_the_end()


@pytest.mark.parametrize("comes", [True, False])
def test_a_letter_counts(clients: Clients, comes: bool) -> None:
    clients.publish(1, "dying")
    clients.confirm(1)
    if comes:
        clients.ack(clients.deliver(1, LETTERS, deaths=[("dying", "expired")]))
        clients.model.at_the_end()
    else:
        with refuses("'dying' has lost it"):
            clients.model.at_the_end()


def test_what_was_refused_without_an_address_is_gone_rightly(clients: Clients) -> None:
    clients.publish(1, "plain")
    clients.confirm(1)
    clients.ack(clients.deliver(1), "reject")
    clients.model.at_the_end()


@pytest.mark.parametrize("is_before", [True, False])
def test_a_purge_counts_from_when_it_was_asked_for_to_its_answer(clients: Clients, is_before: bool) -> None:
    if is_before:
        clients.model.removals.append(Removal("plain", 0, 0))
    clients.publish(1, "plain")
    if not is_before:
        clients.model.removals.append(Removal("plain", clients.model.now))
    clients.confirm(1)
    if is_before:
        with refuses("has lost it"):
            clients.model.at_the_end()
    else:
        clients.model.at_the_end()

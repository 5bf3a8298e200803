"""Dispatcher: who gets the next message."""

from __future__ import annotations

from queues.dispatcher import Dispatcher
from tests.queues.queue_world import Client


def clients(*priorities: int, limit: int = 1000) -> list[Client]:
    return [Client([], limit, priority=priority) for priority in priorities]


def served(dispatcher: Dispatcher, among: list[Client], count: int) -> list[int | None]:
    """The indices of the next takers, each of whom uses one credit."""
    taken: list[int | None] = []
    for _ in range(count):
        taker = dispatcher.next()
        if taker is None:
            taken.append(None)
        else:
            index = next(index for index, client in enumerate(among) if client is taker)
            among[index].unsettled += 1
            taken.append(index)
    return taken


def test_nobody() -> None:
    assert Dispatcher().next() is None


def test_round_robin_among_equals() -> None:
    dispatcher, among = Dispatcher(), clients(0, 0, 0)
    for client in among:
        dispatcher.add(client)
    assert served(dispatcher, among, 7) == [0, 1, 2, 0, 1, 2, 0]


def test_a_lower_priority_is_served_only_while_all_higher_are_out_of_credit() -> None:
    dispatcher, among = Dispatcher(), clients(0, 5, 5, -3, limit=1)
    for client in among:
        dispatcher.add(client)
    assert served(dispatcher, among, 5) == [1, 2, 0, 3, None]
    among[2].unsettled = 0
    assert dispatcher.credit_returned(among[2])
    among[3].unsettled = 0
    assert dispatcher.credit_returned(among[3])
    assert served(dispatcher, among, 3) == [2, 3, None]


def test_who_is_out_of_credit_leaves_the_line_and_returns_at_its_end() -> None:
    dispatcher, among = Dispatcher(), clients(0, 0, 0)
    for client in among:
        dispatcher.add(client)
    among[0].is_paused = True
    assert served(dispatcher, among, 2) == [1, 2]
    assert [client.is_waiting for client in among] == [False, True, True]
    among[0].is_paused = False
    assert dispatcher.credit_returned(among[0])
    assert not dispatcher.credit_returned(among[0]), "it stands in line already"
    assert sorted(index for index in served(dispatcher, among, 3) if index is not None) == [0, 1, 2]


def test_one_consumer_comes_and_goes() -> None:
    dispatcher, among = Dispatcher(), clients(0, limit=1)
    dispatcher.add(among[0])
    assert served(dispatcher, among, 2) == [0, None]
    assert not among[0].is_waiting
    among[0].unsettled = 0
    assert dispatcher.credit_returned(among[0])
    assert served(dispatcher, among, 1) == [0]
    dispatcher.remove(among[0])
    assert dispatcher.next() is None
    assert not dispatcher.consumers


def test_from_one_to_two_and_back() -> None:
    dispatcher, among = Dispatcher(), clients(0, 0)
    dispatcher.add(among[0])
    dispatcher.add(among[1])
    assert served(dispatcher, among, 2) == [0, 1]
    dispatcher.remove(among[0])
    assert not among[0].is_waiting
    assert served(dispatcher, among, 2) == [1, 1]
    dispatcher.add(among[0])
    assert sorted(index for index in served(dispatcher, among, 2) if index is not None) == [0, 1]


def test_a_paused_consumer_that_leaves_does_not_disturb_the_others() -> None:
    dispatcher, among = Dispatcher(), clients(1, 0)
    for client in among:
        dispatcher.add(client)
    among[0].is_paused = True
    assert served(dispatcher, among, 1) == [1]
    dispatcher.remove(among[0])
    assert served(dispatcher, among, 1) == [1]


def test_only_the_single_active_consumer_is_served() -> None:
    dispatcher, among = Dispatcher(is_single_active=True), clients(0, 9, 9)
    for client in among:
        dispatcher.add(client)
    assert dispatcher.active is among[0], "whoever came first stays active"
    assert served(dispatcher, among, 2) == [0, 0]
    among[0].is_paused = True
    assert dispatcher.next() is None
    assert not dispatcher.credit_returned(among[1])
    among[0].is_paused = False
    assert dispatcher.credit_returned(among[0])
    assert served(dispatcher, among, 1) == [0]


def test_the_next_active_consumer_is_the_first_of_the_highest_priority() -> None:
    dispatcher, among = Dispatcher(is_single_active=True), clients(0, 3, 7, 7)
    for client in among:
        dispatcher.add(client)
    dispatcher.remove(among[0])
    assert dispatcher.active is among[2]
    assert served(dispatcher, among, 2) == [2, 2]
    dispatcher.remove(among[1])
    assert served(dispatcher, among, 1) == [2], "one that was not active changes nothing"
    dispatcher.remove(among[2])
    assert served(dispatcher, among, 1) == [3]
    dispatcher.remove(among[3])
    assert dispatcher.active is None
    assert dispatcher.next() is None



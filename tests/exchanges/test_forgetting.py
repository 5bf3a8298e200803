"""What goes with very many bindings is gone at once, and forgotten in slices."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import exchanges.exchange
import exchanges.router
from exchanges.bindings import Destination
from exchanges.consistent_hash import ConsistentHashExchange
from exchanges.exchange import MOST_AT_ONCE
from exchanges.registry import create_exchange
from exchanges.router import Router
from tests.exchanges.facts import Facts

MANY = 1000
TYPES = ("direct", "topic", "headers", "fanout", "x-modulus-hash", "x-consistent-hash", "x-delayed-message")


def queue(name: str) -> Destination:
    return Destination("queue", name)


class Slices:
    """Jobs that are done when the test says so."""

    def __init__(self) -> None:
        self.jobs: list[Callable[[int], bool]] = []

    def run(self) -> int:
        """All of them. Returns how many slices it took."""
        count = 0
        while self.jobs:
            count += 1
            job = self.jobs.pop()
            if job(0):
                self.jobs.append(job)
        return count


def router_with(type_name: str, slices: Slices) -> Router:
    router = Router(lambda name: True, later=slices.jobs.append)
    arguments = {"x-delayed-type": "topic"} if type_name == "x-delayed-message" else {}
    router.add("x", create_exchange(type_name, arguments))
    return router


def key_of(type_name: str, number: int) -> tuple[str, Mapping[str, object]]:
    """A binding key and arguments of its own for each number."""
    if type_name == "headers":
        return "", {"n": number}
    if type_name == "x-consistent-hash":
        return str(number % 3 + 1), {"n": number}
    return f"a.{number}", {}


def reached(router: Router, type_name: str, number: int) -> list[str]:
    key, arguments = key_of(type_name, number)
    return router.route("x", (key,), Facts(dict(arguments)), follow_delayed=True).queues


@pytest.mark.parametrize("type_name", TYPES)
def test_a_queue_that_has_gone_is_reached_by_nothing_while_it_is_being_forgotten(type_name: str) -> None:
    slices = Slices()
    router = router_with(type_name, slices)
    for number in range(MANY):
        router.bind("x", queue("gone"), *key_of(type_name, number))
    assert reached(router, type_name, 1) == ["gone"]
    assert router.remove_queue("gone") == ["x"]
    entry = router.get("x")
    assert entry is not None
    assert reached(router, type_name, 1) == []
    assert (router.binding_count, router.bindings(), router.bindings_to(queue("gone"))) == (0, [], [])
    assert entry.exchange.is_unused
    # It comes back with one of the bindings that it had: the others are not there.
    router.bind("x", queue("gone"), *key_of(type_name, 7))
    assert [(each.destination, each.binding_key) for _, each in router.bindings_to(queue("gone"))] == [
        (queue("gone"), key_of(type_name, 7)[0])
    ]
    assert reached(router, type_name, 7) == ["gone"]
    if type_name in ("direct", "topic", "headers", "x-delayed-message"):
        assert reached(router, type_name, 8) == []
        assert slices.run() >= MANY // MOST_AT_ONCE - 1
        assert reached(router, type_name, 8) == []
    assert not entry.exchange.is_forgetting
    assert reached(router, type_name, 7) == ["gone"]
    assert router.unbind("x", queue("gone"), *key_of(type_name, 7))
    assert reached(router, type_name, 7) == []
    assert router.remove_queue("gone") == []


def test_a_slice_is_small_and_nothing_is_left_behind() -> None:
    slices = Slices()
    router = router_with("topic", slices)
    topic: Any = router.get("x")
    for number in range(MANY):
        router.bind("x", queue("gone"), f"{number}", {})
    assert topic.exchange.node_count == MANY + 1
    router.remove_queue("gone")
    sizes = [topic.exchange.node_count]
    while slices.jobs:
        job = slices.jobs.pop()
        if job(0):
            slices.jobs.append(job)
        sizes.append(topic.exchange.node_count)
    assert all(0 <= before - after <= MOST_AT_ONCE for before, after in pairwise(sizes))
    assert (sizes[0], sizes[-1]) == (MANY + 1 - MOST_AT_ONCE, 1)


def test_an_exchange_that_goes_is_forgotten_by_its_destinations_in_slices() -> None:
    slices = Slices()
    router = router_with("direct", slices)
    for number in range(MANY):
        router.bind("x", queue(f"q{number}"), "k", {})
    router.remove("x")
    assert (router.binding_count, router.bindings()) == (0, [])
    assert router.bindings_to(queue("q5")) == []
    # Another one of its name has nothing of it, and keeps what it gets.
    router.add("x", create_exchange("direct", {}))
    router.bind("x", queue("q5"), "k", {})
    assert slices.run() >= MANY // MOST_AT_ONCE - 1
    assert router.remove_queue("q6") == []
    assert router.remove_queue("q5") == ["x"]
    assert router.binding_count == 0


def test_the_places_of_a_queue_with_two_weights_go_with_it() -> None:
    exchange = ConsistentHashExchange({})
    exchange.bind(queue("a"), "1", {})
    exchange.bind(queue("a"), "2", {})
    exchange.bind(queue("b"), "1", {})
    assert exchange.remove_destination(queue("a")) == 2
    assert {each for number in range(50) for each in exchange.reached(str(number), None)} == {queue("b")}


KEYS = st.sampled_from(["a", "b", "a.b", "*", "#", "a.*"])
NAMES = st.sampled_from("qr")
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("bind"), NAMES, KEYS),
        st.tuples(st.just("unbind"), NAMES, KEYS),
        st.tuples(st.just("remove queue"), NAMES),
        st.tuples(st.just("remove exchange")),
        st.tuples(st.just("slice")),
    ),
    min_size=8,
    max_size=50,
)


@pytest.mark.parametrize("type_name", ["direct", "topic"])
@given(steps=STEPS)
def test_what_is_being_forgotten_makes_no_difference(type_name: str, steps: list[tuple[str, ...]]) -> None:
    """The same steps with slices of one binding, done when they come, and with everything forgotten at once."""
    slices = Slices()
    slow, quick = router_with(type_name, slices), Router(lambda name: True)
    quick.add("x", create_exchange(type_name, {}))
    with pytest.MonkeyPatch.context() as patch:
        for step in steps:
            for router, most in ((slow, 0), (quick, 1000)):
                patch.setattr(exchanges.exchange, "MOST_AT_ONCE", most)
                patch.setattr(exchanges.router, "MOST_AT_ONCE", max(most, 1))
                match step:
                    case "bind", name, key:
                        router.bind("x", queue(name), key, {})
                    case "unbind", name, key:
                        router.unbind("x", queue(name), key, {})
                    case "remove queue", name:
                        router.remove_queue(name)
                    case ("remove exchange",):
                        router.remove("x")
                        router.add("x", create_exchange(type_name, {}))
                    case _ if router is slow and slices.jobs and not slices.jobs[-1](0):
                        slices.jobs.pop()
            assert slow.binding_count == quick.binding_count
            assert slow.bindings() == quick.bindings()
            for key in ("a", "b", "a.b", "c"):
                assert sorted(slow.route("x", (key,), None).queues) == sorted(quick.route("x", (key,), None).queues)
        patch.setattr(exchanges.router, "MOST_AT_ONCE", 1)
        slices.run()
    for name in "qr":
        assert slow.bindings_to(queue(name)) == quick.bindings_to(queue(name))
        assert slow.remove_queue(name) == quick.remove_queue(name)

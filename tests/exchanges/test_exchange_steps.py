"""What routing and binding cost, in steps and not in time: flat, however many bindings there are.

Trie nodes and header rules are counted by the exchanges themselves. For the rest, names count how often they
are hashed or compared: that is what the tables of an exchange do with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product

import pytest

from exchanges.bindings import Destination
from exchanges.headers import HeadersExchange
from exchanges.registry import create_exchange
from exchanges.router import Router
from exchanges.topic import TopicExchange
from tests.exchanges.facts import Facts

pytestmark = pytest.mark.once


def queue(name: object) -> Destination:
    return Destination("queue", str(name))


def test_patterns_full_of_hashes_cost_at_most_nodes_times_words() -> None:
    topic = TopicExchange({})
    topic.bind(queue(1), ".".join(["#.a"] * 12), {})
    topic.bind(queue(2), ".".join(["#"] * 12), {})
    words = ["a"] * 60 + ["b"]
    assert topic.matches(".".join(words), None) == [queue(2)]
    assert topic.visited <= topic.node_count * (len(words) + 1)
    assert sorted(topic.matches(".".join(["a"] * 61), None)) == [queue(1), queue(2)]
    assert topic.visited <= 2 * topic.node_count * (len(words) + 1)


@pytest.mark.parametrize("form", ["region.{}.created", "*.{}.*", "region.{}.#", "#.{}.created"])
def test_topic_visits_as_many_nodes_with_many_bindings_as_with_few(form: str) -> None:
    def visited(count: int) -> int:
        topic = TopicExchange({})
        for number in range(count):
            topic.bind(queue(number), form.format(number), {})
        assert topic.matches("region.7.created", None) == [queue(7)]
        return topic.visited

    assert visited(10_000) == visited(10) <= 12


@pytest.mark.parametrize("mode", ["all", "any"])
def test_headers_examines_only_rules_that_share_a_header(mode: str) -> None:
    def examined(count: int) -> int:
        exchange = HeadersExchange({})
        for number in range(count):
            exchange.bind(queue(number), "", {"x-match": mode, "id": number, "name": f"n{number}"})
        headers = {"id": 7, "name": "n7", "kind": "order"}
        assert exchange.matches("", Facts(headers)) == [queue(7)]
        assert exchange.matches("", Facts({**headers, **{f"h{n}": n for n in range(50)}})) == [queue(7)]
        return exchange.examined

    assert examined(5_000) == examined(100) <= 4


def test_headers_indexes_the_field_that_tells_bindings_apart() -> None:
    exchange = HeadersExchange({})
    for number in range(100):
        exchange.bind(queue(number), "", {"a": None, "kind": "order", "region": number, "version": 1})
    headers: dict[str, object] = {"a": 0, "kind": "order", "region": 50, "version": 1}
    assert exchange.matches("", Facts(headers)) == [queue(50)]
    assert exchange.examined <= 4  # the first binding has another place, as all fields were as rare


def test_headers_examines_few_rules_where_each_single_field_is_common() -> None:
    """No field tells bindings apart, two together do."""

    def examined(count: int) -> int:
        side = round(count**0.5)
        exchange = HeadersExchange({})
        for number in range(count):
            fields = {"from": number % side, "to": number // side, "x-kind": None}
            exchange.bind(queue(number), "", {"x-match": "all-with-x", **fields})
        number = count // 2 + 3
        headers = {"from": number % side, "to": number // side, "x-kind": "order", "id": 1}
        assert exchange.matches("", Facts(headers)) == [queue(number)]
        return exchange.examined

    # Two places at most for each way to go by some of the three fields, and those that wait there.
    assert max(examined(count) for count in (10, 1_000, 100_000)) <= 40


def test_headers_meets_each_condition_once_however_many_queues_have_it() -> None:
    exchange = HeadersExchange({})
    for number in range(1_000):
        exchange.bind(queue(number), "", {"kind": "order", "region": "eu"})
        exchange.bind(queue(number), "", {"x-match": "any", "kind": "order", "region": "eu"})
    assert len(exchange.matches("", Facts({"kind": "order", "region": "eu"}))) == 1_000
    assert exchange.examined <= 4
    assert exchange.matches("", Facts({"kind": "order", "region": "us"})) == [queue(n) for n in range(1_000)]
    assert exchange.matches("", Facts({"kind": "bill", "region": "us"})) == []


def test_to_bind_and_unbind_touches_few_places_however_many_bindings_there_are() -> None:
    """Places of the tree are made when more than a few rules wait at one: each is then moved once."""
    exchange = HeadersExchange({})
    for number in range(10_000):
        exchange.bind(queue(number), "", {"from": number % 100, "to": number // 100})
    whole = exchange.index_size
    assert whole <= 2 * 10_000
    for number in range(10_000):
        exchange.unbind(queue(number), "", {"from": number % 100, "to": number // 100})
    assert exchange.index_size == 0


def test_headers_costs_no_more_than_one_look_at_each_binding_where_they_have_nearly_all_in_common() -> None:
    """What tells them apart is the mere presence of a header."""
    exchange = HeadersExchange({})
    common = {f"common {number}": number for number in range(20)}
    for number in range(180):
        exchange.bind(queue(number), "", {**common, f"own {number}": None})
    assert exchange.matches("", Facts({**common, "own 7": "there"})) == [queue(7)]
    assert exchange.examined <= 2 * len(common)


def test_headers_takes_one_way_where_all_bindings_ask_for_the_same_names() -> None:
    """However few values they have: of every combination of twelve booleans, one is met."""
    exchange = HeadersExchange({})
    names = [f"is {number}" for number in range(12)]
    for number, values in enumerate(product([False, True], repeat=len(names))):
        exchange.bind(queue(number), "", dict(zip(names, values, strict=True)))
    assert exchange.matches("", Facts(dict.fromkeys(names, False))) == [queue(0)]
    assert exchange.examined <= 2 * len(names)


def test_a_way_through_the_headers_has_an_end_however_many_fields_are_common() -> None:
    exchange = HeadersExchange({})
    common: dict[str, object] = {f"common {number}": number for number in range(300)}
    for number in range(50):
        exchange.bind(queue(number), "", {**common, "own": number})
    assert exchange.index_size <= 40
    assert exchange.matches("", Facts({**common, "own": 7})) == [queue(7)]
    assert exchange.examined <= 40 + 50
    for number in range(50):
        exchange.unbind(queue(number), "", {**common, "own": number})
    assert exchange.index_size == 0


class CountedHeaders(dict[str, object]):
    """A headers table that counts how many of its keys are gone through or looked up."""

    steps = 0

    def __iter__(self) -> Iterator[str]:
        for key in super().__iter__():
            self.steps += 1
            yield key

    def __contains__(self, key: object) -> bool:
        self.steps += 1
        return super().__contains__(key)

    def __getitem__(self, key: str) -> object:
        self.steps += 1
        return super().__getitem__(key)


@pytest.mark.parametrize(("bindings", "headers"), [(1, 1000), (1000, 1), (1000, 0)])
def test_headers_looks_up_the_fewer_of_what_is_bound_and_what_is_sent(bindings: int, headers: int) -> None:
    exchange = HeadersExchange({})
    for number in range(bindings):
        exchange.bind(queue(number), "", {f"bound {number}": 1})
    table = CountedHeaders({f"sent {number}": number for number in range(headers)})
    assert exchange.matches("", Facts(table)) == []
    assert exchange.examined == 0
    assert table.steps <= 2


def test_headers_asks_for_no_headers_once_the_last_condition_is_unbound() -> None:
    exchange = HeadersExchange({})
    for mode in ("all", "any"):
        exchange.bind(queue(1), "", {"x-match": mode, "a": 1, "b": None})
        exchange.unbind(queue(1), "", {"x-match": mode, "a": 1, "b": None})
    table = CountedHeaders({"a": 1, "b": 2})
    assert exchange.matches("", Facts(table)) == []
    assert table.steps == 0


def test_headers_forgets_the_values_of_what_is_unbound() -> None:
    exchange = HeadersExchange({})
    exchange.bind(queue("kept"), "", {"a": "kept"})
    sizes = []
    for count in (10, 1000):
        for number in range(count):
            exchange.bind(queue(number), "", {"a": number})
            exchange.unbind(queue(number), "", {"a": number})
        sizes.append(exchange.index_size)
    assert sizes == [1, 1]


def test_a_walk_visits_each_exchange_once_however_many_ways_lead_there() -> None:
    router = Router(lambda name: True)
    layers = 20
    topics = [TopicExchange({}) for _ in range(layers)]
    for number, topic in enumerate(topics):
        router.add(f"x{number}", topic)
    for number in range(1, layers):
        for key in ("#", "*", "k"):
            router.bind(f"x{number - 1}", Destination("exchange", f"x{number}"), key, {})
            router.bind(f"x{number}", Destination("exchange", "x0"), key, {})
    router.bind(f"x{layers - 1}", queue("q"), "#", {})
    assert router.route("x1", ("k",), None).queues == ["q"]
    # The first exchange is matched once more to see that it leads to exchanges.
    assert [topic.visited for topic in topics[2:]] == [topics[2].visited] * (layers - 2)
    assert topics[1].visited == 2 * topics[2].visited


class CountedName(str):
    """A name that counts how often a table hashes it or compares it."""

    __slots__ = ()
    steps = 0

    def __hash__(self) -> int:
        CountedName.steps += 1
        return super().__hash__()

    def __eq__(self, other: object) -> bool:
        CountedName.steps += 1
        return super().__eq__(other)


def steps_of(action: Callable[[], object]) -> int:
    CountedName.steps = 0
    assert action()
    return CountedName.steps


@pytest.mark.parametrize("type_name", ["direct", "fanout", "topic", "headers"])
def test_binding_unbinding_and_removing_a_queue_are_flat(type_name: str) -> None:
    def steps(count: int) -> list[int]:
        router = Router(lambda name: True)
        router.add("x", create_exchange(type_name, {}))
        for number in range(count):
            router.bind("x", queue(number), f"a.{number}.*", {"n": number})
        counted = Destination("queue", CountedName("counted"))
        bound = steps_of(lambda: router.bind("x", counted, "a.1.*", {"n": 1}))
        unbound = steps_of(lambda: router.unbind("x", counted, "a.1.*", {"n": 1}))
        router.bind("x", counted, "a.1.*", {"n": 1})
        router.bind("x", counted, "a.2.*", {"n": 2})
        removed = steps_of(lambda: router.remove_queue(CountedName("counted")))
        return [bound, unbound, removed]

    few = steps(10)
    assert steps(20_000) == few
    assert all(0 < count < 30 for count in few)


def test_removing_a_queue_asks_only_the_exchanges_that_it_is_bound_to() -> None:
    def steps(count: int) -> int:
        router = Router(lambda name: True)
        for number in range(count):
            router.add(f"x{number}", create_exchange("direct", {}))
            router.bind(f"x{number}", queue("other"), "k", {})
        router.bind("x0", Destination("queue", CountedName("counted")), "k", {})
        return steps_of(lambda: router.remove_queue(CountedName("counted")))

    assert steps(1_000) == steps(1)

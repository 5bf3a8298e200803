"""The router's walk: the cases that a graph of exchanges brings, and random graphs against a simple model."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exchanges.bindings import Binding, Destination
from exchanges.registry import PREDECLARED, create_exchange
from exchanges.router import Route, Router, UnknownExchange
from tests.exchanges.facts import Facts


def queue(name: str) -> Destination:
    return Destination("queue", name)


def exchange(name: str) -> Destination:
    return Destination("exchange", name)


def router_of(
    types: Mapping[str, str],
    bindings: tuple[tuple[str, Destination, str], ...] = (),
    alternates: Mapping[str, str] | None = None,
    queues: tuple[str, ...] = (),
) -> Router:
    """A router with exchanges of the given types, bound without arguments."""
    router = Router(lambda name: name in queues)
    for name, type_name in types.items():
        arguments = {"x-delayed-type": "fanout"} if type_name == "x-delayed-message" else {}
        router.add(name, create_exchange(type_name, arguments), alternate=(alternates or {}).get(name))
    for source, destination, binding_key in bindings:
        router.bind(source, destination, binding_key, {})
    return router


def seen(route: Route) -> tuple[list[str], bool, list[str]]:
    return route.queues, route.is_cacheable, route.delayed


# The default exchange


def test_the_default_exchange_routes_to_the_queue_of_that_name() -> None:
    router = router_of({}, queues=("q", "r"))
    assert seen(router.route("", ("q",), None)) == (["q"], True, [])
    assert seen(router.route("", ("r", "q", "r"), None)) == (["r", "q"], True, [])


def test_a_default_route_that_lacks_a_queue_is_not_cacheable() -> None:
    router = router_of({"x": "fanout"}, alternates={"x": ""}, queues=("q",))
    assert seen(router.route("", ("missing",), None)) == ([], False, [])
    assert seen(router.route("", ("q", "missing"), None)) == (["q"], False, [])
    assert seen(router.route("x", ("missing",), None)) == ([], False, [])
    assert seen(router.route("x", ("q",), None)) == (["q"], True, [])


def test_the_default_exchange_takes_no_binding_and_stays() -> None:
    router = router_of({"x": "fanout"})
    with pytest.raises(ValueError, match="the default exchange cannot be bound"):
        router.bind("", queue("q"), "q", {})
    with pytest.raises(ValueError, match="the default exchange cannot be removed"):
        router.remove("")
    assert router.bindings() == []


# Exchanges


def test_the_predeclared_exchanges_are_there() -> None:
    router = router_of({})
    assert [entry.name for entry in router.entries()] == [name for name, _, _ in PREDECLARED]
    for name, type_name, internal in PREDECLARED:
        entry = router.get(name)
        assert entry is not None
        assert (entry.exchange.type_name, entry.durable, entry.auto_delete) == (type_name, True, False)
        assert (entry.internal, entry.alternate) == (internal, None)


def test_an_entry_keeps_what_was_declared() -> None:
    router = router_of({})
    added = router.add(
        "x",
        create_exchange("direct", {"k": 1}),
        alternate="ae",
        durable=True,
        auto_delete=True,
        internal=True,
    )
    entry = router.get("x")
    assert entry is added
    assert (entry.name, entry.durable, entry.auto_delete, entry.internal) == ("x", True, True, True)
    assert (entry.alternate, entry.exchange.arguments) == ("ae", {"k": 1})
    assert router.get("missing") is None
    with pytest.raises(ValueError, match="exchange 'x' is there already"):
        router.add("x", create_exchange("direct", {}))


def test_what_is_missing_is_named() -> None:
    router = router_of({"x": "fanout"})
    for action in (
        lambda: router.route("gone", ("k",), None),
        lambda: router.bind("gone", queue("q"), "", {}),
        lambda: router.bind("x", exchange("gone"), "", {}),
        lambda: router.unbind("gone", queue("q"), "", {}),
        lambda: router.set_alternate("gone", None),
        lambda: router.remove("gone"),
    ):
        with pytest.raises(UnknownExchange, match="no exchange 'gone'") as failure:
            action()
        assert failure.value.name == "gone"
    assert router.bindings() == []


# Bindings between exchanges


def test_a_chain_of_exchanges_leads_to_its_queues() -> None:
    router = router_of(
        {"a": "fanout", "b": "topic", "c": "direct"},
        (
            ("a", queue("first"), ""),
            ("a", exchange("b"), ""),
            ("b", exchange("c"), "x.*"),
            ("b", queue("second"), "#"),
            ("c", queue("third"), "x.y"),
            ("c", queue("never"), "x.z"),
        ),
    )
    assert seen(router.route("a", ("x.y",), None)) == (["first", "second", "third"], True, [])
    assert seen(router.route("a", ("z",), None)) == (["first", "second"], True, [])


def test_a_queue_reached_by_several_ways_is_named_once() -> None:
    router = router_of(
        {"a": "fanout", "b": "fanout", "c": "fanout", "d": "fanout"},
        (
            ("a", exchange("b"), ""),
            ("a", exchange("c"), ""),
            ("a", queue("q"), ""),
            ("b", exchange("d"), ""),
            ("c", exchange("d"), ""),
            ("c", queue("q"), ""),
            ("d", queue("q"), ""),
            ("d", queue("r"), ""),
        ),
    )
    assert router.route("a", ("",), None).queues == ["q", "r"]


def test_cycles_end() -> None:
    router = router_of(
        {"a": "fanout", "b": "fanout"},
        (
            ("a", exchange("a"), ""),
            ("a", exchange("b"), ""),
            ("b", exchange("a"), ""),
            ("a", queue("qa"), ""),
            ("b", queue("qb"), ""),
        ),
    )
    assert sorted(router.route("a", ("",), None).queues) == ["qa", "qb"]
    assert sorted(router.route("b", ("",), None).queues) == ["qa", "qb"]


def test_a_route_is_cacheable_until_an_exchange_routes_by_headers() -> None:
    router = router_of(
        {"a": "topic", "h": "headers"},
        (("a", exchange("h"), "x"), ("a", queue("q"), "#"), ("h", queue("r"), "")),
    )
    assert seen(router.route("a", ("y",), None)) == (["q"], True, [])
    assert seen(router.route("a", ("x",), None)) == (["q", "r"], False, [])
    assert seen(router.route("h", ("x",), None)) == (["r"], False, [])


# Several routing keys (CC and BCC)


def test_every_routing_key_is_matched() -> None:
    router = router_of(
        {"d": "direct", "t": "topic"},
        (("d", queue("1"), "a"), ("d", queue("2"), "b"), ("t", queue("1"), "a.*"), ("t", queue("2"), "*.b")),
    )
    assert router.route("d", ("b", "a", "c", "b"), None).queues == ["2", "1"]
    assert router.route("t", ("a.x", "x.b"), None).queues == ["1", "2"]


@pytest.mark.parametrize("type_name", ["x-consistent-hash", "x-modulus-hash"])
def test_a_hash_exchange_picks_one_queue_however_many_keys(type_name: str) -> None:
    router = router_of({"x": type_name}, tuple(("x", queue(name), "5") for name in "abcdefgh"))
    keys = tuple(f"k{number}" for number in range(50))
    assert router.route("x", keys, None).queues == router.route("x", keys[:1], None).queues
    assert len(router.route("x", keys, None).queues) == 1


# Alternate exchanges


def test_the_alternate_is_tried_where_nothing_matches() -> None:
    router = router_of(
        {"d": "direct", "ae": "fanout"},
        (("d", queue("q"), "k"), ("ae", queue("lost"), "")),
        alternates={"d": "ae"},
    )
    assert seen(router.route("d", ("k",), None)) == (["q"], True, [])
    assert seen(router.route("d", ("other",), None)) == (["lost"], True, [])
    assert router.route("d", ("other", "k"), None).queues == ["q"]


def test_the_alternate_is_not_tried_where_an_exchange_matched_that_leads_nowhere() -> None:
    router = router_of(
        {"a": "fanout", "empty": "fanout", "ae": "fanout"},
        (("a", exchange("empty"), ""), ("ae", queue("lost"), "")),
        alternates={"a": "ae"},
    )
    assert router.route("a", ("",), None).queues == []
    router.set_alternate("empty", "ae")
    assert router.route("a", ("",), None).queues == ["lost"]


def test_alternates_of_alternates_and_their_cycles() -> None:
    router = router_of(
        {"a": "direct", "b": "direct", "c": "direct"},
        (("c", queue("q"), "k"),),
        alternates={"a": "b", "b": "c", "c": "a"},
    )
    assert router.route("a", ("k",), None).queues == ["q"]
    assert router.route("a", ("other",), None).queues == []
    assert router.route("b", ("other",), None).queues == []


def test_a_missing_alternate_is_passed_over_until_it_comes() -> None:
    router = router_of({"a": "direct"}, alternates={"a": "later"})
    assert router.route("a", ("k",), None).queues == []
    router.add("later", create_exchange("fanout", {}))
    router.bind("later", queue("q"), "", {})
    assert router.route("a", ("k",), None).queues == ["q"]


def test_the_alternate_changes_at_run_time() -> None:
    router = router_of({"a": "direct", "ae": "fanout"}, (("ae", queue("q"), ""),), queues=("k",))
    router.set_alternate("a", "ae")
    assert router.route("a", ("k",), None).queues == ["q"]
    router.set_alternate("a", "")
    assert router.route("a", ("k",), None).queues == ["k"]
    router.set_alternate("a", None)
    assert router.route("a", ("k",), None).queues == []


# Delayed messages


def test_a_message_with_a_delay_waits_before_the_exchange() -> None:
    router = router_of({"d": "x-delayed-message"}, (("d", queue("q"), ""),))
    waiting = Facts({"x-delay": 100})
    assert seen(router.route("d", ("k",), waiting)) == ([], False, ["d"])
    assert seen(router.route("d", ("k",), waiting, True)) == (["q"], False, [])
    assert seen(router.route("d", ("k",), waiting, follow_delayed=True)) == (["q"], False, [])
    for facts in (Facts({"x-delay": 0}), Facts({"x-delay": -100}), Facts({}), None):
        assert seen(router.route("d", ("k",), facts)) == (["q"], False, [])


def test_what_lies_beside_a_delayed_exchange_is_routed_at_once() -> None:
    router = router_of(
        {"f": "fanout", "d1": "x-delayed-message", "d2": "x-delayed-message"},
        (
            ("f", exchange("d1"), ""),
            ("f", queue("now"), ""),
            ("f", exchange("d2"), ""),
            ("d1", queue("later"), ""),
            ("d1", exchange("d2"), ""),
            ("d2", queue("latest"), ""),
        ),
    )
    assert seen(router.route("f", ("k",), Facts({"x-delay": "100"}))) == (["now"], False, ["d1", "d2"])
    assert seen(router.route("d1", ("k",), Facts({"x-delay": 9}), True)) == (["later", "latest"], False, [])


def test_the_alternate_is_tried_when_a_delayed_message_is_due_not_before() -> None:
    router = router_of(
        {"d": "x-delayed-message", "ae": "fanout"}, (("ae", queue("lost"), ""),), alternates={"d": "ae"}
    )
    assert seen(router.route("d", ("k",), Facts({"x-delay": 1}))) == ([], False, ["d"])
    assert seen(router.route("d", ("k",), Facts({"x-delay": 1}), True)) == (["lost"], False, [])


# Removal and auto-delete


def described(bindings: list[tuple[str, Binding]]) -> list[tuple[str, str, str]]:
    return [(source, binding.destination.name, binding.binding_key) for source, binding in bindings]


def test_a_queue_goes_with_its_bindings_everywhere() -> None:
    router = router_of(
        {"a": "direct", "b": "topic"},
        (
            ("a", queue("q"), "1"),
            ("b", queue("q"), "#"),
            ("a", queue("other"), "1"),
            ("a", queue("q"), "2"),
            ("b", exchange("a"), "#"),
        ),
    )
    assert described(router.bindings_to(queue("q"))) == [("a", "q", "1"), ("a", "q", "2"), ("b", "q", "#")]
    assert router.remove_queue("q") == ["a", "b"]
    assert router.bindings_to(queue("q")) == router.remove_queue("q") == []
    assert router.route("b", ("1",), None).queues == ["other"]
    assert described(router.bindings()) == [("a", "other", "1"), ("b", "a", "#")]


def test_a_source_is_listed_until_its_last_binding_to_the_queue_goes() -> None:
    router = router_of({"a": "direct"}, (("a", queue("q"), "1"), ("a", queue("q"), "2")))
    router.unbind("a", queue("q"), "1", {})
    assert described(router.bindings_to(queue("q"))) == [("a", "q", "2")]
    router.unbind("a", queue("q"), "2", {})
    assert router.bindings_to(queue("q")) == []
    router.remove("a")
    assert router.bindings_to(queue("q")) == router.remove_queue("q") == []


def test_a_queue_and_an_exchange_of_one_name_are_two_things() -> None:
    router = router_of(
        {"a": "fanout", "same": "fanout"}, (("a", queue("same"), ""), ("a", exchange("same"), ""))
    )
    router.remove_queue("same")
    assert described(router.bindings_to(exchange("same"))) == [("a", "same", "")]
    router.bind("a", queue("same"), "", {})
    router.remove("same")
    assert router.route("a", ("",), None).queues == ["same"]


def test_an_exchange_goes_with_the_bindings_from_it_and_to_it() -> None:
    router = router_of(
        {"a": "fanout", "b": "fanout", "c": "fanout"},
        (
            ("a", exchange("b"), "1"),
            ("b", exchange("b"), "self"),
            ("b", exchange("c"), "2"),
            ("b", queue("q"), "3"),
            ("c", queue("q"), "4"),
        ),
    )
    assert router.remove("b") == ["a"]
    assert router.binding_count == 1
    assert router.get("b") is None
    assert described(router.bindings()) == [("c", "q", "4")]
    assert router.bindings_to(exchange("b")) == router.bindings_to(exchange("c")) == []
    assert described(router.bindings_to(queue("q"))) == [("c", "q", "4")]
    assert router.route("a", ("",), None).queues == []
    router.add("b", create_exchange("fanout", {}))
    assert router.route("b", ("",), None).queues == []


def test_an_auto_delete_exchange_is_abandoned_with_its_last_binding_only_after_a_first() -> None:
    router = router_of({"keep": "fanout"})
    router.add("auto", create_exchange("fanout", {}), auto_delete=True)
    assert not router.is_abandoned("auto")
    assert not router.unbind("auto", queue("q"), "", {})
    assert not router.is_abandoned("auto")
    for name in ("auto", "keep"):
        router.bind(name, queue("q"), "", {})
        router.bind(name, queue("r"), "", {})
    router.unbind("auto", queue("q"), "", {})
    assert not router.is_abandoned("auto")
    assert router.remove_queue("r") == ["auto", "keep"]
    assert router.is_abandoned("auto")
    assert not router.is_abandoned("keep")
    router.remove("auto")
    assert not router.is_abandoned("auto")


def test_a_removed_exchange_may_leave_its_sources_abandoned() -> None:
    router = router_of({"x": "fanout"})
    for name in ("s1", "s2", "busy"):
        router.add(name, create_exchange("fanout", {}), auto_delete=True)
        router.bind(name, exchange("x"), "1", {})
        router.bind(name, exchange("x"), "2", {})
    router.bind("busy", queue("q"), "", {})
    assert router.remove("x") == ["s1", "s2", "busy"]
    assert [name for name in ("s1", "s2", "busy") if router.is_abandoned(name)] == ["s1", "s2"]


# What a change touches


def touched_by(router: Router, touched: list[tuple[list[str], str | None]], change: Callable[[], object]) -> object:
    """What is told of a change: the exchanges, sorted, each with the key."""
    touched.clear()
    change()
    return sorted((name, key or "*") for names, key in touched for name in names)


def test_a_change_touches_the_routes_that_it_can_change_and_no_others() -> None:
    """Of a chain top -> mid -> low, of which `side` has `mid` for its alternate."""
    told: list[tuple[list[str], str | None]] = []
    router = Router(lambda name: True, lambda names, key: told.append((names, key)))
    for name, kind in (("top", "topic"), ("mid", "topic"), ("low", "direct"), ("other", "fanout"), ("side", "direct")):
        router.add(name, create_exchange(kind, {}), alternate="mid" if name == "side" else None)
    router.bind("top", exchange("mid"), "#", {})
    router.bind("mid", exchange("low"), "#", {})

    def told_of(change: Callable[[], object]) -> object:
        return touched_by(router, told, change)

    all_of_k = [("low", "k"), ("mid", "k"), ("side", "k"), ("top", "k")]
    assert told_of(lambda: router.bind("low", queue("q"), "k", {})) == all_of_k
    assert told_of(lambda: router.bind("low", queue("q"), "k", {})) == []
    assert told_of(lambda: router.unbind("low", queue("q"), "k", {})) == all_of_k
    assert told_of(lambda: router.unbind("low", queue("q"), "k", {})) == []
    assert told_of(lambda: router.bind("mid", queue("q"), "a.*", {})) == [("mid", "*"), ("side", "*"), ("top", "*")]
    assert told_of(lambda: router.bind("top", queue("q"), "a.b", {})) == [("top", "a.b")]
    assert told_of(lambda: router.bind("other", queue("r"), "", {})) == [("other", "*")]
    assert told_of(lambda: router.remove_queue("r")) == [("", "r"), ("other", "*")]
    assert told_of(lambda: router.touch_queue("new")) == [("", "new")]
    assert told_of(lambda: router.bind("other", exchange("top"), "", {})) == [("other", "*")]
    assert told_of(lambda: router.set_alternate("side", "low")) == [("side", "*")]
    assert told_of(lambda: router.bind("mid", queue("s"), "k", {})) == [("mid", "k"), ("other", "k"), ("top", "k")]
    assert told_of(lambda: router.set_alternate("side", "")) == [("side", "*")]
    assert told_of(lambda: router.touch_queue("new")) == [("", "new"), ("side", "new")]
    assert told_of(lambda: router.remove("top")) == [("other", "*"), ("top", "*")]
    assert told_of(lambda: router.bind("mid", queue("t"), "k", {})) == [("mid", "k")]


def test_very_many_bindings_of_a_queue_touch_their_exchange_once() -> None:
    told: list[tuple[list[str], str | None]] = []
    router = Router(lambda name: True, lambda names, key: told.append((names, key)))
    for name, kind in (("a", "direct"), ("t", "topic")):
        router.add(name, create_exchange(kind, {}))
    for number in range(1000):
        router.bind("a", queue("q"), f"k{number}", {})
        router.bind("t", queue("q"), f"a.*.{number}", {})
    assert touched_by(router, told, lambda: router.touch_queue("q")) == [("", "q"), ("a", "*"), ("t", "*")]
    assert touched_by(router, told, lambda: router.remove_queue("q")) == [("", "q"), ("a", "*"), ("t", "*")]
    assert router.bindings_to(queue("q")) == []


def test_a_queue_behind_very_many_exchanges_touches_all_of_them_together() -> None:
    told: list[tuple[list[str], str | None]] = []
    router = Router(lambda name: True, lambda names, key: told.append((names, key)))
    router.add("top", create_exchange("fanout", {}))
    names = [f"x{number}" for number in range(300)]
    for name in names:
        router.add(name, create_exchange("direct", {}))
        router.bind(name, queue("q"), "k", {})
    router.bind("top", exchange("x7"), "", {})
    touched = sorted([("", "q"), ("top", "*"), *((name, "*") for name in names)])
    assert touched_by(router, told, lambda: router.touch_queue("q")) == touched
    assert len(told) == 2
    assert touched_by(router, told, lambda: router.remove_queue("q")) == touched
    assert len(told) == 2


def test_whether_routes_depend_on_more_than_the_key() -> None:
    router = router_of({"a": "direct", "b": "fanout", "h": "headers"})
    assert not router.depends_on_message("a")
    assert router.depends_on_message("h")
    router.bind("a", exchange("b"), "k", {})
    router.bind("b", exchange("h"), "", {})
    assert router.depends_on_message("a")
    router.unbind("b", exchange("h"), "", {})
    assert not router.depends_on_message("a")
    router.set_alternate("b", "h")
    assert router.depends_on_message("a")
    router.remove("h")
    assert not router.depends_on_message("a")
    router.add("h", create_exchange("headers", {}))
    assert router.depends_on_message("a")


def test_whether_routes_depend_on_more_than_headers() -> None:
    router = router_of({"a": "direct", "h": "headers"})
    router.bind("a", exchange("h"), "k", {})
    assert not router.depends_on_properties("a")
    router.add("c", create_exchange("x-consistent-hash", {"hash-header": "id"}))
    router.bind("h", exchange("c"), "", {})
    assert not router.depends_on_properties("a")
    router.add("p", create_exchange("x-consistent-hash", {"hash-property": "message_id"}))
    router.set_alternate("c", "p")
    assert router.depends_on_properties("a")
    arguments = {"x-delayed-type": "x-consistent-hash", "hash-property": "message_id"}
    router.add("d", create_exchange("x-delayed-message", arguments))
    assert router.depends_on_properties("d")


# A random graph against a model

EXCHANGES = ("a", "b", "c", "d")
NAMES = st.sampled_from(EXCHANGES)
DESTINATIONS = st.sampled_from([exchange(name) for name in EXCHANGES] + [queue(name) for name in "qrs"])
KEYS = st.sampled_from(["k", "l"])
STEPS = st.one_of(
    st.tuples(st.just("bind"), NAMES, DESTINATIONS, KEYS),
    st.tuples(st.just("bind"), NAMES, DESTINATIONS, KEYS),
    st.tuples(st.just("unbind"), NAMES, DESTINATIONS, KEYS),
    st.tuples(st.just("remove queue"), st.sampled_from("qrs")),
    st.tuples(st.just("remove exchange"), NAMES),
    st.tuples(st.just("alternate"), NAMES, st.sampled_from([None, *EXCHANGES])),
)
Edge = tuple[str, Destination, str]


def walk(edges: list[Edge], alternates: Mapping[str, str | None], start: str, key: str) -> set[str]:
    """The queues that a message reaches among direct exchanges."""
    visited: list[str] = []
    pending = [start]
    queues = set()
    while pending:
        name = pending.pop()
        if name in visited:
            continue
        visited.append(name)
        reached = [destination for source, destination, bound in edges if (source, bound) == (name, key)]
        queues |= {destination.name for destination in reached if destination.kind == "queue"}
        pending += [destination.name for destination in reached if destination.kind == "exchange"]
        alternate = alternates.get(name)
        if not reached and alternate is not None:
            pending.append(alternate)
    return queues


@given(steps=st.lists(STEPS, min_size=10, max_size=60))
def test_the_router_agrees_with_a_list_of_edges(steps: list[tuple[object, ...]]) -> None:
    router = router_of(dict.fromkeys(EXCHANGES, "direct"))
    edges: list[Edge] = []
    alternates: dict[str, str | None] = {}
    for step in steps:
        match step:
            case "bind", str(source), Destination() as destination, str(key):
                is_new = (source, destination, key) not in edges
                assert router.bind(source, destination, key, {}) == is_new
                if is_new:
                    edges.append((source, destination, key))
            case "unbind", str(source), Destination() as destination, str(key):
                was_there = (source, destination, key) in edges
                assert router.unbind(source, destination, key, {}) == was_there
                if was_there:
                    edges.remove((source, destination, key))
            case "remove queue", str(name):
                gone = [edge for edge in edges if edge[1] == queue(name)]
                assert sorted(router.remove_queue(name)) == sorted({edge[0] for edge in gone})
                edges = [edge for edge in edges if edge not in gone]
            case "remove exchange", str(name):
                gone = [edge for edge in edges if name == edge[0] or edge[1] == exchange(name)]
                assert sorted(router.remove(name)) == sorted({edge[0] for edge in gone} - {name})
                edges = [edge for edge in edges if edge not in gone]
                alternates[name] = None
                router.add(name, create_exchange("direct", {}))
            case "alternate", str(name), (str() | None) as alternate:
                alternates[name] = alternate
                router.set_alternate(name, alternate)
    listed = [(source, binding.destination, binding.binding_key) for source, binding in router.bindings()]
    assert sorted(listed) == sorted(edges)
    for destination in [exchange(name) for name in EXCHANGES] + [queue(name) for name in "qrs"]:
        found = [(source, binding.binding_key) for source, binding in router.bindings_to(destination)]
        assert sorted(found) == sorted((edge[0], edge[2]) for edge in edges if edge[1] == destination)
    for start in EXCHANGES:
        for key in ("k", "l"):
            queues = router.route(start, (key,), None).queues
            assert len(queues) == len(set(queues))
            assert set(queues) == walk(edges, alternates, start, key)

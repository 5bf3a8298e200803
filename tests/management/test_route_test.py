"""The route test: it says what a publish would do, for every type of exchange, and does nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqp_broker.management.verbs.route_test import Asked, Walk, _others
from amqp_broker.messages.facts import MessageFacts as Facts
from amqp_broker.metadata import commands
from amqp_broker.protocol import methods
from amqp_broker.protocol.fields import Table
from amqp_broker.turn.task import Task
from exchanges.bindings import Destination
from exchanges.exchange import Exchange, MessageFacts
from exchanges.registry import EXCHANGE_TYPES
from queues.message import Address, build_message
from tests.example_counts import examples
from tests.management.names import NAMES
from tests.management.publishing import publish
from tests.management.users import TaggedDesk, add_user
from tests.node.node_driver import NodeDriver, consume, declare
from tests.node.system_service import SystemService

NO_FACTS = Facts(build_message(Address(b"\0\0"), b"\0\0", b"", False, -1, -1, 0))


def exchange(name: str, type_name: str, *, internal: bool = False, **arguments: object) -> Any:
    table = Table({key.replace("_", "-"): value for key, value in arguments.items()})
    return methods.ExchangeDeclare(0, name, type_name, False, True, False, internal, False, table)


def bind(queue: str, source: str, key: str = "", **arguments: object) -> Any:
    table = Table({name.replace("_", "-"): value for name, value in arguments.items()})
    return methods.QueueBind(0, queue, source, key, False, table)


def bind_exchange(destination: str, source: str, key: str = "") -> Any:
    return methods.ExchangeBind(0, destination, source, key, False, Table({}))


def try_route(service: SystemService, name: str, routing_key: str = "", **fields: object) -> dict[str, Any]:
    answer = service.ask("route.test", vhost="/", exchange=name, routing_key=routing_key, **fields)
    assert answer["ok"], answer
    return answer


def setup(driver: NodeDriver, *said: object) -> None:
    client = driver.client(1)
    client.send(1, *said)
    driver.settle()
    assert not client.is_closed


def test_the_tree_has_what_matches_and_what_does_not(driver: NodeDriver, service: SystemService) -> None:
    setup(
        driver, declare("one"), declare("two"), declare("three"), exchange("inner", "fanout", internal=True),
        bind("one", "amq.topic", "a.*"), bind("one", "amq.topic", "#.c"), bind("two", "amq.topic", "a.b"),
        bind("three", "inner"), bind_exchange("inner", "amq.topic", "a.#"), bind("three", "amq.topic", "x"),
    )  # fmt: skip
    answer = try_route(service, "amq.topic", "a.b")
    topic, inner = answer["exchanges"]
    assert sorted((each["destination"], each["routing_key"]) for each in topic["matched"]) == [
        ("inner", "a.#"), ("one", "a.*"), ("two", "a.b"),
    ]  # fmt: skip
    others = [(each["destination"], each["routing_key"]) for each in topic["not_matched"]]
    assert others == [("one", "#.c"), ("three", "x")]
    assert (topic["binding_count"], topic["next_skip"]) == (5, None)
    assert (inner["reached_by"], inner["reached_from"], inner["queues"]) == ("binding", "amq.topic", ["three"])
    assert sorted(each["name"] for each in answer["queues"]) == ["one", "three", "two"]
    assert answer["permitted"]
    assert answer["summary"] == "goes to 3 queues"
    assert driver.queue("one").message_count() == 0


def test_an_alternate_exchange_is_taken_where_nothing_matches(driver: NodeDriver, service: SystemService) -> None:
    main = exchange("main", "direct", alternate_exchange="amq.fanout")
    setup(driver, declare("rest"), main, bind("rest", "amq.fanout"))
    first, second = try_route(service, "main", "nothing")["exchanges"]
    assert (first["takes_alternate"], second["reached_by"], second["queues"]) == (True, "alternate", ["rest"])
    nowhere = try_route(service, "amq.direct", "x")
    assert nowhere["summary"].startswith("goes nowhere")
    assert try_route(service, "", "rest")["queue_count"] == 1
    assert try_route(service, "", "nix")["queue_count"] == 0


def test_headers_copies_and_delays(driver: NodeDriver, service: SystemService) -> None:
    setup(
        driver, declare("h"), declare("cc"), exchange("later", "x-delayed-message", x_delayed_type="direct"),
        bind("h", "amq.headers", "", x_match="all", n=5), bind("h", "later", "k"), bind("cc", "amq.direct", "copy"),
    )  # fmt: skip
    assert try_route(service, "amq.headers", headers={"n": 5})["queue_count"] == 1
    assert try_route(service, "amq.headers", headers={"n": 6})["queue_count"] == 0
    assert try_route(service, "amq.direct", "x", headers={"CC": ["copy"]})["queues"][0]["name"] == "cc"
    waits = try_route(service, "later", "k", headers={"x-delay": 1000})
    assert (waits["waits_before"], waits["queue_count"], waits["exchanges"][0]["waits"]) == (["later"], 0, True)
    assert try_route(service, "later", "k")["exchanges"][0]["matched"][0]["routing_key"] == "k"
    assert "CC" in service.ask("route.test", vhost="/", exchange="amq.direct", headers={"CC": 5})["error"]


def test_what_would_become_of_it_in_a_queue(driver: NodeDriver, service: SystemService) -> None:
    setup(
        driver, declare("refuses", x_max_length=1, x_overflow="reject-publish"), declare("drops", x_max_length=1),
        declare("ttl", x_message_ttl=5000, x_dead_letter_exchange="amq.fanout"),
        declare("sac", x_single_active_consumer=True), declare("quorum", x_queue_type="quorum"),
        *(bind(name, "amq.fanout") for name in ("refuses", "drops", "ttl", "sac", "quorum")),
    )  # fmt: skip
    client = driver.client(1, 2)
    client.send(1, methods.BasicQos(0, 1, False), consume("sac", "active"), consume("sac", "standby"))
    driver.settle()
    for name in ("refuses", "drops", "sac"):
        publish(client, "", name, b"x")
    driver.settle()
    found = {each["name"]: each for each in try_route(service, "amq.fanout", expiration=3000)["queues"]}
    assert (found["refuses"]["limits"]["would"], found["refuses"]["limits"]["reached"]) == ("reject", ["max-length"])
    assert found["drops"]["limits"]["would"] == "drop-head"
    assert (found["ttl"]["limits"], found["ttl"]["expires_after_ms"]) == (None, 3000)
    assert found["ttl"]["dead_letter_exchange"] == "amq.fanout"
    assert found["ttl"]["delivery"] == "waits: there is no consumer"
    whys = {each["consumer_tag"]: each["why_not"] for each in found["sac"]["consumers"]}
    assert whys == {
        "active": "it holds 1 unacknowledged messages, which is its prefetch",
        "standby": "another one is the single active consumer",
    }
    assert found["quorum"]["type"] == "quorum"
    assert "is refused by refuses" in try_route(service, "amq.fanout")["summary"]
    client.send(2, consume("ttl", "eager", no_ack=True))
    driver.settle()
    found = {each["name"]: each for each in try_route(service, "amq.fanout")["queues"]}
    assert found["ttl"]["delivery"] == "a consumer takes it at once"
    assert (driver.queue("refuses").message_count(), driver.queue("drops").message_count()) == (1, 1)


def test_permissions_of_the_user(driver: NodeDriver, service: SystemService) -> None:
    add_user(driver, "looker", "management")
    add_user(driver, "other")
    propose = driver.node.broker.propose
    propose(commands.set_permission("other", "/", "", "^amq[.]topic$", ""))
    propose(commands.set_topic_permission("other", "/", "amq.topic", "^ok", ""))
    driver.settle()
    assert try_route(service, "amq.topic", "ok.1", user="other")["permitted"]
    assert "topic permission" in try_route(service, "amq.topic", "no", user="other")["refusal"]
    assert "no write permission" in try_route(service, "amq.direct", "x", user="other")["refusal"]
    assert "is internal" in try_route(service, "amq.rabbitmq.trace", "x")["refusal"]
    desk = TaggedDesk(driver)
    where = {"vhost": "/", "exchange": "amq.topic", "routing_key": "x"}
    assert desk.ask_as("looker", "route.test", **where)["user"] == "looker"
    assert desk.ask_as("looker", "route.test", **where, user="other")["code"] == "not_authorised"
    assert desk.ask_as("other", "route.test", **where)["code"] == "not_authorised"
    for wrong in ({"vhost": "no"}, {"exchange": "no"}, {"user": "no"}):
        assert service.ask("route.test", **{**where, **wrong})["code"] == "not_found"
    for wrong in ({"headers": 5}, {"properties": {"nix": 1}}, {"properties": {"message_id": 5}}, {"limit": 0}):
        assert service.ask("route.test", **{**where, **wrong})["code"] == "bad_request"


@pytest.mark.parametrize("name", NAMES)
def test_names_of_any_octets(driver: NodeDriver, service: SystemService, name: str) -> None:
    setup(driver, declare(name), exchange(name, "topic"), bind(name, name, "#"))
    answer = try_route(service, name, name[:200])
    assert [each["name"] for each in answer["queues"]] == [name]
    assert answer["exchanges"][0]["matched"][0]["destination"] == name


def test_very_many_bindings_come_in_pages(driver: NodeDriver, service: SystemService) -> None:
    setup(driver, declare("q"), *(declare(f"q{number}") for number in range(60)))
    client = driver.client(1)
    client.send(1, bind("q", "amq.direct", "hit"), *(bind(f"q{number}", "amq.direct", "miss") for number in range(60)))
    driver.settle()
    seen, skip = [], 0
    while skip is not None:
        (found,) = try_route(service, "amq.direct", "hit", limit=25, skip=skip)["exchanges"]
        assert [each["destination"] for each in found["matched"]] == ["q"]
        seen += [each["destination"] for each in found["not_matched"]]
        assert len(found["not_matched"]) <= 25
        skip = found["next_skip"]
    assert seen == [f"q{number}" for number in range(60)]


class NewType(Exchange):
    """A type that nobody knows: every second binding, by the length of the key."""

    type_name = "x-even"

    def matches(self, routing_key: str, facts: MessageFacts | None) -> list[Destination]:
        return [
            destination
            for destination, held in self._held.items()
            if any((len(binding.binding_key) + len(routing_key)) % 2 == 0 for binding in held.values())
        ]


def test_a_new_type_of_exchange_needs_nothing_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(EXCHANGE_TYPES, NewType.type_name, NewType)
    driver = NodeDriver()
    service = SystemService(driver)
    setup(driver, declare("even"), declare("odd"), exchange("new", "x-even"))
    setup(driver, bind("even", "new", "aa"), bind("odd", "new", "a"))
    answer = try_route(service, "new", "xx")
    assert [each["destination"] for each in answer["exchanges"][0]["matched"]] == ["even"]
    assert [each["destination"] for each in answer["exchanges"][0]["not_matched"]] == ["odd"]


KEYS = st.sampled_from(["", "a", "a.b", "#", "*.b", "a.#", "5"])
TYPES = ["direct", "fanout", "topic", "headers", "x-consistent-hash", "x-modulus-hash"]


def test_bindings_that_come_while_they_are_looked_at(driver: NodeDriver, service: SystemService) -> None:
    count = 40
    setup(driver, *(declare(f"q{n}") for n in range(count)), *(bind(f"q{n}", "amq.direct", "k") for n in range(count)))
    entry = driver.node.broker.vhosts["/"].router.get("amq.direct")
    assert entry is not None
    asked = Asked("amq.direct", ["other"], NO_FACTS, 100, 0, 0, -1)
    steps = _others(entry, {}, asked)
    for _ in range(2):
        next(steps)
    setup(driver, declare("late"), bind("late", "amq.direct", "k"))
    run = Task(driver.node.background, steps)
    driver.settle()
    found, next_skip = run.result
    assert len(json.loads(b"".join(found.chunks()))) == next_skip < count
    rest = try_route(service, "amq.direct", "other", skip=next_skip)["exchanges"][0]
    assert len(rest["not_matched"]) == count + 1 - next_skip
    assert rest["next_skip"] is None


def test_before_an_exchange_that_delays_bindings_are_those_of_its_own_type(
    driver: NodeDriver, service: SystemService
) -> None:
    setup(driver, declare("a"), declare("b"), exchange("later", "x-delayed-message", x_delayed_type="direct"))
    setup(driver, bind("a", "later", "k"), bind("b", "later", "other"))
    (found,) = try_route(service, "later", "k")["exchanges"]
    assert [each["destination"] for each in found["matched"]] == ["a"]
    assert [each["destination"] for each in found["not_matched"]] == ["b"]


@pytest.mark.parametrize("name", ["amq.fanout", "amq.direct", "amq.topic"])
@pytest.mark.parametrize(("come", "go"), [(1, 0), (0, 1), (5, 5)])
def test_what_comes_or_goes_while_it_is_walked(driver: NodeDriver, name: str, come: int, go: int) -> None:
    """Each queue once, those that are there all the time among them, and it ends."""
    names = [f"q{number:03}" for number in range(85)]
    for each in names:
        setup(driver, declare(each), bind(each, name, "k"))
    vhost = driver.node.broker.vhosts["/"]
    entry = vhost.router.get(name)
    assert entry is not None
    walk = Walk(vhost, Asked(name, ["k"], NO_FACTS, 200, 0, 0, -1))
    steps = walk.from_exchange(entry)
    for _ in range(3):
        next(steps)
    for number in range(go):
        setup(driver, methods.QueueDelete(0, names[number]))
    for number in range(come):
        setup(driver, declare(f"n{number}"), bind(f"n{number}", name, "k"))
    for _ in steps:
        pass
    found = list(walk.queues)
    assert len(set(found)) == len(found)
    assert {*names[go:]} <= {*found}
    if name != "amq.topic":  # its list was made before
        assert {*vhost.queues} <= {*found}


@settings(max_examples=examples(30), deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), KEYS, st.booleans()), max_size=12),
    st.lists(st.sampled_from(TYPES), min_size=5, max_size=5),
    KEYS,
    st.dictionaries(st.sampled_from(["n", "m"]), st.integers(0, 2)),
)
def test_it_agrees_with_a_publish(
    bindings: list[tuple[int, int, str, bool]], types: list[str], key: str, headers: Mapping[str, int]
) -> None:
    driver = NodeDriver()
    service = SystemService(driver)
    setup(driver, *(declare(f"q{n}") for n in range(5)), *(exchange(f"e{n}", name) for n, name in enumerate(types)))
    client = driver.client(1)
    for source, target, binding_key, is_queue in bindings:
        binding_key = "1" if types[source] == "x-consistent-hash" else binding_key
        make, kind = (bind, "q") if is_queue else (bind_exchange, "e")
        client.send(1, make(f"{kind}{target}", f"e{source}", binding_key))
    driver.settle()
    answer = try_route(service, "e0", key, headers=dict(headers))
    shown = {name for each in answer["exchanges"] for name in each["queues"]}
    assert shown == {each["name"] for each in answer["queues"]}
    before = {f"q{n}": driver.queue(f"q{n}").message_count() for n in range(5)}
    publish(client, "e0", key, b"x", headers=dict(headers))
    driver.settle()
    got = {name for name, count in before.items() if driver.queue(name).message_count() > count}
    assert got == shown

"""What is remembered of routes: after whatever change, a message goes where it would if nothing were remembered; and a
change leaves alone what it cannot touch."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqp_broker.auth.permissions import Action
from amqp_broker.messages import facts
from amqp_broker.metadata import commands
from amqp_broker.protocol import methods
from amqp_broker.protocol.fields import Table, decode_table
from amqp_broker.protocol.frames import encode_method_frame
from amqp_broker.protocol.properties import encode_properties
from amqp_broker.routing import vhost as vhosts
from amqp_broker.routing.routes import HeaderRoutes, PublishRoute
from tests.example_counts import examples
from tests.node.node_driver import Client, NodeDriver, declare, frame_octets, small_config
from tests.processor_time import processor_time
from tests.simulation.settings import USER

EXCHANGES = ("e1", "e2", "e3")
QUEUES = ("a", "b")
KEYS = ("a", "k")
NOTHING = Table({})


def publish(client: Client, exchange: str, key: str, headers: dict[str, Any], **properties: str) -> None:
    said = encode_properties({"headers": Table(headers), **properties}) if headers else b"\x00\x00"
    method = encode_method_frame(1, methods.BasicPublish(0, exchange, key, False, False))
    header = frame_octets(2, 1, b"\x00\x3c\x00\x00" + (1).to_bytes(8, "big") + said)
    client.send_octets(method + header + frame_octets(3, 1, b"x"))


class World:
    """A node, a client that declares and one that publishes."""

    def __init__(self) -> None:
        self.driver = NodeDriver(small_config(max_cached_routes=12))
        self.declarer = self.driver.client(1)
        self.publisher = self.driver.client(1)

    @property
    def vhost(self) -> Any:
        return self.driver.node.broker.vhosts["/"]

    def declare(self, *said: Any) -> None:
        """Whatever becomes of it: who asks for what cannot be gets another channel."""
        self.declarer.send(1, *said)
        self.driver.settle()
        if "channel.close" in self.declarer.names():
            self.declarer.send(1, methods.ChannelCloseOk(), methods.ChannelOpen())
            self.driver.settle()
            self.declarer.take()

    def propose(self, command: commands.Command) -> None:
        self.driver.node.broker.propose(command)
        self.driver.settle()

    def check(self, exchange: str, key: str, headers: dict[str, Any]) -> None:
        """A message goes to the queues to which a walk leads that remembers nothing."""
        session = self.publisher.connection.session
        entry = self.vhost.router.get(exchange)
        if entry is None or not session.allows(Action.WRITE, exchange):
            publish(self.publisher, exchange, key, headers)
            self.driver.settle()
            assert "channel.close" in self.publisher.names()
            self.publisher.send(1, methods.ChannelCloseOk(), methods.ChannelOpen())
            self.driver.settle()
            return
        asked = type("Facts", (), {"headers": headers, "property": lambda self, name: None})()
        wanted = {name for name in self.vhost.router.route(exchange, [key], asked).queues if name in self.vhost.queues}
        before = {queue.name: queue.message_count() for queue in self.vhost.queues.all_made()}
        publish(self.publisher, exchange, key, headers)
        self.driver.settle()
        got = {queue.name for queue in self.vhost.queues.all_made() if queue.message_count() > before[queue.name]}
        assert got == wanted


exchange_names, queue_names = st.sampled_from(EXCHANGES), st.sampled_from(QUEUES)
keys = st.sampled_from(["k", "#"])
tables = st.sampled_from([NOTHING, NOTHING, Table({"x-match": "any", "h": 1})])
alternates = st.sampled_from([NOTHING, NOTHING, *[Table({"alternate-exchange": name}) for name in (*EXCHANGES, "")]])


def policy(name: str | None) -> commands.Command:
    if name is None:
        return commands.clear_policy("/", "p")
    definition = {"alternate-exchange": name}
    return commands.set_policy("/", "p", pattern="^e[12]", definition=definition, apply_to="exchanges")


methods_said = st.one_of(
    st.builds(lambda name: declare(name, durable=False), queue_names),
    st.builds(lambda name: methods.QueueDelete(0, name, False, False, False), queue_names),
    st.builds(
        lambda name, kind, told: methods.ExchangeDeclare(0, name, kind, False, False, False, False, False, told),
        exchange_names, st.sampled_from(["direct", "topic", "fanout", "headers"]), alternates,
    ),
    st.builds(lambda name: methods.ExchangeDelete(0, name, False, False), exchange_names),
    *[
        st.builds(
            lambda destination, source, key, told: methods.QueueBind(0, destination, source, key, False, told),
            queue_names, exchange_names, keys, tables,
        )
    ] * 2,
    st.builds(
        lambda destination, source, key, told: methods.QueueUnbind(0, destination, source, key, told),
        queue_names, exchange_names, keys, tables,
    ),
    st.builds(
        lambda destination, source, key, told: methods.ExchangeBind(0, destination, source, key, False, told),
        exchange_names, exchange_names, keys, tables,
    ),
    st.builds(
        lambda destination, source, key, told: methods.ExchangeUnbind(0, destination, source, key, False, told),
        exchange_names, exchange_names, keys, tables,
    ),
)  # fmt: skip
proposed = st.one_of(
    st.builds(policy, st.sampled_from([None, *EXCHANGES, ""])),
    st.builds(
        lambda pattern: commands.set_permission(USER, "/", ".*", pattern, ".*"), st.sampled_from([".*", ".*", "[^1]$"])
    ),
)
changes = st.one_of(methods_said, methods_said, methods_said, proposed)
published = st.lists(
    st.tuples(
        st.sampled_from(["", *EXCHANGES]), st.sampled_from(KEYS), st.sampled_from([{}, {}, {"h": 1}, {"h": 2}])
    ),
    min_size=1,
    max_size=6,
)
#: Exchanges and queues for changes to meet.
SETTLED = [
    *[declare(name, durable=False) for name in QUEUES],
    *[
        methods.ExchangeDeclare(0, name, kind, False, False, False, False, False, NOTHING)
        for name, kind in zip(EXCHANGES, ("direct", "topic", "headers"), strict=True)
    ],
    methods.QueueBind(0, "a", "e1", "k", False, NOTHING),
    methods.QueueBind(0, "b", "e2", "#", False, NOTHING),
]


@settings(max_examples=examples(150))
@given(st.lists(st.tuples(changes, published), min_size=3, max_size=15))
def test_a_message_goes_where_it_would_if_nothing_were_remembered(history: list[tuple[Any, list[Any]]]) -> None:
    world = World()
    world.declare(*SETTLED)
    for change, addresses in history:
        for address in addresses:
            world.check(*address)
        if isinstance(change, dict):
            world.propose(change)
        else:
            world.declare(change)
        for address in addresses:
            world.check(*address)


def remembered(driver: NodeDriver) -> list[Any]:
    return list(driver.node.broker.vhosts["/"].routes_of(USER).routes)


def test_a_reply_queue_that_comes_and_goes_leaves_other_routes_alone() -> None:
    driver = NodeDriver()
    client = driver.client(1)
    client.send(1, declare("q", durable=False), methods.QueueBind(0, "q", "amq.topic", "k.*", False, NOTHING))
    driver.settle()
    for exchange, key in (("", "q"), ("amq.topic", "k.1"), ("amq.topic", "nowhere")):
        publish(client, exchange, key, {})
    before = remembered(driver)
    assert len(before) == 3
    forgotten = driver.node.broker.vhosts["/"].forgotten
    for number in range(3):
        client.send(1, methods.QueueDeclare(0, f"reply {number}", False, False, True, True, False, NOTHING))
        driver.settle()
        publish(client, "", f"reply {number}", {})
        client.send(1, methods.QueueDelete(0, f"reply {number}", False, False, False))
        driver.settle()
    assert [each for each in remembered(driver) if each is not None] == before
    assert driver.node.broker.vhosts["/"].forgotten == forgotten
    for exchange, key in (("", "q"), ("amq.topic", "k.1")):
        publish(client, exchange, key, {})
    assert driver.queue("q").message_count() == 4


#: So many reply queues come and go each second, beside so many bindings, and a publisher keeps so much of its rate.
REPLY_QUEUES_A_SECOND, BINDINGS, RATE_KEPT = 100, 20_000, 0.8


def time_of_reply_queues(world: World, count: int) -> float:
    """Processor time in which so many come and go, seconds."""
    with processor_time() as taken:
        for number in range(count):
            name = f"reply {number}"
            world.declare(methods.QueueDeclare(0, name, False, False, True, True, False, NOTHING))
            assert name in world.vhost.queues
            world.declare(methods.QueueDelete(0, name, False, False, False))
    return taken.seconds


def test_a_publisher_keeps_its_rate_beside_reply_queues_and_many_bindings() -> None:
    """They take a small part of each second, and of the publisher's routes none is walked again."""
    world = World()
    world.declare(declare("a", durable=False))
    for number in range(BINDINGS):
        world.declare(methods.QueueBind(0, "a", "amq.topic", f"k.{number}.*", True, NOTHING))
    keys = [f"k.{number}.x" for number in range(10)]
    for key in keys:
        publish(world.publisher, "amq.topic", key, {})
    walks = counted_walks(world)
    times = []
    for _ in range(5):
        times.append(time_of_reply_queues(world, REPLY_QUEUES_A_SECOND // 5))
        for key in keys:
            publish(world.publisher, "amq.topic", key, {})
    assert world.vhost.router.binding_count >= BINDINGS
    assert walks == []
    assert world.vhost.queues["a"].message_count() == 6 * len(keys)
    assert 5 * min(times) < 1 - RATE_KEPT


def test_a_transaction_goes_where_its_messages_belonged_when_they_were_published() -> None:
    """As in RabbitMQ. Another channel has used the same route since, for a message that belongs there."""
    driver = NodeDriver()
    client, other = driver.client(1), driver.client(1)
    client.send(1, declare("q", durable=False), declare("r", durable=False))
    for key in ("one", "two"):
        client.send(1, methods.QueueBind(0, "q", "amq.direct", key, False, NOTHING))
    driver.settle()
    client.send(1, methods.TxSelect())
    publish(client, "amq.direct", "one", {})
    other.send(1, methods.QueueBind(0, "r", "amq.direct", "one", False, NOTHING))
    driver.settle()
    publish(other, "amq.direct", "two", {"h": 1})
    publish(client, "amq.direct", "one", {})
    client.send(1, methods.TxCommit())
    driver.settle()
    assert (driver.queue("q").message_count(), driver.queue("r").message_count()) == (3, 1)


def test_a_route_is_of_the_exchange_that_is_there() -> None:
    driver = NodeDriver()
    client = driver.client(1)
    vhost = driver.node.broker.vhosts["/"]
    declared = methods.ExchangeDeclare(0, "e", "fanout", False, False, False, False, False, NOTHING)
    client.send(1, declare("q", durable=False))
    for _ in range(2):
        client.send(1, declared, methods.QueueBind(0, "q", "e", "", False, NOTHING))
        driver.settle()
        publish(client, "e", "k", {})
        entry = vhost.router.get("e")
        assert vhost.route_to(entry, ["q"]).entry is entry
        client.send(1, methods.ExchangeDelete(0, "e", False, False))
        driver.settle()
    assert driver.queue("q").message_count() == 2


def test_what_is_remembered_of_a_deleted_queue_is_let_go() -> None:
    driver = NodeDriver()
    vhost = driver.node.broker.vhosts["/"]
    client = driver.client(1)
    client.send(1, declare("stays", durable=False), methods.QueueBind(0, "stays", "amq.fanout", "", False, NOTHING))
    driver.settle()
    for number in range(100):
        name = f"goes {number}"
        client.send(1, declare(name, durable=False), methods.QueueBind(0, name, "amq.fanout", "", False, NOTHING))
        driver.settle()
        publish(client, "amq.fanout", "k", {})
        client.send(1, methods.QueueDelete(0, name, False, False, False))
        driver.settle()
    publish(client, "amq.fanout", "k", {})
    route = vhost.route_to(vhost.router.get("amq.fanout"), ["stays"])
    assert [each for each in remembered(driver) if each is not None] == [route]
    assert driver.queue("stays").message_count() == 101


def time_to_fan_out(queues: int) -> float:
    """Processor time of the first message to so many queues, after each of three changes; the least, in seconds."""
    driver = NodeDriver(small_config(max_turn_copies=1_000_000))
    client = driver.client(1)
    client.send(1, methods.ExchangeDeclare(0, "fan", "fanout", False, False, False, False, False, NOTHING))
    for number in range(queues):
        client.send(1, declare(f"q{number}", durable=False))
        client.send(1, methods.QueueBind(0, f"q{number}", "fan", "", False, NOTHING))
    driver.settle()
    times = []
    for number in range(3):
        client.send(1, declare(f"one more {number}", durable=False))
        client.send(1, methods.QueueBind(0, f"one more {number}", "fan", "", False, NOTHING))
        driver.settle()
        with processor_time() as taken:
            publish(client, "fan", "", {})
        times.append(taken.seconds)
        driver.settle()
    assert driver.queue("q0").message_count() == len(times)
    return min(times)


def test_the_first_message_to_very_many_queues_costs_by_their_number_and_not_its_square() -> None:
    assert time_to_fan_out(4000) < 64 * time_to_fan_out(250)  # 16 times as many; the square is 256


def test_what_a_user_may_do_touches_the_routes_of_that_user_only() -> None:
    world = World()
    world.declare(declare("a"))
    world.check("", "a", {})
    table = world.vhost.routes_of(USER)

    def hold() -> bool:
        return table.routes != [] and None not in table.routes

    assert hold()
    world.propose(commands.put_user("other", "", []))
    world.propose(commands.set_permission("other", "/", ".*", ".*", ".*"))
    world.propose(commands.put_vhost("v"))
    world.propose(commands.set_permission(USER, "v", ".*", ".*", ".*"))
    assert hold()
    world.propose(commands.set_permission(USER, "/", ".*", "a", ".*"))
    assert not hold()
    world.propose(commands.set_permission(USER, "/", ".*", "", ".*"))
    world.publisher.take()
    publish(world.publisher, "", "a", {})
    world.driver.settle()
    assert world.publisher.names() == ["channel.close"]


def test_of_two_messages_with_equal_headers_a_hash_of_a_property_is_asked_each_time() -> None:
    """Behind a delayed exchange too, whose type says nothing of it."""
    world = World()
    arguments = Table({"x-delayed-type": "x-consistent-hash", "hash-property": "message_id"})
    declared = methods.ExchangeDeclare(0, "e1", "x-delayed-message", False, True, False, False, False, arguments)
    world.declare(declare("a"), declare("b"), declared)
    for name in QUEUES:
        world.declare(methods.QueueBind(0, name, "e1", "1", False, NOTHING))
    for number in range(40):
        publish(world.publisher, "e1", "", {"kind": "order"}, message_id=f"m{number}")
    world.driver.settle()
    counts = [world.vhost.queues[name].message_count() for name in QUEUES]
    assert sum(counts) == 40
    assert min(counts) > 0


def headers_world(*more: Any) -> World:
    world = World()
    entered = methods.ExchangeDeclare(0, "e1", "headers", False, True, False, False, False, NOTHING)
    bound = methods.QueueBind(0, "a", "e1", "", False, Table({"kind": "order"}))
    world.declare(declare("a"), declare("b"), entered, bound, *more)
    world.check("e1", "", {"kind": "order"})
    return world


def by_headers(world: World, user: str = USER) -> Any:
    """The routes by headers of the one address that has any."""
    routes = world.vhost.routes_of(user).routes
    (found,) = [route.by_headers for route in routes if route is not None and route.by_headers is not None]
    return found


def test_headers_are_remembered_for_a_bounded_number_of_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vhosts, "_HEADER_OCTETS", 8_000)
    world = headers_world()
    remembered = by_headers(world).routes
    assert len(remembered) == 1
    world.check("e1", "", {"kind": "order"})
    world.check("e1", "", {"kind": "order", "id": "x" * 2_000})
    assert len(remembered) == 1
    for number in range(40):
        world.check("e1", "", {"kind": "bill", "id": number})
        assert len(remembered) <= 8_000 // 300
    world.check("e1", "", {"kind": "order"})


def test_a_message_that_takes_the_long_way_uses_what_is_remembered_by_its_headers() -> None:
    world = headers_world()
    walks = counted_walks(world)
    for _ in range(5):
        publish(world.publisher, "e1", "", {"kind": "order"}, reply_to="somewhere", user_id=USER)
    world.driver.settle()
    assert world.vhost.queues["a"].message_count() == 6
    assert walks == []


def counted_walks(world: World) -> list[list[str]]:
    """The routing keys of each walk from now on."""
    walks: list[list[str]] = []
    router = world.vhost.router

    class Counting:
        def route(self, exchange: str, keys: list[str], facts: Any) -> Any:
            walks.append(keys)
            return router.route(exchange, keys, facts)

        def __getattr__(self, name: str) -> Any:
            return getattr(router, name)

    world.vhost.router = Counting()
    return walks


def test_a_message_that_has_to_wait_is_walked_once() -> None:
    world = World()
    delayed = Table({"x-delayed-type": "headers"})
    entered = methods.ExchangeDeclare(0, "e1", "x-delayed-message", False, True, False, False, False, delayed)
    world.declare(declare("a"), entered, methods.QueueBind(0, "a", "e1", "", False, Table({"kind": "order"})))
    walks = counted_walks(world)
    publish(world.publisher, "e1", "", {"kind": "order", "x-delay": 60_000})
    world.driver.settle()
    assert walks == [[""]]
    assert world.vhost.queues["a"].message_count() == 0


def test_routes_by_headers_are_shared_by_users_and_leave_no_trace_in_queues() -> None:
    both = methods.QueueBind(0, "b", "e1", "", False, Table({"kind": "order"}))
    world = headers_world(both)
    first = by_headers(world)
    world.propose(commands.put_user("other", "", []))
    world.propose(commands.set_permission("other", "/", ".*", ".*", ".*"))
    vhost = world.vhost
    raw = b"\x02e1\x00"
    route = PublishRoute(vhost.router.get("e1"), [], False, vhost.generation)
    route.by_headers = HeaderRoutes()
    vhost.remember_route(vhost.routes_of("other"), raw, route)
    assert by_headers(world, "other") is first
    (found,) = first.routes.values()
    assert [queue.name for queue in found.queues] == ["a", "b"]
    assert vhost.route_to(vhost.router.get("e1"), ["a", "b"]) is not found  # in no index of a queue


def test_what_is_remembered_by_headers_goes_with_a_queue_an_exchange_and_a_binding() -> None:
    """Nothing that could keep a deleted queue in memory is left, and nothing of it is counted."""
    changes = [
        methods.QueueDelete(0, "a", False, False, False),
        methods.ExchangeDelete(0, "e1", False, False),
        methods.QueueUnbind(0, "a", "e1", "", Table({"kind": "order"})),
    ]
    for change in changes:
        world = headers_world()
        remembered = by_headers(world)
        assert len(remembered.routes) == 1
        assert remembered.is_kept
        world.declare(change)
        assert (remembered.routes, remembered.octets, remembered.is_kept) == ({}, 0, False)


def test_a_message_with_copies_goes_where_their_keys_lead_now() -> None:
    """Also where another exchange is behind whose routes are remembered by headers."""
    world = headers_world(
        methods.ExchangeDeclare(0, "e2", "direct", False, True, False, False, False, NOTHING),
        methods.ExchangeBind(0, "e1", "e2", "k", False, NOTHING),
    )
    for wanted in (0, 1):
        publish(world.publisher, "e2", "k", {"CC": ["copy"]})
        world.driver.settle()
        assert world.vhost.queues["b"].message_count() == wanted
        world.declare(methods.QueueBind(0, "b", "e2", "copy", False, NOTHING))


def test_headers_of_a_message_that_goes_the_long_way_are_decoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[object] = []

    def counting(raw: bytes) -> Table:
        decoded.append(raw)
        return decode_table(raw)

    monkeypatch.setattr(facts, "decode_table", counting)
    world = World()
    world.declare(declare("a"))
    publish(world.publisher, "", "a", {"kind": "order"}, user_id=USER)
    world.driver.settle()
    assert world.vhost.queues["a"].message_count() == 1
    assert decoded == []  # beside those among the properties

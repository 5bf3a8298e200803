"""Queues that live elsewhere: nothing of them is made here until somebody uses them, and nobody notices when it is."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from amqp_broker.metadata import commands
from amqp_broker.metadata.entities import BindingRecord
from amqp_broker.protocol import methods
from amqp_broker.protocol.constants import ReplyCode
from amqp_broker.protocol.fields import Table
from amqp_broker.protocol.frames import encode_method_frame
from amqp_broker.protocol.properties import encode_properties
from exchanges.bindings import QUEUE, Destination
from queues.receipts import JointReceipt
from tests.node.moving_queues import MovingWorld, confirming, outcomes
from tests.node.node_driver import Client, consume, frame_octets
from tests.node.system_service import SystemService

pytestmark = pytest.mark.once

HERE, HOME, THIRD = "n1", "n1/1", "n1/2"


@pytest.fixture
def world() -> MovingWorld:
    made = MovingWorld()
    made.declare(HOME, "q", "other")
    return made


def made(world: MovingWorld, at: str = HERE) -> list[str]:
    """What is made at a worker of that which does not live there."""
    return [queue.name for queue in world.nodes[at].node.broker.vhosts["/"].queues.all_made() if queue.home]


def nothing_is_made(world: MovingWorld, *places: str) -> bool:
    """Neither queues nor links to their homes."""
    nodes = [world.nodes[at].node for at in places or world.nodes]
    return not any(made(world, at) for at in places or world.nodes) and not any(
        each.remote_queues.links for each in nodes
    )


def propose(world: MovingWorld, command: Any, at: str = HERE) -> None:
    world.nodes[at].node.broker.propose(command)
    world.settle(30)


def publish(client: Client, exchange: str, key: str, body: bytes, *, is_mandatory: bool = False) -> None:
    octets = encode_method_frame(1, methods.BasicPublish(0, exchange, key, is_mandatory, False))
    octets += frame_octets(2, 1, b"\x00\x3c\x00\x00" + len(body).to_bytes(8, "big") + encode_properties({}))
    client.send_octets(octets + frame_octets(3, 1, body))


# -- what is not used is not made --------------------------------------------------------------------------------------


def test_what_is_only_known_is_not_made(world: MovingWorld) -> None:
    propose(world, commands.add_binding("/", BindingRecord("amq.direct", "queue", "q", "key", b"")))
    propose(world, commands.set_policy("/", "p", pattern="q", definition={"max-length": 5}))
    assert nothing_is_made(world)
    driver = world.nodes[HERE]
    assert "q" in driver.node.broker.vhosts["/"].queues
    assert driver.node.broker.queue_count == 2
    assert world.nodes[HOME].queue("q").settings.max_length == 5


@pytest.mark.parametrize("verb", ["statistics", "totals", "queue.list", "objects.page", "object", "policy.preview"])
def test_who_looks_at_all_of_them_makes_none_that_stays(world: MovingWorld, verb: str) -> None:
    fields = {
        "queue.list": {"vhost": "/"},
        "objects.page": {"kind": "queues", "vhost": "/"},
        "object": {"kind": "queues", "vhost": "/", "name": "q"},
        "policy.preview": {"vhost": "/", "pattern": "q", "definition": {"max-length": 3}},
    }.get(verb, {})
    world.publish(world.client(HOME, 1), "q", range(3))
    world.settle()
    service = SystemService(world.nodes[HERE])
    service.send(verb, json.dumps(fields).encode())
    answers: list[dict[str, Any]] = []
    for _ in range(50):
        world.settle()
        answers += service.answers()
    [said] = answers
    assert not made(world)
    if verb == "queue.list":
        [row] = [each for each in said["queues"] if each["name"] == "q"]
        assert row["messages_ready"] == 3
    elif verb == "statistics":
        assert said["statistics"]["queues"] == 2
    elif verb == "policy.preview":
        assert said["queues"]["names"] == ["q"]


def test_one_that_goes_while_it_is_looked_at_is_not_shown(world: MovingWorld) -> None:
    service = SystemService(world.nodes[HERE])
    world.cut(HERE, HOME)  # nobody counts it
    service.send("queue.list", b'{"vhost": "/"}')
    vhost = world.nodes[HERE].node.broker.vhosts["/"]
    looked = vhost.queues.look("q")
    assert looked is not None
    assert vhost.queues.has(looked)
    world.nodes[HERE].node.broker.forget_recorded_queue(vhost, "q", looked.queue_id)
    assert not vhost.queues.has(looked)
    for _ in range(60):
        world.run(100)
    [said] = service.answers()
    assert [each["name"] for each in said["queues"]] == ["other"]


def test_after_a_start_nothing_is_made(world: MovingWorld) -> None:
    client = world.client(HERE, 1)
    client.publish(1, "q", b"1")
    world.settle()
    assert made(world) == ["q"]
    for name in (HERE, THIRD):
        world.revive(name, world.kill(name))
    world.run_until_ready()
    world.settle(30)
    assert nothing_is_made(world, HERE, THIRD)
    client = confirming(world, THIRD)
    client.publish(1, "q", b"2")
    world.settle(30)
    assert outcomes(client) == ({1}, set())
    assert made(world, THIRD) == ["q"]
    assert world.bodies(HOME, "q") == [b"1", b"2"]


# -- the first use -----------------------------------------------------------------------------------------------------


def _answer_to(world: MovingWorld, *said: Any) -> list[Any]:
    client = world.client(HERE, 1)
    client.send(1, *said)
    world.settle(30)
    return [event.method for event in client.take()]


def _published(world: MovingWorld) -> None:
    client = confirming(world, HERE)
    publish(client, "amq.fanout", "", b"1", is_mandatory=True)
    world.settle(30)
    assert outcomes(client) == ({1}, set())
    assert world.bodies(HOME, "q") == [b"1"]


def _published_by_an_alternate_exchange(world: MovingWorld) -> None:
    arguments = Table({"alternate-exchange": "amq.fanout"}).raw
    propose(world, commands.declare_exchange("/", "first", "direct", arguments_raw=arguments))
    client = confirming(world, HERE)
    publish(client, "first", "nowhere", b"1", is_mandatory=True)
    world.settle(30)
    assert outcomes(client) == ({1}, set())
    assert world.bodies(HOME, "q") == [b"1"]


def _consumed(world: MovingWorld) -> None:
    world.publish(world.client(HOME, 1), "q", range(2))
    world.settle()
    client = world.client(HERE, 1)
    client.send(1, consume("q"))
    world.settle(30)
    assert client.names() == ["basic.consume-ok", "basic.deliver", "basic.deliver"]


def _got(world: MovingWorld) -> None:
    world.publish(world.client(HOME, 1), "q", range(2))
    world.settle()
    [answer] = _answer_to(world, methods.BasicGet(0, "q", False))
    assert (answer.name, answer.message_count) == ("basic.get-ok", 1)


def _purged(world: MovingWorld) -> None:
    world.publish(world.client(HOME, 1), "q", range(2))
    world.settle()
    [answer] = _answer_to(world, methods.QueuePurge(0, "q", False))
    assert (answer.name, answer.message_count) == ("queue.purge-ok", 2)


def _asked_for(world: MovingWorld) -> None:
    world.publish(world.client(HOME, 1), "q", range(2))
    world.settle()
    [answer] = _answer_to(world, methods.QueueDeclare(0, "q", True, False, False, False, False, Table({})))
    assert (answer.name, answer.message_count) == ("queue.declare-ok", 2)


def _dead_lettered(world: MovingWorld) -> None:
    world.declare(HERE, "source", x_max_length=0, x_dead_letter_exchange="", x_dead_letter_routing_key="q")
    world.client(HERE, 1).publish(1, "source", b"1")
    world.settle(30)
    assert world.bodies(HOME, "q") == [b"1"]


USES: list[Callable[[MovingWorld], None]] = [
    _published, _published_by_an_alternate_exchange, _consumed, _got, _purged, _asked_for, _dead_lettered,
]  # fmt: skip


@pytest.mark.parametrize("use", USES, ids=lambda use: str(use.__name__.strip("_")))
def test_the_first_use_makes_it(world: MovingWorld, use: Callable[[MovingWorld], None]) -> None:
    propose(world, commands.add_binding("/", BindingRecord("amq.fanout", "queue", "q", "", b"")))
    assert nothing_is_made(world)
    use(world)
    assert made(world) == ["q"]
    assert world.nodes[HERE].queue("q") is world.nodes[HERE].queue("q")


def test_what_a_policy_says_of_it_is_known_at_its_first_use(world: MovingWorld) -> None:
    propose(world, commands.set_policy("/", "p", pattern="q", definition={"max-length": 5}))
    assert world.nodes[HERE].queue("q").settings.max_length == 5


def test_a_first_use_while_the_home_is_down(world: MovingWorld) -> None:
    driver = world.kill(HOME)
    client = confirming(world, HERE)
    publish(client, "", "q", b"1", is_mandatory=True)
    world.settle(30)
    assert outcomes(client) == (set(), {1}), "it is there: no return, and nobody knows what became of it"
    [answer] = _answer_to(world, methods.BasicGet(0, "other", False))
    assert (answer.name, answer.reply_code) == ("channel.close", ReplyCode.NOT_FOUND)
    world.revive(HOME, driver)
    world.run_until_ready()
    publish(client, "", "q", b"2")
    world.settle(30)
    assert outcomes(client) == ({2}, {1})
    assert world.bodies(HOME, "q") == [b"2"]


def test_who_hears_that_a_home_is_down_may_be_the_first_to_use_another_one(world: MovingWorld) -> None:
    """The links are gone through meanwhile."""
    world.declare(THIRD, "third")
    node = world.nodes[HERE].node
    queues = node.broker.vhosts["/"].queues
    world.publish(world.client(HERE, 1), "q", range(1))
    world.settle()
    world.cut(HERE, HOME)
    taken = world.nodes[HOME].queue("q").ready.pop()
    receipt = JointReceipt()
    queues["q"].publish(taken.message, receipt, False, world.now)
    receipt.seal(lambda refusals: queues["third"].publish(taken.message, None, False, world.now))
    world.settle(30)
    assert made(world) == ["q", "third"]
    assert world.bodies(THIRD, "third") == [b"0"]


# -- it goes, or moves -------------------------------------------------------------------------------------------------


def test_one_that_is_not_made_goes(world: MovingWorld) -> None:
    propose(world, commands.add_binding("/", BindingRecord("amq.fanout", "queue", "q", "", b"")))
    broker = world.nodes[HERE].node.broker
    assert _answer_to(world, methods.QueueDelete(0, "q", False, False, False))[0].name == "queue.delete-ok"
    for at in (HERE, THIRD, HOME):
        there = world.nodes[at].node.broker
        assert ([*there.vhosts["/"].queues], there.queue_count) == (["other"], 1)
        assert not there.vhosts["/"].router.sources_of(Destination(QUEUE, "q"))
    assert nothing_is_made(world, THIRD)
    assert broker.metadata.queue("/", "q") is None
    client = confirming(world, THIRD)
    publish(client, "amq.fanout", "", b"1", is_mandatory=True)
    world.settle(30)
    assert "basic.return" in client.names()


def test_one_of_the_same_name_takes_its_place(world: MovingWorld) -> None:
    first = world.nodes[HERE].node.broker.metadata.queue("/", "q").queue_id
    client = confirming(world, HERE)
    client.publish(1, "q", b"1")
    world.settle(30)
    home = world.client(HOME, 1)
    home.send(1, methods.QueueDelete(0, "q", False, False, False))
    world.settle(30)
    world.declare(THIRD, "q")
    assert made(world) == []
    client.publish(1, "q", b"2")
    world.settle(30)
    assert outcomes(client) == ({1, 2}, set())
    assert world.bodies(THIRD, "q") == [b"2"]
    assert world.nodes[HERE].queue("q").queue_id != first


def test_a_virtual_host_goes_with_what_is_not_made() -> None:
    world = MovingWorld()
    propose(world, commands.put_vhost("v"))
    broker = world.nodes[HERE].node.broker
    for number in range(40):
        queue_id = broker.metadata.next_queue_id + number
        broker.propose(commands.declare_queue("v", f"q{number}", queue_id, home=HOME))
    world.settle(30)
    assert broker.queue_count == 40
    assert nothing_is_made(world)
    propose(world, commands.delete_vhost("v"))
    world.settle(60)
    counts = {at: driver.node.broker.queue_count for at, driver in world.nodes.items()}
    assert counts == dict.fromkeys(world.nodes, 0)
    assert broker.queues_deleted == 40, "who wanted it counts them"
    assert nothing_is_made(world)


def test_queues_that_move_are_made_nowhere_else(world: MovingWorld) -> None:
    world.publish(world.client(HOME, 1), "q", range(5))
    world.settle()
    assert world.move("q", THIRD, HOME)["ok"]
    assert made(world) == [], "it was held here for a moment, and nobody used it"
    client = confirming(world, HERE)
    client.publish(1, "q", b"5")
    world.settle(30)
    assert outcomes(client) == ({1}, set())
    assert world.bodies(THIRD, "q") == [b"%d" % number for number in range(6)]
    assert world.check_rest("q") == THIRD


def test_what_is_first_published_while_it_moves_comes_behind_it(world: MovingWorld) -> None:
    world.publish(world.client(HOME, 1), "q", range(200))
    world.settle()
    service = world.begin("q", THIRD, HOME)
    client = confirming(world, HERE)
    for number in range(200, 220):
        client.publish(1, "q", b"%d" % number)
        world.step()
    assert world.end(service)["ok"]
    world.run(300)
    assert outcomes(client) == (set(range(1, 21)), set())
    assert world.bodies(THIRD, "q") == [b"%d" % number for number in range(220)]


def test_new_records_take_the_place_of_old_ones(world: MovingWorld) -> None:
    """After a snapshot there is one record of each queue, not two."""
    node = world.nodes[THIRD].node
    machine = node.replication.machine
    before = node.broker.metadata.queue("/", "q")
    chunks = list(machine.export())
    machine.begin_install()
    for chunk in chunks:
        machine.install_chunk(chunk)
    machine.end_install()
    queues = node.broker.vhosts["/"].queues
    assert node.broker.metadata.queue("/", "q") is not before
    assert queues.entry("q") is node.broker.metadata.queue("/", "q")
    assert nothing_is_made(world)

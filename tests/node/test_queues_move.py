"""A classic queue moves to another worker: clients see, and the queue holds, what they would if it had stayed."""

from __future__ import annotations

import random

import pytest

from amqp_broker.protocol import methods
from amqp_broker.protocol.fields import Table
from amqp_broker.protocol.frames import encode_method_frame
from amqp_broker.protocol.properties import encode_properties
from amqp_broker.rehoming import frames
from queues.classic import ClassicQueue
from tests.example_counts import IS_PLAIN
from tests.node.moving_queues import MovingWorld, confirming, outcomes
from tests.node.node_cluster import NodeCluster
from tests.node.node_driver import consume, declare, frame_octets
from tests.node.system_service import SystemService

pytestmark = pytest.mark.once

OLD, NEW, THIRD = "n1/1", "n1/2", "n1"


@pytest.fixture
def world() -> MovingWorld:
    made = MovingWorld()
    made.declare(OLD, "q")
    return made


def numbers(*found: range | int) -> list[bytes]:
    return [b"%d" % each for part in found for each in (part if isinstance(part, range) else [part])]


# -- what it holds comes along -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("asked", [OLD, NEW, THIRD])
def test_a_queue_moves_with_all_that_it_holds(world: MovingWorld, asked: str) -> None:
    client = world.client(THIRD, 1)
    world.publish(client, "q", range(1000))
    world.settle()
    said = world.move("q", NEW, asked)
    assert said["ok"], said
    assert (said["from"], said["home"], said["messages"]) == (OLD, NEW, 1000)
    assert world.check_rest("q") == NEW
    assert world.bodies(NEW, "q") == numbers(range(1000))


def test_an_empty_queue_moves_to_a_home_whose_disk_has_all(world: MovingWorld) -> None:
    """No sync is to come there that would say so."""
    world.declare(NEW, "other")
    world.publish(world.client(NEW, 1), "other", range(3))
    world.settle()
    assert world.move("q", NEW, OLD)["ok"]
    assert world.check_rest("q") == NEW


def test_who_is_told_of_a_move_twice_in_a_turn_hears_both(world: MovingWorld) -> None:
    """As a busy node is: how far it is, and right behind it the end."""
    service = world.begin("q", NEW, THIRD)
    driver = world.nodes[THIRD]
    driver.turn()
    rehoming = driver.node.rehoming
    (number,) = rehoming.asked
    for is_over in (0, 1):
        said = frames.fields(is_over=is_over, error="", messages=7, octets=70)
        rehoming.receive(OLD, frames.frame(frames.SAID, number, said), driver.now)
    said = world.end(service)
    assert (said["ok"], said["messages"]) == (True, 7), said


def test_it_moves_on_and_back_again(world: MovingWorld) -> None:
    client = world.client(THIRD, 1)
    world.publish(client, "q", range(10))
    world.settle()
    for home in (NEW, THIRD, OLD, NEW, OLD):
        assert world.move("q", home)["ok"]
        assert world.check_rest("q") == home
    world.publish(client, "q", range(10, 20))
    world.settle()
    assert world.bodies(OLD, "q") == numbers(range(20))


def test_its_bindings_and_arguments_stay(world: MovingWorld) -> None:
    client = world.client(THIRD, 1)
    table = Table({"x-max-length": 5, "x-queue-master-locator": "client-local"})
    client.send(1, methods.QueueDeclare(0, "short", False, True, False, False, False, table))
    world.settle(30)
    client.send(1, methods.QueueBind(0, "short", "amq.topic", "a.*", False, Table({})))
    world.settle(30)
    assert world.move("short", OLD)["ok"]
    other = world.client(NEW, 1)
    for number in range(8):
        other.send_octets(publish_to("amq.topic", "a.b", b"%d" % number))
    world.settle(30)
    assert world.bodies(OLD, "short") == numbers(range(3, 8))


def publish_to(exchange: str, key: str, body: bytes) -> bytes:
    section = encode_properties({"delivery_mode": 2})
    octets = encode_method_frame(1, methods.BasicPublish(0, exchange, key, False, False))
    octets += frame_octets(2, 1, b"\x00\x3c\x00\x00" + len(body).to_bytes(8, "big") + section)
    return octets + frame_octets(3, 1, body)


def test_priorities_stay() -> None:
    world = MovingWorld()
    world.declare(OLD, "p", x_max_priority=3)
    driver = world.nodes[OLD]
    client = world.client(OLD, 1)
    world.publish(client, "p", range(20))
    world.settle()
    assert driver.queue("p").ready.count == 20
    assert world.move("p", NEW)["ok"]
    assert world.bodies(NEW, "p") == numbers(range(20))


def test_transient_messages_come_along(world: MovingWorld) -> None:
    client = world.client(THIRD, 1)
    world.publish(client, "q", range(30), persistent=False)
    world.publish(client, "q", range(30, 60))
    world.settle()
    assert world.move("q", NEW)["ok"]
    assert world.bodies(NEW, "q") == numbers(range(60))


def test_a_queue_in_pages_moves() -> None:
    world = MovingWorld(page_size_bytes=4096, queue_head_messages=16, queue_head_size_bytes=8192)
    world.declare(OLD, "q")
    client = world.client(OLD, 1)
    for number in range(3000):
        client.publish(1, "q", b"%d" % number)
        if number % 100 == 0:
            world.settle(2)
    world.settle()
    old = world.nodes[OLD].queue("q").ready
    assert old.pages
    for page in old.pages:
        old.pager.store(world.nodes[OLD].queue("q").queue_id, page)
        old.pager.drop(page)
    assert world.move("q", NEW)["ok"]
    assert world.check_rest("q") == NEW
    assert world.bodies(NEW, "q") == numbers(range(3000))


# -- consumers and publishers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("at", [OLD, NEW, THIRD])
def test_a_consumer_stays_attached(world: MovingWorld, at: str) -> None:
    client = world.client(at, 1)
    client.send(1, consume("q"))
    world.settle(30)
    assert client.names() == ["basic.consume-ok"]
    assert world.move("q", NEW)["ok"]
    publisher = world.client(THIRD, 1)
    world.publish(publisher, "q", range(5))
    world.settle(30)
    events = client.take()
    assert [event.method.name for event in events] == ["basic.deliver"] * 5
    assert [event.body for event in events] == numbers(range(5))
    client.send(1, methods.BasicAck(0, True), methods.BasicCancel("tag", False))
    world.settle(30)
    assert world.nodes[NEW].queue("q").unacked == 0
    assert not world.nodes[NEW].queue("q").dispatcher.consumers


@pytest.mark.parametrize("at", [OLD, NEW, THIRD])
def test_what_a_consumer_holds_comes_again_redelivered(world: MovingWorld, at: str) -> None:
    publisher = world.client(THIRD, 1)
    world.publish(publisher, "q", range(6))
    world.settle()
    client = world.client(at, 1)
    client.send(1, methods.BasicQos(0, 3, False), consume("q"))
    world.settle(30)
    assert [event.body for event in client.take() if event.body] == numbers(range(3))
    assert world.move("q", NEW)["ok"]
    found = [event for event in client.take() if event.body]
    assert [event.body for event in found] == numbers(range(3))
    assert all(event.method.redelivered for event in found)
    client.send(1, methods.BasicAck(3, True))  # of the old queue: they are of nobody
    world.settle(30)
    assert world.nodes[NEW].queue("q").unacked == 3
    client.send(1, methods.BasicAck(6, True))
    world.settle(30)
    assert [event.body for event in client.take() if event.body] == numbers(range(3, 6))


def test_what_is_acknowledged_in_time_does_not_come_again(world: MovingWorld) -> None:
    publisher = world.client(THIRD, 1)
    world.publish(publisher, "q", range(6))
    world.settle()
    client = world.client(THIRD, 1)
    client.send(1, methods.BasicQos(0, 3, False), consume("q"))
    world.settle(30)
    client.take()
    service = world.begin("q", NEW)
    world.run(300)
    client.send(1, methods.BasicAck(3, True))
    assert world.end(service)["ok"]
    world.run(300)
    assert [event.body for event in client.take() if event.body] == numbers(range(3, 6))


@pytest.mark.parametrize("at", [OLD, NEW, THIRD])
def test_publishes_wait_and_are_confirmed(world: MovingWorld, at: str) -> None:
    client = confirming(world, at)
    service = world.begin("q", NEW)
    sent = 0
    for _ in range(400):
        if not client.connection.is_paused:
            world.publish(client, "q", range(sent, sent + 3))
            sent += 3
        world.step()
        if sent > 300 and service.client.events:
            break
        for driver in world.nodes.values():
            driver.now += 1
            driver.node.tick(driver.now)
    assert world.end(service)["ok"]
    world.run(500)
    acked, nacked = outcomes(client)
    assert not nacked
    assert acked == set(range(1, sent + 1))
    assert world.check_rest("q") == NEW
    assert world.bodies(NEW, "q") == numbers(range(sent))


def test_methods_that_name_it_wait(world: MovingWorld) -> None:
    clients = {at: world.client(at, 1) for at in (OLD, NEW, THIRD)}
    publisher = world.client(OLD, 1)
    world.publish(publisher, "q", range(3))
    service = world.begin("q", NEW)
    for _ in range(200):
        if all(not isinstance(driver.queue("q"), ClassicQueue) for driver in world.nodes.values()):
            break
        world.step()
    assert world.is_held("q")
    for client in clients.values():
        client.send(1, methods.BasicGet(0, "q", True))
    assert not any(client.names() for client in clients.values())
    assert world.end(service)["ok"]
    world.run(300)
    assert sorted(event.body for client in clients.values() for event in client.take()) == numbers(range(3))


@pytest.mark.parametrize("at", [OLD, NEW, THIRD])
def test_who_leases_is_served_or_told_to_ask_again(world: MovingWorld, at: str) -> None:
    leasing = SystemService(world.nodes[at])
    moving = world.begin("q", NEW)
    for _ in range(200):
        if all(not isinstance(driver.queue("q"), ClassicQueue) for driver in world.nodes.values()):
            break
        world.step()
    assert world.is_held("q")
    body = b'{"queue": "q", "group": "g"}'
    leasing.send("lease.stat", body)
    world.settle(3)
    assert world.end(moving)["ok"]
    (answer,) = leasing.answers()
    assert answer["ok"] or answer["code"] == "busy", answer


# -- refused -----------------------------------------------------------------------------------------------------------


def test_what_cannot_move_says_why(world: MovingWorld) -> None:
    client = world.client(OLD, 1)
    client.send(
        1,
        methods.QueueDeclare(0, "own", False, False, True, False, False, Table({})),
        methods.QueueDeclare(0, "gone", False, True, False, True, False, Table({})),
        declare("passing", durable=False),
        declare("lasting", x_queue_type="quorum"),
    )
    world.run(500)
    for name, why in {
        "own": "is exclusive",
        "gone": "is auto-delete",
        "passing": "is not durable",
        "lasting": "is a quorum queue",
        "none": "no queue 'none'",
    }.items():
        said = world.move(name, THIRD if name != "none" else NEW)
        assert not said["ok"]
        assert why in said["error"], said
    assert "lives at n1/1 already" in world.move("q", OLD)["error"]
    assert "no node or worker 'n7'" in world.move("q", "n7")["error"]


def test_a_home_that_is_drained_takes_nothing(world: MovingWorld) -> None:
    world.nodes[NEW].node.facts.drain(True)
    said = world.move("q", NEW)
    assert "n1/2 does not take it: it is drained" in said["error"]
    assert world.check_rest("q") == OLD


def test_an_older_level_refuses(world: MovingWorld) -> None:
    for driver in world.nodes.values():
        driver.node.broker.metadata._level = 1
    assert "the cluster is at level 1, and moving queues needs 2" in world.move("q", NEW)["error"]


# -- something fails ---------------------------------------------------------------------------------------------------


#: A move takes no more steps.
STEPS = 24


def one_move(seed: int, steps: int, victim: str, is_cut: bool = False) -> None:
    """A move while clients publish; behind so many steps somebody is killed, or the link between the homes is cut."""
    chance = random.Random(seed)
    world = MovingWorld()
    world.declare(OLD, "q")
    publishers = {at: confirming(world, at) for at in (OLD, NEW, THIRD)}
    sent: dict[str, list[bytes]] = {at: [] for at in publishers}
    lost: dict[str, int] = {}

    def say(at: str, count: int) -> None:
        client = publishers[at]
        if at in lost or client.connection.is_paused:
            return
        for _ in range(count):
            body = f"{at} {len(sent[at])}".encode()
            sent[at].append(body)
            client.publish(1, "q", body)

    for at in publishers:
        say(at, chance.randrange(60))
    world.settle(30)
    world.begin("q", NEW, chance.choice([OLD, NEW, THIRD]))
    for _ in range(steps):
        for at in publishers:
            say(at, chance.randrange(3))
        world.step()
        for driver in world.nodes.values():
            driver.now += chance.randrange(4)
            driver.now = max(each.now for each in world.nodes.values())
            driver.node.tick(driver.now)
    if is_cut:
        world.cut(OLD, NEW)
        world.run(chance.randrange(0, 300, 10))
    else:
        lost[victim] = 1
        driver = world.kill(victim)
        world.run(chance.randrange(0, 300, 10))
        world.revive(victim, driver)
    world.heal()
    for _ in range(200):
        world.run(100)
        if all(driver.node.is_ready for driver in world.nodes.values()):
            break
    world.run(15_000)
    home = world.check_rest("q")
    found = world.bodies(home, "q")
    for at, client in publishers.items():
        acked, _ = outcomes(client)
        confirmed = [sent[at][number - 1] for number in sorted(acked)]
        missing = [body for body in confirmed if body not in found]
        assert not missing, (seed, at, home, missing[:5])
        own = [body for body in found if body.startswith(f"{at} ".encode())]
        assert own == sorted(set(own), key=lambda body: int(body.split()[1])), (seed, at, "order, or twice")


@pytest.mark.parametrize(
    ("steps", "victim"),
    [  # at each step one of them; the others take long
        pytest.param(steps, victim, marks=() if steps % 3 == number else pytest.mark.long)
        for steps in range(0, STEPS, 1 + 3 * IS_PLAIN)
        for number, victim in enumerate((OLD, NEW, THIRD))
    ],
)
def test_nothing_confirmed_is_lost_whoever_is_killed_at_which_step(steps: int, victim: str) -> None:
    one_move(steps, steps, victim)


@pytest.mark.parametrize("steps", range(0, STEPS, 2 + 4 * IS_PLAIN))
def test_nothing_confirmed_is_lost_when_the_homes_lose_each_other(steps: int) -> None:
    one_move(steps, steps, OLD, is_cut=True)


# -- in a cluster ------------------------------------------------------------------------------------------------------


def test_a_queue_moves_from_node_to_node_of_a_cluster() -> None:
    cluster = NodeCluster()
    cluster.run_until_ready()
    clients = {name: driver.client(1) for name, driver in cluster.nodes.items()}
    clients["n2"].send(1, declare("q"), consume("q"))
    cluster.run(500)
    for number in range(50):
        clients["n1"].publish(1, "q", b"%d" % number)
    cluster.run(500)
    assert len([event for event in clients["n2"].take() if event.body]) == 50
    clients["n2"].send(1, methods.BasicAck(0, True))
    service = SystemService(cluster.nodes["n1"])
    service.send("queue.rehome", b'{"vhost": "/", "name": "q", "home": "n3"}')
    for _ in range(200):
        cluster.run(50)
        if service.client.events:
            break
    (answer,) = service.answers()
    assert answer["ok"], answer
    assert answer["home"] == "n3"
    for name, client in clients.items():
        client.publish(1, "q", name.encode())
        cluster.run(300)
    assert [event.body for event in clients["n2"].take() if event.body] == [b"n1", b"n2", b"n3"]
    assert isinstance(cluster.nodes["n3"].queue("q"), ClassicQueue)
    driver = cluster.kill("n3")
    cluster.run(500)
    cluster.revive("n3", driver)
    cluster.run(3000)
    assert cluster.nodes["n3"].queue("q").ready.count == 3


# -- dead letters between workers --------------------------------------------------------------------------------------


def test_a_letter_of_worker_0_is_kept_until_another_worker_has_it(world: MovingWorld) -> None:
    world.declare(THIRD, "source", x_dead_letter_exchange="", x_dead_letter_routing_key="q")
    client = world.client(THIRD, 1)
    client.publish(1, "source", b"letter")
    client.send(1, methods.BasicGet(0, "source", False))
    world.settle()
    world.cut(THIRD, OLD)
    client.send(1, methods.BasicReject(1, False))
    world.run(200)
    world.heal()
    world.run(3000)
    assert world.bodies(OLD, "q") == [b"letter"]

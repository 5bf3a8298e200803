"""Limits of connections are those of the whole node, at whichever of its workers somebody comes in."""

from __future__ import annotations

import pytest

from amqp_broker.metadata import commands
from amqp_broker.protocol import methods
from tests.management.users import add_user, log_in
from tests.node.node_driver import Client
from tests.node.worker_world import WorkerWorld

WORKERS = ("n1", "n1/1", "n1/2")
LIMITS = {
    "user": commands.limit_user("limited", {"max-connections": 4}),
    "vhost": commands.limit_vhost("/", {"max-connections": 4}),
}


def world_with(kind: str) -> WorkerWorld:
    world = WorkerWorld(3)
    add_user(world.nodes["n1"], "limited")
    world.nodes["n1"].node.broker.propose(LIMITS[kind])
    world.settle()
    return world


def is_open(client: Client) -> bool:
    names = [event.method.name for event in client.events]
    assert ("connection.open-ok" in names) != ("connection.close" in names), names
    return "connection.open-ok" in names


@pytest.fixture(params=["user", "vhost"])
def world(request: pytest.FixtureRequest) -> WorkerWorld:
    return world_with(request.param)


def test_one_after_the_other(world: WorkerWorld) -> None:
    clients = []
    for number in range(9):
        clients.append(log_in(world.nodes[WORKERS[number % 3]], "limited"))
        world.run(100)
    assert [is_open(each) for each in clients] == [True] * 4 + [False] * 5
    refusal = clients[-1].events[-1].method
    assert (refusal.reply_code, "connection limit (4) is reached" in refusal.reply_text) == (530, True)
    assert (refusal.class_id, refusal.method_id) == (10, 40)
    world.nodes["n1/1"].lose(clients[1])
    world.run(100)
    later = log_in(world.nodes["n1/2"], "limited")
    world.run(100)
    assert is_open(later)


def test_all_at_once(world: WorkerWorld) -> None:
    """None too many, and none is refused for others that are refused as well."""
    clients = [log_in(world.nodes[WORKERS[number % 3]], "limited") for number in range(15)]
    world.run(3000)
    assert sum(map(is_open, clients)) == 4


def test_who_goes_while_others_are_asked_is_passed_over(world: WorkerWorld) -> None:
    first, second = (log_in(world.nodes["n1/1"], "limited") for _ in range(2))
    world.nodes["n1/1"].lose(first)
    world.run(100)
    assert is_open(second)
    assert world.nodes["n1/1"].node.system.counts.entries.counts("limited", "/").of_user == 1


def test_a_virtual_host_that_is_deleted_meanwhile() -> None:
    world = world_with("vhost")
    client = log_in(world.nodes["n1/1"], "limited")
    world.nodes["n1/1"].node.broker.vhosts.pop("/")
    world.run(100)
    assert client.events[-1].method.reply_text.endswith("vhost / not found")


def test_a_worker_that_is_away_has_no_connections(world: WorkerWorld) -> None:
    world.kill("n1/2")
    clients = [log_in(world.nodes[WORKERS[number % 2]], "limited") for number in range(4)]
    world.run(100)
    assert all(map(is_open, clients))


def test_who_has_no_limit_waits_for_nobody() -> None:
    world = world_with("user")
    add_user(world.nodes["n1"], "free")
    world.settle()
    assert is_open(log_in(world.nodes["n1/1"], "free")), "before any other worker has heard of it"


def test_channels_of_a_user_at_all_workers_count() -> None:
    world = world_with("user")
    world.nodes["n1"].node.broker.propose(commands.limit_user("limited", {"max-channels": 4}))
    world.settle()
    clients = [log_in(world.nodes[name], "limited") for name in WORKERS]
    world.run(100)
    for number, client in enumerate([*clients, clients[0]], 1):
        client.send(number, methods.ChannelOpen(), methods.QueueDeclare(queue=f"q{number}"))
        world.run(200)
        assert client.names()[-2:] == ["channel.open-ok", "queue.declare-ok"], "in order, after the others were asked"
    clients[2].send(9, methods.ChannelOpen())
    world.run(100)
    refusal = clients[2].events[-1].method
    assert (refusal.reply_code, refusal.class_id, refusal.method_id) == (530, 20, 10)
    assert "maximum allowed limit (4)" in refusal.reply_text
    clients[0].send(1, methods.ChannelClose(200, "", 0, 0))
    world.run(100)
    clients[1].send(9, methods.ChannelOpen())
    world.run(100)
    assert clients[1].names()[-1] == "channel.open-ok"


def test_a_client_that_goes_while_its_channel_is_asked_for() -> None:
    world = world_with("user")
    world.nodes["n1"].node.broker.propose(commands.limit_user("limited", {"max-channels": 1}))
    world.settle()
    client = log_in(world.nodes["n1/1"], "limited")
    world.run(100)
    client.send(1, methods.ChannelOpen())
    world.nodes["n1/1"].lose(client)
    world.run(100)
    later = log_in(world.nodes["n1"], "limited")
    later.send(1, methods.ChannelOpen())
    world.run(100)
    assert later.names()[-1] == "channel.open-ok"

"""Limits of connections are those of the whole node, at whichever of its workers somebody comes in."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from amqp_broker.management.access import Asker
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


def entries_at(world: WorkerWorld, name: str) -> Any:
    return world.nodes[name].node.system.counts.entries


def peers_at(world: WorkerWorld, name: str) -> Any:
    return world.nodes[name].node.system._totals._peers


def keep_all_questions_open(world: WorkerWorld, name: str) -> None:
    """A worker has asked each of the others as much as it may."""
    peers = peers_at(world, name)
    nobody = Asker(world.nodes[name].node.broker.metadata, "", ())
    asked = [peers.ask(other, "clients", {}, nobody) for other in WORKERS if other != name for _ in range(70)]
    assert asked[-1].is_done


def count_questions(world: WorkerWorld, name: str) -> list[str]:
    """The verbs that a worker asks others from now on."""
    peers, asked = peers_at(world, name), []
    ask = peers.ask

    def count(node: str, verb: str, *rest: Any) -> Any:
        asked.append(verb)
        return ask(node, verb, *rest)

    peers.ask = count
    return asked


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


# -- many at once ------------------------------------------------------------------------------------------------------


def test_limits_hold_while_as_many_questions_as_may_be_are_open() -> None:
    world = world_with("user")
    world.nodes["n1"].node.broker.propose(commands.limit_user("limited", {"max-connections": 1, "max-channels": 0}))
    world.settle()
    elsewhere = log_in(world.nodes["n1/2"], "limited")
    world.run(100)
    keep_all_questions_open(world, "n1")
    client = log_in(world.nodes["n1"], "limited")
    world.run(100)
    assert [is_open(elsewhere), is_open(client)] == [True, False]


def test_channels_that_many_connections_open_at_once() -> None:
    world = WorkerWorld(3)
    add_user(world.nodes["n1"], "limited")
    world.nodes["n1"].node.broker.propose(commands.limit_user("limited", {"max-channels": 14}))
    world.settle()
    elsewhere = log_in(world.nodes["n1/1"], "limited")
    for number in range(1, 11):
        elsewhere.send(number, methods.ChannelOpen())
    crowds = {name: [log_in(world.nodes[name], "limited") for _ in range(80)] for name in ("n1", "n1/2")}
    world.run(3000)
    keep_all_questions_open(world, "n1")
    asked = count_questions(world, "n1")
    for name in ("n1", "n1/2"):
        for client in crowds[name]:
            client.send(1, methods.ChannelOpen())
    world.run(3000)
    heard = [[event.method.name for event in client.events] for crowd in crowds.values() for client in crowd]
    let_in, refused = (sum(name in names for names in heard) for name in ("channel.open-ok", "connection.close"))
    assert (let_in, refused) == (4, 156)
    assert len(asked) <= 2 * 16, "one question is for all that wait"


def test_a_crowd_of_one_user_is_let_in_on_few_questions() -> None:
    world = WorkerWorld(3)
    add_user(world.nodes["n1"], "limited")
    world.nodes["n1"].node.broker.propose(commands.limit_user("limited", {"max-connections": 250}))
    world.settle()
    crowd = [log_in(world.nodes["n1/2"], "limited") for _ in range(20)]
    world.run(1000)
    asked = count_questions(world, "n1")
    crowd += [log_in(world.nodes["n1"], "limited") for _ in range(300)]
    world.run(1000)
    assert (sum(map(is_open, crowd)), len(crowd)) == (250, 320)
    assert 0 < len(asked) <= 8
    assert entries_at(world, "n1").counts("limited", "/")[:4] == (230, 230, 0, 0), "nobody asks any more"


@pytest.mark.parametrize("every_ms", [1, 60], ids=["links", "slow links"])
def test_crowds_at_all_workers_at_once(every_ms: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """None too many, and none is refused for others that are refused as well: also where all always ask at once."""
    world = world_with("user")
    world.nodes["n1"].node.broker.propose(commands.limit_user("limited", {"max-connections": 100}))
    world.settle()
    crowd = [log_in(world.nodes[WORKERS[number % 3]], "limited") for number in range(300)]
    monkeypatch.setattr(world, "is_stuck", lambda name, target: world.now % every_ms != 0)
    world.run(9000)
    assert sum(map(is_open, crowd)) == 100


def test_many_users_share_a_question() -> None:
    world = world_with("vhost")
    world.nodes["n1"].node.broker.propose(commands.limit_vhost("/", {"max-connections": 30}))
    world.settle()
    names = [f"user{number}" for number in range(60)]
    for name in names:
        add_user(world.nodes["n1"], name)
    world.settle()
    asked = count_questions(world, "n1/1")
    crowd = [log_in(world.nodes["n1/1"], name) for name in names]
    world.run(3000)
    assert sum(map(is_open, crowd)) == 30
    assert 0 < asked.count("entries") <= 2 * 16, "and not one to each of the others for each of them"


# -- on the way from one worker to another -----------------------------------------------------------------------------


def expect(world: WorkerWorld, name: str) -> Any:
    """A worker waits for a connection. Returns where that is known."""
    expected = entries_at(world, name)._expected
    timers, clock = world.nodes[name].node.broker.timers, world.nodes[name].node.broker.clock
    expected.add(b"token", SimpleNamespace(user="limited", vhost="/"), timers.at(clock.now + 60_000, lambda now: None))
    return expected


@pytest.mark.parametrize("asks", ["n1/1", "n1/2"], ids=["where it comes to", "at a third"])
@pytest.mark.parametrize("kind", ["user", "vhost"])
def test_who_may_be_counted_at_two_workers_keeps_nobody_out_for_that(kind: str, asks: str) -> None:
    world = world_with(kind)
    clients = [log_in(world.nodes["n1"], "limited") for _ in range(3)]
    world.run(100)
    expected = expect(world, "n1/1")
    last = log_in(world.nodes[asks], "limited")
    world.run(10)
    expected.take(b"token")
    world.run(500)
    assert all(map(is_open, [*clients, last]))


def test_who_is_on_the_way_and_does_not_arrive_counts_in_the_end() -> None:
    world = world_with("user")
    clients = [log_in(world.nodes["n1"], "limited") for _ in range(3)]
    world.run(100)
    expect(world, "n1/1")
    last = log_in(world.nodes["n1/2"], "limited")
    world.run(3000)
    assert [*map(is_open, [*clients, last])] == [True] * 3 + [False]

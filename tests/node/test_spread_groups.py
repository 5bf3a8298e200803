"""Groups of queues at several workers of a node that is alone: one process has each, the others are its guests."""

from __future__ import annotations

from typing import Any

import pytest

from amqp_broker.connection.steering import HELD_MS
from amqp_broker.flow.steered import WINDOW
from amqp_broker.protocol import methods
from amqp_broker.protocol.fields import Table
from amqp_broker.queue_types.groups.guest_counts import COUNT_MS
from queues.stream.source import StreamSource
from storage.errors import StorageError
from tests.node.node_driver import Client, NodeDriver, declare, small_config
from tests.node.system_service import SystemService
from tests.node.worker_world import WorkerWorld
from tests.queue_types.test_quorum_cluster import CONFIRM, answer, bodies, confirmed, publish

pytestmark = pytest.mark.once

#: By group, from 1 on: the first is worker 1's.
WORKERS = (1, 0)


@pytest.fixture
def world() -> WorkerWorld:
    made = WorkerWorld(2, group_workers=WORKERS, steering="off")
    made.run(500)
    return made


def group(world: WorkerWorld, name: str, group_id: int) -> Any:
    return world.nodes[name].node.groups.all[group_id]


def group_of(world: WorkerWorld, queue: str) -> int:
    record = world.nodes["n1"].node.broker.metadata.queue("/", queue)
    return int(record.queue_id) % len(WORKERS) + 1


def declared(world: WorkerWorld, **arguments: object) -> dict[int, str]:
    """A queue in each group, by the group."""
    found: dict[int, str] = {}
    client = world.client("n1", 1)
    for number in range(len(WORKERS)):
        answer(world, client, declare(f"q{number}", **arguments))
        found[group_of(world, f"q{number}")] = f"q{number}"
    assert sorted(found) == [1, 2]
    return found


def confirming(world: WorkerWorld, at: str) -> Client:
    client = world.client(at, 1)
    answer(world, client, CONFIRM)
    return client


def test_one_process_has_each_group_and_the_other_is_its_guest(world: WorkerWorld) -> None:
    for group_id, worker in enumerate(WORKERS, 1):
        here, other = (world.names[worker], world.names[1 - worker])
        assert group(world, here, group_id).raft.is_leader
        assert group(world, here, group_id).raft.members == ("n1",), "a voter is a host"
        assert group(world, here, group_id).guest is None
        assert group(world, other, group_id).raft.is_outside
        assert group(world, other, group_id).guest is not None
        for name in world.names:
            assert group(world, name, group_id).leader == here
            assert group(world, name, group_id).members() == (here,)


@pytest.mark.parametrize("kind", ["quorum", "stream"])
@pytest.mark.parametrize("at", ["n1", "n1/1"])
def test_clients_of_each_worker_use_the_queues_of_each_group(world: WorkerWorld, kind: str, at: str) -> None:
    for queue in declared(world, x_queue_type=kind).values():
        client = confirming(world, at)
        publish(client, b"one", b"two", key=queue)
        world.run(300)
        assert confirmed(client) == 2
        reader = world.client(at, 1)
        arguments = {"x_stream_offset": "first"} if kind == "stream" else {}
        read(reader, queue, **arguments)
        world.run(500)
        assert bodies(reader) == [b"one", b"two"]


@pytest.mark.parametrize("kind", ["quorum", "stream"])
@pytest.mark.parametrize("at", ["n1", "n1/1"])
def test_who_consumes_moves_to_the_worker_that_leads_the_group(kind: str, at: str) -> None:
    """Before the queue is touched, and though others publish all the time."""
    world = WorkerWorld(2, group_workers=WORKERS)
    world.run(500)
    queues = declared(world, x_queue_type=kind)
    client = confirming(world, at)
    for queue in queues.values():
        publish(client, b"one", b"two", key=queue)
    world.run(300)
    for group_id, queue in queues.items():
        reader = world.client(at, 1)
        read(reader, queue, **({"x_stream_offset": "first"} if kind == "stream" else {}))
        for _ in range(HELD_MS + 10):
            for other in queues.values():
                publish(client, b"more", key=other)
            world.run(1)
        world.run(500)
        assert bodies(reader)[:2] == [b"one", b"two"]
        home = group(world, "n1", group_id).leader
        assert reader.connection in world.nodes[home].node.clients.connections.values()


@pytest.mark.parametrize("kind", ["quorum", "stream"])
@pytest.mark.parametrize("at", ["n1", "n1/1"])
@pytest.mark.parametrize("is_confirming", [False, True])
def test_who_publishes_moves_to_the_worker_that_leads_the_group(kind: str, at: str, is_confirming: bool) -> None:
    """Though others publish all the time: what it has said itself has to have come to the log, and no more."""
    world = WorkerWorld(2, group_workers=WORKERS)
    world.run(500)
    queues = declared(world, x_queue_type=kind)
    other = world.client(at, 1)
    other.connection.stay()
    for group_id, queue in queues.items():
        client = confirming(world, at) if is_confirming else world.client(at, 1)
        for number in range(3 * WINDOW):
            publish(client, b"%d" % number, key=queue)
            for each in queues.values():
                other.publish(1, each, b"more")
            world.step()
        world.run(500)
        assert world.where(client) == group(world, "n1", group_id).leader
        if is_confirming:
            assert confirmed(client) == 3 * WINDOW
        world.nodes[world.where(client)].lose(client)
        reader = world.client(at, 1)
        read(reader, queue, 1000, **({"x_stream_offset": "first"} if kind == "stream" else {}))
        world.run(500)
        found = [body for body in bodies(reader) if body != b"more"]
        assert found == [b"%d" % number for number in range(3 * WINDOW)]
        world.nodes[world.where(reader)].lose(reader)


@pytest.mark.parametrize("workers", [WORKERS, ()])
def test_who_publishes_to_groups_of_two_workers_stays_and_where_none_are_spread(workers: tuple[int, ...]) -> None:
    """Were all groups worker 0's, it would have all the work."""
    world = WorkerWorld(2, group_workers=workers)
    world.run(500)
    queues = declared(world, x_queue_type="quorum")
    at = "n1" if workers else "n1/1"
    client = world.client(at, 1)
    for number in range(3 * WINDOW):
        publish(client, b"%d" % number, key=queues[1 + number % 2])
        world.step()
    world.run(500)
    assert world.where(client) == at


@pytest.mark.parametrize("killed", ["n1", "n1/1"])
def test_what_was_confirmed_outlives_the_worker_that_has_it(world: WorkerWorld, killed: str) -> None:
    """It is published at the other one, before and while that is away: once each."""
    queues = declared(world, x_queue_type="quorum")
    other = next(name for name in world.names if name != killed)
    client = confirming(world, other)
    for queue in queues.values():
        publish(client, b"before", key=queue)
    world.run(300)
    down = world.kill(killed)
    world.run(100)
    for queue in queues.values():
        publish(client, b"meanwhile", key=queue)
    world.run(300)
    own = queues[next(number for number, worker in enumerate(WORKERS, 1) if world.names[worker] == other)]
    assert message_count(world, other, own) == 2, "its own groups go on"
    world.revive(killed, down)
    world.run(3000)
    for queue in queues.values():
        for name in world.names:
            reader = world.client(name, 1)
            read(reader, queue)
            world.run(500)
            assert bodies(reader) == [b"before", b"meanwhile"]
            world.nodes[name].lose(reader)
            world.run(500)


def message_count(world: WorkerWorld, at: str, queue: str) -> int:
    return int(world.nodes[at].node.broker.vhosts["/"].queues[queue].message_count())


def read(client: Client, queue: str, prefetch: int = 10, **arguments: object) -> None:
    """Consume, so many at a time."""
    table = Table({key.replace("_", "-"): value for key, value in arguments.items()})
    consume = methods.BasicConsume(0, queue, "", False, False, False, False, table)
    client.send(1, methods.BasicQos(0, prefetch, False), consume)


@pytest.mark.parametrize("at", ["n1", "n1/1"])
def test_queues_of_one_client_are_in_groups_of_all_workers(world: WorkerWorld, at: str) -> None:
    client = world.client(at, 1)
    queues = [f"q{number}" for number in range(6)]
    for queue in queues:
        answer(world, client, declare(queue, x_queue_type="quorum", x_queue_leader_locator="client-local"))
    groups = [group_of(world, queue) for queue in queues]
    assert groups.count(1) == groups.count(2)


@pytest.mark.parametrize("locator", ["client-local", "balanced"])
def test_queues_are_in_all_groups_while_nobody_is_known_to_lead_some(world: WorkerWorld, locator: str) -> None:
    """As right after a start: a queue stays in its group for good."""
    down = world.kill("n1/1")
    world.revive("n1/1", down)
    assert group(world, "n1", 1).leader is None
    client = world.client("n1", 1)
    queues = [f"q{number}" for number in range(6)]
    for queue in queues:
        client.send(1, declare(queue, x_queue_type="quorum", x_queue_leader_locator=locator))
    world.run(3000)
    assert client.names() == ["queue.declare-ok"] * len(queues)
    groups = [group_of(world, queue) for queue in queues]
    assert groups.count(1) == groups.count(2)


def test_a_queue_is_not_said_to_be_empty_before_who_leads_it_was_found(world: WorkerWorld) -> None:
    """As a client asks that comes back right after a start. In vain, it waits once: nobody else does."""
    queue = declared(world, x_queue_type="quorum")[1]
    client = confirming(world, "n1")
    publish(client, b"one", b"two", key=queue)
    world.run(300)
    assert confirmed(client) == 2
    world.revive("n1", world.kill("n1"))
    assert group(world, "n1", 1).leader is None
    assert told_count(world, queue, COUNT_MS) == 2
    world.revive("n1", world.kill("n1"))
    world.cut("n1", "n1/1")
    assert told_count(world, queue, COUNT_MS + 100) == 0, "in vain"
    assert told_count(world, queue, 20) == 0, "at once"
    world.heal()
    world.run(4000)
    assert told_count(world, queue, 300) == 2


def told_count(world: WorkerWorld, queue: str, within_ms: int) -> int:
    """As a passive declaration at worker 0 says within this time."""
    client = world.client("n1", 1)
    client.send(1, methods.QueueDeclare(0, queue, True, False, False, False, False, Table({})))
    world.run(within_ms)
    (said,) = client.take()
    return int(said.method.message_count)


def test_the_status_says_who_has_a_group_and_what_that_one_says_of_it(world: WorkerWorld) -> None:
    declared(world, x_queue_type="quorum")
    world.run(300)
    service = SystemService(world.nodes["n1"])
    service.send("cluster.status", b"{}")
    world.run(300)
    (answered,) = service.answers()
    rows = answered["groups"]
    assert [(row["group"], row["worker"], row["role"], row["leader"]) for row in rows] == [
        (0, 0, "leader", "n1"), (1, 1, "leader", "n1"), (2, 0, "leader", "n1"),
    ]  # fmt: skip
    assert all(row["applied_index"] > 0 for row in rows)


def test_a_log_is_where_the_folder_says_and_nowhere_else(world: WorkerWorld) -> None:
    """A file WORKERS that is another one's is found out before anybody votes."""
    down = world.kill("n1/1")
    with pytest.raises(StorageError, match=r"has the log of group 1 .* another worker has it"):
        restarted(down, group_workers=(0, 1))


def test_a_log_that_nobody_has_is_said(world: WorkerWorld) -> None:
    down = world.kill("n1")
    with pytest.raises(StorageError, match=r"no log of group 1 .* no other worker has it"):
        restarted(down, group_workers=())


def restarted(driver: NodeDriver, **settings: object) -> None:
    config = driver.config
    names = ("node_name", "worker", "workers", "worker_processes", "queue_groups")
    driver.config = small_config(**{name: getattr(config, name) for name in names}, **settings)
    driver.start()


def test_an_old_folder_has_all_groups_at_worker_0() -> None:
    world = WorkerWorld(2)
    world.run(500)
    for group_id in (1, 2):
        assert group(world, "n1", group_id).raft.is_leader
        assert group(world, "n1/1", group_id).leader == "n1"


def test_all_that_have_a_compacted_stream_agree_how_far_it_is(world: WorkerWorld) -> None:
    """So its tombstones go at last, whichever worker has it."""
    for group_id, queue in declared(world, x_queue_type="stream", x_stream_compact=True).items():
        client = confirming(world, "n1")
        publish(client, b"one", b"two", key=queue)
        world.run(300)
        here = world.names[WORKERS[group_id - 1]]
        source = world.nodes[here].node.broker.vhosts["/"].queues[queue].capability(StreamSource)
        source.compact(lambda *_: None)
        world.run(5000)
        found = source.figures().compaction
        assert (found.below, found.agreed) == (2, 2), here

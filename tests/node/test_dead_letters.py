"""Dead letters in slices: what falls between two of them, and letters to another node."""

from __future__ import annotations

from typing import Any

import pytest

from amqp_broker.metadata import commands
from amqp_broker.protocol import methods
from amqp_broker.protocol.fields import Table
from amqp_broker.protocol.frames import encode_method_frame
from amqp_broker.protocol.properties import encode_properties
from queues.letters import MOST_NOTED, MOST_PUBLISHED
from tests.node.node_cluster import NodeCluster
from tests.node.node_driver import Client, NodeDriver, consume, declare, frame_octets
from tests.node.worker_world import WorkerWorld

MANY = 200
DEAD = {"x_dead_letter_exchange": "amq.fanout"}
TO_DEAD = {"x_dead_letter_exchange": "", "x_dead_letter_routing_key": "dead"}


class OneSlice:
    """A pace of one slice a turn."""

    def start(self) -> None:
        """The turn's first slice begins."""

    def goes_on(self) -> bool:
        return False


def slow_driver() -> tuple[NodeDriver, Client]:
    driver = NodeDriver()
    driver.node.background.set_pace(OneSlice())
    return driver, driver.client(1)


def publish(client: Client, queue: str, *bodies: bytes, **properties: object) -> None:
    section = encode_properties({"delivery_mode": 2, **properties})
    octets = b""
    for body in bodies:
        octets += encode_method_frame(1, methods.BasicPublish(0, "", queue, False, False))
        octets += frame_octets(2, 1, b"\x00\x3c\x00\x00" + len(body).to_bytes(8, "big") + section)
        octets += frame_octets(3, 1, body)
    client.send_octets(octets)


def numbers(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def finish(driver: NodeDriver) -> None:
    """Turns and syncs until nobody waits, and nothing is left to do in slices."""
    for _ in range(5000):
        driver.turn()
        job = driver.node.take_sync()
        if job is not None:
            driver.synced(job)
        elif not driver.node.background.jobs:
            return
    raise AssertionError("the node does not come to rest")


def refuse_all(driver: NodeDriver, client: Client, count: int = MANY) -> None:
    """A client holds everything in `source`, and rejects it in one method."""
    client.send(1, declare("dead"), declare("source", **TO_DEAD), consume("source"))
    driver.settle()
    publish(client, "source", *numbers(count))
    driver.settle()
    client.take()
    client.send(1, methods.BasicNack(0, True, False))


def is_between(driver: NodeDriver) -> bool:
    return 0 < driver.queue("dead").message_count() < MANY


def test_a_queue_that_is_deleted_has_refused_what_it_has_refused() -> None:
    driver, client = slow_driver()
    refuse_all(driver, client)
    driver.turn()
    assert is_between(driver)
    client.send(1, methods.QueueDelete(0, "source", False, False, False))
    finish(driver)
    assert driver.queue("dead").message_count() == MANY
    driver.crash()
    assert driver.queue("dead").message_count() == MANY
    assert "source" not in driver.node.broker.vhosts["/"].queues


def test_letters_go_where_the_policy_says_when_they_are_posted() -> None:
    driver, client = slow_driver()
    policy = {"dead-letter-exchange": "", "dead-letter-routing-key": "dead"}
    driver.node.broker.propose(commands.set_policy("/", "p", pattern="^source$", definition=policy))
    finish(driver)
    client.send(1, declare("dead"), declare("other"), declare("source"), consume("source"))
    driver.settle()
    publish(client, "source", *numbers(MANY))
    driver.settle()
    client.send(1, methods.BasicNack(0, True, False))
    driver.turn()
    assert is_between(driver)
    policy["dead-letter-routing-key"] = "other"
    driver.node.broker.propose(commands.set_policy("/", "p", pattern="^source$", definition=policy))
    finish(driver)
    counts = [driver.queue(name).message_count() for name in ("dead", "other")]
    assert sum(counts) == MANY
    assert min(counts) > 0


def test_an_exchange_that_goes_takes_the_rest_with_it() -> None:
    driver, client = slow_driver()
    client.send(
        1,
        methods.ExchangeDeclare(0, "dlx", "fanout", False, True, False, False, False, Table({})),
        declare("dead"),
        methods.QueueBind(0, "dead", "dlx", "", False, Table({})),
        declare("source", x_dead_letter_exchange="dlx"),
        consume("source"),
    )
    driver.settle()
    publish(client, "source", *numbers(MANY))
    driver.settle()
    client.send(1, methods.BasicNack(0, True, False))
    driver.turn()
    assert is_between(driver)
    client.send(1, methods.ExchangeDelete(0, "dlx", False, False))
    finish(driver)
    assert is_between(driver)
    assert driver.queue("source").letters.count == 0
    driver.crash()
    assert driver.queue("source").message_count() == 0


def test_a_virtual_host_that_goes_takes_the_rest_with_it() -> None:
    driver, client = slow_driver()
    refuse_all(driver, client)
    source = driver.queue("source")
    driver.turn()
    assert source.letters.count > 0
    driver.node.broker.propose(commands.delete_vhost("/"))
    finish(driver)
    assert source.letters.count == 0
    assert not driver.node.background.jobs
    assert driver.node.store.pager.used == 0


@pytest.mark.parametrize("turns", range(1, 6))
def test_a_crash_between_two_slices(turns: int) -> None:
    """On a node alone each message is in one place, and once."""
    driver, client = slow_driver()
    refuse_all(driver, client)
    for _ in range(turns):
        driver.turn()
        driver.synced(driver.take_sync())
    assert is_between(driver)
    driver.crash()
    counts = [driver.queue(name).message_count() for name in ("dead", "source")]
    assert sum(counts) == MANY
    assert counts[0] > 0


def test_a_commit_is_answered_when_what_it_refuses_is_in_its_new_place() -> None:
    driver, client = slow_driver()
    client.send(1, methods.TxSelect())
    refuse_all(driver, client, 0)
    publish(client, "source", *numbers(MANY))
    client.send(1, methods.TxCommit())
    driver.settle()
    client.take()
    client.send(1, methods.BasicNack(0, True, False), methods.TxCommit())
    driver.turn()
    assert is_between(driver)
    for _ in range(100):
        if "tx.commit-ok" in client.names():
            break
        turn = driver.turn()
        if turn.wants_sync:
            driver.synced(driver.take_sync())
    driver.crash()
    assert [driver.queue(name).message_count() for name in ("dead", "source")] == [MANY, 0]


def test_what_a_full_queue_has_refused_is_a_dead_letter_in_the_same_turn() -> None:
    """Whatever else there is to do in slices: nobody has another copy of it."""
    driver, client = slow_driver()
    to_kept: dict[str, object] = {"x_dead_letter_exchange": "", "x_dead_letter_routing_key": "kept"}
    client.send(1, declare("kept"), declare("full", x_max_length=0, x_overflow="reject-publish-dlx", **to_kept))
    other = driver.client(1)
    other.send(1, methods.ConfirmSelect(False))
    finish(driver)
    refuse_all(driver, client)
    publish(other, "full", b"refused")
    driver.turn()
    assert "basic.nack" in other.names()
    driver.synced(driver.take_sync())
    assert is_between(driver)
    driver.crash()
    assert driver.queue("kept").message_count() == 1


def test_a_get_waits_for_what_stands_behind_expired_messages() -> None:
    driver, client = slow_driver()
    client.send(1, declare("dead"), declare("source", **TO_DEAD))
    driver.settle()
    publish(client, "source", *numbers(MANY), expiration="1000")
    publish(client, "source", b"lives")
    driver.settle()
    client.take()
    driver.now += 2000
    driver.node.tick(driver.now)
    client.send(1, methods.BasicGet(0, "source", True), methods.BasicGet(0, "source", True))
    driver.turn()
    assert client.take() == []
    finish(driver)
    events = client.take()
    assert [event.method.name for event in events] == ["basic.get-ok", "basic.get-empty"]
    assert [event.body for event in events[:1]] == [b"lives"]
    assert driver.queue("dead").message_count() == MANY


def test_a_consumer_gets_nothing_that_has_expired() -> None:
    driver, client = slow_driver()
    client.send(1, declare("dead"), declare("source", **TO_DEAD))
    driver.settle()
    publish(client, "source", *numbers(MANY), expiration="1000")
    publish(client, "source", b"lives")
    driver.settle()
    driver.now += 2000
    client.take()
    client.send(1, consume("source"))
    finish(driver)
    delivered = [event.body for event in client.take() if event.method.name == "basic.deliver"]
    assert delivered == [b"lives"]


def test_who_makes_too_many_letters_waits() -> None:
    """Publishers of the node do until they are fewer, and the queue keeps to its limit."""
    driver, client = slow_driver()
    client.send(1, declare("dead"), declare("source", **TO_DEAD, x_max_length=0), declare("other"))
    driver.settle()
    publish(client, "source", *numbers(MOST_PUBLISHED + 500))
    driver.turn()
    assert driver.queue("source").message_count() == 0
    other = driver.client(1)
    other.send(1, consume("other"))
    driver.turn()
    other.take()
    publish(other, "other", b"last")
    driver.turn()
    assert other.connection.is_paused
    assert other.take() == []
    finish(driver)
    assert not other.connection.is_paused
    assert [event.body for event in other.take() if event.method.name == "basic.deliver"] == [b"last"]
    assert driver.queue("dead").message_count() == MOST_PUBLISHED + 500
    assert driver.node.broker.dead_letters.backlog == 0


def test_who_refuses_too_much_gets_no_more_for_now() -> None:
    """Its queue delivers nothing until there are fewer letters; others publish."""
    driver, client = slow_driver()
    refuse_all(driver, client, MOST_NOTED + 4000)
    driver.turn()
    for _ in range(2000):  # the client has got only as much as there was room for
        if driver.queue("source").letters.is_full:
            break
        if not client.connection.is_parked:
            driver.node.writable(client.connection, driver.now)
            client.send(1, methods.BasicNack(0, True, False))
        driver.turn()
    else:
        pytest.fail("the client never held so many")
    client.take()
    other = driver.client(1)
    publish(other, "source", b"last")
    driver.turn()
    assert client.take() == []
    assert not other.connection.is_paused
    finish(driver)
    assert [event.body for event in client.take() if event.method.name == "basic.deliver"] == [b"last"]
    assert driver.queue("dead").message_count() == MOST_NOTED + 4000


# -- other nodes -------------------------------------------------------------------------------------------------------


def cluster_with_letters(kind: dict[str, Any]) -> tuple[NodeCluster, Client]:
    """The queue `source` on n2, with many deliveries that a client is going to refuse, and `far` elsewhere."""
    cluster = NodeCluster()
    cluster.run_until_ready()
    to_far = {"x_dead_letter_exchange": "", "x_dead_letter_routing_key": "far"}
    cluster.nodes["n3"].client(1).send(1, declare("far", **kind))
    cluster.run(300)
    client = cluster.nodes["n2"].client(1)
    client.send(1, declare("source", **to_far), consume("source"))
    cluster.run(300)
    publish(client, "source", *numbers(30))
    cluster.run(300)
    client.take()
    return cluster, client


def drained(cluster: NodeCluster) -> set[bytes]:
    """What is in `far`; some of it may be there twice."""
    reader = cluster.nodes["n3"].client(1)
    reader.send(1, consume("far", no_ack=True))
    cluster.run(1000)
    return {event.body for event in reader.take() if event.method.name == "basic.deliver"}


@pytest.mark.parametrize("steps", range(5))
@pytest.mark.parametrize("kind", [{}, {"x_queue_type": "quorum"}], ids=["classic", "quorum"])
def test_a_link_that_ends_loses_no_letter(kind: dict[str, Any], steps: int) -> None:
    cluster, client = cluster_with_letters(kind)
    client.send(1, methods.BasicNack(0, True, False))
    for _ in range(steps):
        cluster.step()
    cluster.isolate("n2")
    cluster.run(1500)
    cluster.heal()
    cluster.run(4000)
    assert drained(cluster) == set(numbers(30))
    source = cluster.nodes["n2"].queue("source")
    assert (source.letters.count, source.message_count(), source.held) == (0, 0, {})


@pytest.mark.parametrize("steps", range(5))
def test_a_source_that_crashes_loses_no_letter(steps: int) -> None:
    cluster, client = cluster_with_letters({})
    client.send(1, methods.BasicNack(0, True, False))
    for _ in range(steps):
        cluster.step()
    cluster.revive("n2", cluster.kill("n2"))
    cluster.run(4000)
    client = cluster.nodes["n2"].client(1)
    client.send(1, consume("source"))
    cluster.run(300)
    client.send(1, methods.BasicNack(0, True, False))
    cluster.run(2000)
    assert drained(cluster) == set(numbers(30))


def test_a_home_that_stays_away_holds_up_a_bounded_number() -> None:
    """What finds no room on the way stays in the source, and goes when the home is back."""
    cluster, client = cluster_with_letters({})
    cluster.isolate("n3")
    for start in range(0, 2000, 400):
        publish(client, "source", *[b"more %d" % number for number in range(start, start + 400)])
        cluster.run(20)
        client.send(1, methods.BasicNack(0, True, False))
    cluster.run(500)
    letters = cluster.nodes["n2"].queue("source").letters
    assert letters.is_blocked
    assert letters.count == 2030
    assert cluster.nodes["n2"].node.broker.dead_letters.backlog == 0
    assert not cluster.nodes["n2"].node.background.jobs
    cluster.heal()
    cluster.run(6000)
    assert letters.count == 0
    assert len(drained(cluster)) == 2030


def test_who_rejects_a_message_and_looks_for_its_letter_finds_it() -> None:
    """Both arrive together, and other work is under way."""
    driver = NodeDriver()
    client = driver.client(1)
    client.send(1, declare("dead", durable=False), declare("q", durable=False, **TO_DEAD), consume("q"))
    driver.settle()
    for _ in range(3):
        client.publish(1, "q", b"x", persistent=False)
    driver.settle()
    client.take()
    driver.node.background.set_pace(OneSlice())
    for _ in range(3):
        driver.node.background.add(lambda now: True)
    get = methods.BasicGet(0, "dead", True)
    reject = methods.BasicReject
    client.send(1, reject(1, False), get, reject(2, False), get, reject(3, False), get, get)
    driver.turn()
    assert client.names() == ["basic.get-ok"] * 3 + ["basic.get-empty"]


def test_who_looks_for_a_letter_at_another_worker_finds_it() -> None:
    """What is posted comes before what is asked, on the same link."""
    world = WorkerWorld(2, steering="off")
    world.declare("n1/1", "dead")
    world.declare("n1", "q", **TO_DEAD)
    client = world.client("n1", 1)
    client.send(1, consume("q"))
    for body in numbers(3):
        client.publish(1, "q", body)
    world.settle()
    client.take()
    get = methods.BasicGet(0, "dead", True)
    client.send(1, *[each for tag in (1, 2, 3) for each in (methods.BasicReject(tag, False), get)], get)
    world.settle()
    assert client.names() == ["basic.get-ok"] * 3 + ["basic.get-empty"]


def test_who_looks_for_a_letter_in_a_quorum_queue_finds_it() -> None:
    """What is posted comes before what is asked, in the same log."""
    driver = NodeDriver()
    client = driver.client(1)
    client.send(1, declare("dead", x_queue_type="quorum"), declare("q", **TO_DEAD), consume("q"))
    driver.settle()
    client.publish(1, "q", b"x")
    driver.settle()
    client.take()
    client.send(1, methods.BasicReject(1, False), methods.BasicGet(0, "dead", True))
    driver.settle()
    assert client.names() == ["basic.get-ok"]


def test_letters_wait_for_the_workers_that_start_behind_the_one_that_leads() -> None:
    """They were lost on their way, and came a second later, behind those that were due after them."""
    world = WorkerWorld(2, steering="off")
    world.declare("n1/1", "dead")
    client = world.client("n1", 1)
    client.send(1, declare("source", x_queue_type="quorum", **TO_DEAD))
    world.settle(30)
    publish(client, "source", b"first", expiration="100")
    publish(client, "source", b"second", expiration="1000")
    world.settle()
    other = world.kill("n1/1")
    world.nodes["n1"].crash()
    world.run(700)
    world.revive("n1/1", other)
    world.run_until_ready()
    world.run(2500)
    assert world.bodies("n1/1", "dead") == [b"first", b"second"]


def test_letters_do_not_wait_for_a_worker_that_does_not_start() -> None:
    world = WorkerWorld(2, steering="off")
    client = world.client("n1", 1)
    world.declare("n1", "dead")
    client.send(1, declare("source", x_queue_type="quorum", **TO_DEAD))
    world.settle(30)
    publish(client, "source", b"first", expiration="100")
    world.settle()
    world.kill("n1/1")
    world.nodes["n1"].crash()
    world.run(6000)
    assert world.bodies("n1", "dead") == [b"first"]

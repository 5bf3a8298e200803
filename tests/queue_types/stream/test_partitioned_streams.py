"""Partitioned streams of one node: which messages go where, who reads which partition, what comes and goes together."""

from __future__ import annotations

import pytest

from amqp_broker.metadata import commands
from amqp_broker.protocol import methods
from amqp_broker.protocol.fields import Table
from amqp_broker.protocol.frames import encode_method_frame
from amqp_broker.protocol.properties import decode_properties, encode_properties
from amqp_broker.vhosts.partitioning import grow
from queues.stream.murmur import partition_of
from tests.node.node_driver import Client, NodeDriver, frame_octets
from tests.queue_types.stream.test_streams_of_a_node import consume, declare, qos

HANDOVER_MS = 5_000
Got = tuple[int, int, bytes]


@pytest.fixture
def driver() -> NodeDriver:
    return NodeDriver()


def a_client(driver: NodeDriver, prefetch: int = 100) -> Client:
    client = driver.client(1)
    client.send(1, qos(prefetch))
    driver.settle()
    client.take()
    return client


def a_stream(driver: NodeDriver, partitions: int = 3, **arguments: object) -> Client:
    client = a_client(driver)
    client.send(1, declare(x_stream_partitions=partitions, **arguments))
    driver.settle()
    assert "queue.declare-ok" in client.names()
    return client


def fill(driver: NodeDriver, client: Client, *keys: str, exchange: str = "amq.fanout", **headers: object) -> None:
    """Messages whose bodies are their keys."""
    for key in keys:
        body = key.encode()
        section = encode_properties({"headers": Table(headers)} if headers else {})
        octets = encode_method_frame(1, methods.BasicPublish(0, exchange, key, False, False))
        octets += frame_octets(2, 1, b"\x00\x3c\x00\x00" + len(body).to_bytes(8, "big") + section)
        client.send_octets(octets + frame_octets(3, 1, body))
    driver.settle()


def bind(driver: NodeDriver, client: Client, name: str = "s", exchange: str = "amq.fanout", key: str = "") -> None:
    client.send(1, methods.QueueBind(0, name, exchange, key, False, Table({})))
    driver.settle()


def join(driver: NodeDriver, client: Client, group: str = "g", tag: str = "tag", **arguments: object) -> None:
    client.send(1, consume(tag=tag, x_stream_group=group, **arguments))
    driver.settle()


def delivered(client: Client) -> list[Got]:
    """Partition, offset and body of what has come."""
    found = []
    for event in client.take():
        assert event.method.name not in ("channel.close", "connection.close"), event.method
        if event.method.name == "basic.deliver":
            headers = decode_properties(event.properties).headers
            assert headers is not None
            found.append((headers["x-stream-partition"], headers["x-stream-offset"], event.body))
    return found


def refused(client: Client) -> tuple[int, str]:
    (close,) = [event.method for event in client.take() if event.method.name.endswith(".close")]
    return close.reply_code, close.reply_text


def bodies(driver: NodeDriver, name: str) -> list[bytes]:
    reader = a_client(driver, 1000)
    reader.send(1, consume(name))
    driver.settle()
    return [event.body for event in reader.take() if event.method.name == "basic.deliver"]


def share(driver: NodeDriver, group: str = "g") -> list[int]:
    """Who has which partition, by the order in which they came."""
    found = driver.queue("s-0").stream().shares.get(group)
    return [found.members.index(owner) for owner in found.owners]


# -- publishing


def test_messages_go_to_the_partition_of_their_key(driver: NodeDriver) -> None:
    """Whatever the exchange, each message to one partition, in order; confirmed like any."""
    client = a_stream(driver)
    bind(driver, client)
    client.send(1, methods.ConfirmSelect(False))
    keys = [f"customer-{number % 10}" for number in range(40)]
    fill(driver, client, *keys)
    assert "basic.ack" in client.names()
    for number in range(3):
        wanted = [key.encode() for key in keys if partition_of(key.encode(), 3) == number]
        assert bodies(driver, f"s-{number}") == wanted
    assert driver.queue("s").message_count() == 40


def test_a_header_is_the_key_before_the_routing_key(driver: NodeDriver) -> None:
    client = a_stream(driver)
    bind(driver, client)
    fill(driver, client, *"abcdef", **{"x-stream-key": "hello4"})
    fill(driver, client, "s", "s", exchange="", **{"x-stream-key": 17})
    assert bodies(driver, "s-2").count(b"a") == 1
    assert len(bodies(driver, "s-2")) >= 6
    assert bodies(driver, f"s-{partition_of(b'17', 3)}")[-2:] == [b"s", b"s"]


def test_without_a_key_they_go_in_turns(driver: NodeDriver) -> None:
    """The default exchange says nothing but the queue's name; a producer's numbers need one place."""
    client = a_stream(driver)
    fill(driver, client, *["s"] * 6, exchange="")
    assert [len(bodies(driver, f"s-{number}")) for number in range(3)] == [2, 2, 2]
    for sequence in (0, 1, 1, 0, 2):
        fill(driver, client, "s", exchange="", **{"x-producer-id": "p", "x-producer-sequence": sequence})
    assert driver.queue("s").message_count() == 9


# -- declaring and deleting


def test_it_is_declared_again_as_it_was(driver: NodeDriver) -> None:
    client = a_stream(driver)
    client.send(1, declare(x_stream_partitions=3), declare("s-1"))
    driver.settle()
    assert [name for name in client.names() if name == "queue.declare-ok"]
    client.send(1, declare(x_stream_partitions=4))
    driver.settle()
    assert refused(client) == (
        406,
        "PRECONDITION_FAILED - inequivalent arg 'x-stream-partitions' for queue 's' in vhost '/': received '4' but "
        "current is '3'",
    )


@pytest.mark.parametrize("value", [0, -1, 10_001, "3", True, None])
def test_wrong_numbers_of_partitions(driver: NodeDriver, value: object) -> None:
    client = a_client(driver)
    client.send(1, declare(x_stream_partitions=value))
    driver.settle()
    assert refused(client)[0] == 406


def test_limits_and_names_that_are_taken(driver: NodeDriver) -> None:
    for method, text in (
        (declare(x_stream_partitions=257), "cannot have 257 partitions: this node's limit is 256"),
        (declare("taken", x_stream_partitions=2), "cannot have 2 partitions: there is a queue 'taken-1' already"),
        (declare("n" * 254, x_stream_partitions=2), "names of partitions would be longer than 255 octets"),
    ):
        client = a_client(driver)
        client.send(1, declare("taken-1"), method)
        driver.settle()
        code, said = refused(client)
        assert code == 406
        assert text in said


def test_partitions_go_with_the_whole(driver: NodeDriver) -> None:
    client = a_stream(driver)
    fill(driver, client, *["s"] * 6, exchange="")
    other = a_client(driver)
    other.send(1, methods.QueueDelete(0, "s-1", False, False, False))
    driver.settle()
    assert refused(other) == (
        406,
        "PRECONDITION_FAILED - queue 's-1' in vhost '/' is a partition of 's', and goes with it: delete that one",
    )
    reader = a_client(driver)
    join(driver, reader)
    client.send(1, methods.QueueDelete(0, "s", False, False, False))
    driver.settle()
    assert "queue.delete-ok" in client.names()
    assert not [name for name in driver.node.broker.vhosts["/"].queues if name.startswith("s")]
    assert not driver.node.broker.metadata.queues("/")
    client.send(1, declare(x_stream_partitions=2))
    driver.settle()
    assert driver.queue("s").message_count() == 0
    assert len(driver.queue("s").partitions()) == 2
    fill(driver, client, *["s"] * 6, exchange="")
    assert [len(bodies(driver, f"s-{number}")) for number in range(2)] == [3, 3]


def test_it_outlives_a_crash(driver: NodeDriver) -> None:
    client = a_stream(driver, x_max_length_bytes=1_000_000)
    client.send(1, methods.ConfirmSelect(False))
    fill(driver, client, *["s"] * 6, exchange="")
    reader = a_client(driver)
    join(driver, reader)
    assert len(delivered(reader)) == 6
    reader.send(1, methods.BasicAck(0, True))
    driver.settle()
    driver.wait(200)
    driver.crash()
    assert driver.queue("s").message_count() == 6
    assert driver.queue("s-1").wanted.max_length_bytes == 1_000_000
    reader, client = a_client(driver), a_client(driver)
    join(driver, reader)
    assert delivered(reader) == []
    fill(driver, client, *["s"] * 3, exchange="")
    assert sorted(delivered(reader)) == [(number, 2, b"s") for number in range(3)]


# -- groups


def test_reading_all_of_it_takes_a_group(driver: NodeDriver) -> None:
    client = a_stream(driver)
    client.send(1, consume())
    driver.settle()
    assert refused(client) == (
        406,
        "PRECONDITION_FAILED - queue 's' in vhost '/' has 3 partitions: consume it with the argument x-stream-group, a "
        "name of those who read it together, or read a partition alone: 's-0' to 's-2'",
    )
    reader = a_client(driver)
    reader.send(1, consume("s-0", x_stream_group="x"))
    driver.settle()
    assert "basic.consume-ok" in reader.names()


@pytest.mark.parametrize("method", [methods.BasicGet(0, "s", False), methods.QueuePurge(0, "s", False)], ids=repr)
def test_what_streams_do_not_do(driver: NodeDriver, method: object) -> None:
    client = a_stream(driver)
    client.send(1, method)
    driver.settle()
    assert refused(client)[0] == 540


def test_members_share_the_partitions(driver: NodeDriver) -> None:
    client = a_stream(driver, 5)
    readers = [a_client(driver) for _ in range(3)]
    for reader, shares in zip(readers, ([0] * 5, [0, 0, 0, 1, 1], [0, 0, 2, 1, 1]), strict=True):
        join(driver, reader)
        assert share(driver) == shares
    fill(driver, client, *["s"] * 10, exchange="")
    got = [sorted(delivered(reader)) for reader in readers]
    assert [sorted({partition for partition, _, _ in each}) for each in got] == [[0, 1], [3, 4], [2]]
    wanted = [(number, offset, b"s") for number in range(5) for offset in range(2)]
    assert sorted(each for some in got for each in some) == wanted
    readers[0].send(1, methods.BasicCancel("tag", False))
    driver.settle()
    assert share(driver) == [0, 1, 1, 0, 0]
    assert delivered(readers[2]) == [], "what its client holds may be settled still"
    readers[0].send(1, methods.BasicAck(0, True))
    driver.settle()
    fill(driver, client, *["s"] * 5, exchange="")
    assert sorted(delivered(readers[1])) == [(0, 2, b"s"), (3, 2, b"s"), (4, 2, b"s")]
    assert sorted(delivered(readers[2])) == [(1, 2, b"s"), (2, 2, b"s")]


def test_what_moves_waits_for_the_acknowledgements_and_nothing_else_does(driver: NodeDriver) -> None:
    client = a_stream(driver, 2)
    one, two = a_client(driver), a_client(driver)
    join(driver, one)
    fill(driver, client, *["s"] * 4, exchange="")
    assert len(delivered(one)) == 4
    join(driver, two)
    fill(driver, client, *["s"] * 2, exchange="")
    assert delivered(one) == [(0, 2, b"s")], "it goes on with what it keeps, and gets no more of what moves"
    assert delivered(two) == []
    one.send(1, methods.BasicAck(0, True))
    driver.settle()
    assert delivered(two) == [(1, 2, b"s")], "nothing comes twice"


def test_what_is_not_acknowledged_in_time_comes_to_the_next_one(driver: NodeDriver) -> None:
    client = a_stream(driver, 2)
    one, two = a_client(driver), a_client(driver)
    join(driver, one)
    fill(driver, client, *["s"] * 4, exchange="")
    assert len(delivered(one)) == 4
    join(driver, two)
    driver.wait(HANDOVER_MS - 100)
    assert delivered(two) == []
    driver.wait(200)
    driver.settle()
    events = [event for event in two.take() if event.method.name == "basic.deliver"]
    assert [event.method.redelivered for event in events] == [True, True]
    one.send(1, methods.BasicAck(0, True))
    driver.settle()
    assert one.names() == []
    two.send(1, methods.BasicAck(0, True))
    driver.wait(200)
    found = [driver.queue(f"s-{number}").stream().groups.get("g").position for number in range(2)]
    assert found == [2, 2]


def test_one_that_is_gone_leaves_all_that_it_held(driver: NodeDriver) -> None:
    client = a_stream(driver, 2)
    one, two = a_client(driver), a_client(driver)
    join(driver, one)
    join(driver, two)
    fill(driver, client, *["s"] * 4, exchange="")
    assert len(delivered(one)) == len(delivered(two)) == 2
    driver.node.connection_lost(one.connection, driver.now)
    driver.settle()
    assert delivered(two) == [(0, 0, b"s"), (0, 1, b"s")]


def test_partitions_take_turns_where_there_is_little_credit(driver: NodeDriver) -> None:
    client = a_stream(driver, 3)
    fill(driver, client, *["s"] * 30, exchange="")
    reader = a_client(driver, 1)
    join(driver, reader)
    got: list[Got] = []
    for _ in range(30):
        (found,) = delivered(reader)
        got.append(found)
        reader.send(1, methods.BasicAck(0, True))
        driver.settle()
    assert {partition for partition, _, _ in got[:4]} == {0, 1, 2}
    assert sorted(got) == [(number, offset, b"s") for number in range(3) for offset in range(10)]


def test_what_is_put_back_comes_again_to_the_same_one(driver: NodeDriver) -> None:
    client = a_stream(driver, 2)
    reader = a_client(driver)
    join(driver, reader)
    fill(driver, client, "s", "s", exchange="")
    tags = [event.method.delivery_tag for event in reader.take() if event.method.name == "basic.deliver"]
    reader.send(1, methods.BasicNack(tags[0], False, True), methods.BasicAck(tags[1], False))
    driver.settle()
    (event,) = [event for event in reader.take() if event.method.name == "basic.deliver"]
    headers = decode_properties(event.properties).headers
    assert event.method.redelivered
    assert headers is not None
    assert (headers["x-delivery-count"], headers["x-stream-offset"]) == (1, 0)


def test_a_new_group_begins_in_all_partitions_where_its_first_member_says(driver: NodeDriver) -> None:
    client = a_stream(driver, 3)
    fill(driver, client, *["s"] * 6, exchange="")
    late = a_client(driver)
    late.send(1, consume(x_stream_group="new", x_stream_offset="next"))
    driver.settle()
    fill(driver, client, *["s"] * 3, exchange="")
    assert sorted(delivered(late)) == [(number, 2, b"s") for number in range(3)]


def test_without_acknowledgements_each_comes_once(driver: NodeDriver) -> None:
    client = a_stream(driver, 3)
    fill(driver, client, *["s"] * 6, exchange="")
    reader = a_client(driver)
    arguments = Table({"x-stream-group": "g", "x-stream-offset": "first"})
    reader.send(1, methods.BasicConsume(0, "s", "tag", False, True, False, False, arguments))
    driver.settle()
    assert sorted(delivered(reader)) == [(number, offset, b"s") for number in range(3) for offset in range(2)]


def test_a_stream_grows_while_it_is_read(driver: NodeDriver) -> None:
    """Members get the new partitions, from their first message on, also those of a group that began at the end."""
    client = a_stream(driver, 2)
    fill(driver, client, "s", "s", exchange="")
    one, two = a_client(driver), a_client(driver)
    join(driver, one, x_stream_offset="next")
    join(driver, two, x_stream_offset="next")
    assert share(driver) == [0, 1]
    broker = driver.node.broker
    driver.node.broker.propose(grow(broker, broker.vhosts["/"], driver.queue("s"), 4))
    driver.settle()
    assert share(driver) == [0, 1, 0, 1]
    fill(driver, client, *["s"] * 4, exchange="")
    assert sorted(delivered(one)) == [(0, 1, b"s"), (2, 0, b"s")]
    assert sorted(delivered(two)) == [(1, 1, b"s"), (3, 0, b"s")]
    client.send(1, declare(x_stream_partitions=4))
    driver.settle()
    assert "queue.declare-ok" in client.names()
    driver.crash()
    assert len(driver.queue("s").partitions()) == 4


def test_who_knows_nothing_of_that_declares_it_as_before(driver: NodeDriver) -> None:
    client = a_stream(driver, 2, x_max_age="1h")
    broker = driver.node.broker
    broker.propose(grow(broker, broker.vhosts["/"], driver.queue("s"), 4))
    driver.settle()
    for count in (1, 2, 4):
        client.send(1, declare(x_stream_partitions=count, x_max_age="1h"))
        driver.settle()
        assert client.names() == ["queue.declare-ok"]
    for wrong in (
        {"x_stream_partitions": 5, "x_max_age": "1h"}, {"x_stream_partitions": 2}, {"x_max_age": "1h"},
        {"x_stream_partitions": 0, "x_max_age": "1h"}, {"x_stream_partitions": True, "x_max_age": "1h"},
    ):  # fmt: skip
        other = a_client(driver)
        other.send(1, declare(**wrong))
        driver.settle()
        assert other.names() == ["channel.close"], wrong
    assert len(driver.queue("s").partitions()) == 4


def test_a_policy_says_on_how_many_nodes_partitions_are(driver: NodeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the argument says; also of those that are added."""
    broker, sizes = driver.node.broker, []
    place = broker.place_queues

    def place_queues(lowest: int, count: int, size: int = 0) -> list[int]:
        sizes.append(size)
        return list(place(lowest, count, size))

    monkeypatch.setattr(broker, "place_queues", place_queues)
    a_stream(driver, 2, x_initial_cluster_size=5)
    definition = {"initial-cluster-size": 3}
    broker.propose(commands.set_policy("/", "p", pattern="", apply_to="streams", definition=definition))
    driver.settle()
    broker.propose(grow(broker, broker.vhosts["/"], driver.queue("s"), 3))
    client = a_client(driver)
    client.send(1, declare("t", x_stream_partitions=2, x_initial_cluster_size=5))
    driver.settle()
    assert client.names() == ["queue.declare-ok"]
    assert sizes == [5, 3, 3]


def test_a_group_that_nobody_reads_misses_nothing_of_new_partitions(driver: NodeDriver) -> None:
    client = a_stream(driver, 1)
    reader = a_client(driver)
    join(driver, reader, x_stream_offset="next")
    reader.send(1, methods.BasicCancel("tag", False))
    driver.settle()
    broker = driver.node.broker
    broker.propose(grow(broker, broker.vhosts["/"], driver.queue("s"), 2))
    driver.settle()
    fill(driver, client, "s", "s", exchange="")
    again = a_client(driver)
    join(driver, again, x_stream_offset="next")
    assert sorted(delivered(again)) == [(0, 0, b"s"), (1, 0, b"s")]


# -- what comes from elsewhere


def test_transactions_and_dead_letters_go_to_partitions(driver: NodeDriver) -> None:
    client = a_stream(driver, 2)
    bind(driver, client, exchange="amq.direct", key="letter")
    table = {"x-dead-letter-exchange": "amq.direct", "x-dead-letter-routing-key": "letter", "x-message-ttl": 10}
    for name, kind in (("classic", "classic"), ("quorum", "quorum")):
        arguments = Table({**table, "x-queue-type": kind})
        client.send(1, methods.QueueDeclare(0, name, False, True, False, False, False, arguments))
        driver.settle()
        fill(driver, client, *[name] * 3, exchange="")
    driver.wait(1000)
    assert driver.queue("s").message_count() == 6
    client.send(1, methods.TxSelect())
    fill(driver, client, "letter", "letter", exchange="amq.direct")
    assert driver.queue("s").message_count() == 6
    client.send(1, methods.TxCommit())
    driver.settle()
    assert "tx.commit-ok" in client.names()
    number = partition_of(b"letter", 2)
    assert len(bodies(driver, f"s-{number}")) == 8, "all have one key"


def test_the_headers_of_a_place_are_those_of_the_broker(driver: NodeDriver) -> None:
    client = a_stream(driver, 1)
    fill(driver, client, "s", exchange="", **{"x-stream-partition": 77, "x-stream-offset": 78, "other": 1})
    reader = a_client(driver)
    join(driver, reader)
    (event,) = [event for event in reader.take() if event.method.name == "basic.deliver"]
    headers = decode_properties(event.properties).headers
    assert headers is not None
    assert dict(headers) == {"x-stream-offset": 0, "x-stream-partition": 0, "other": 1}
    assert headers.kind("x-stream-partition") == "l"


def test_a_filter_of_a_member_is_for_all_partitions(driver: NodeDriver) -> None:
    client = a_stream(driver, 2)
    for value in ("red", "blue", "red", "blue"):
        fill(driver, client, "s", exchange="", **{"x-stream-filter-value": value, "x-stream-key": "k" + value})
    reader = a_client(driver)
    join(driver, reader, x_stream_filter="red")
    found = delivered(reader)
    assert len(found) == 2
    assert len({partition for partition, _, _ in found}) == 1


def test_queues_are_over_one_of_its_partitions_and_keep_it(driver: NodeDriver) -> None:
    client = a_stream(driver, 2)

    def over(source: str) -> methods.QueueDeclare:
        arguments = Table({"x-queue-type": "quorum", "x-stream-source": source, "x-stream-offset": "first"})
        return methods.QueueDeclare(0, "over", False, True, False, False, False, arguments)

    client.send(1, over("s"))
    driver.settle()
    code, text = refused(client)
    assert (code, "which has 2 partitions: say which, 's-0' to 's-1'" in text) == (406, True)
    client = a_client(driver)
    client.send(1, over("s-1"), methods.QueueDelete(0, "s", False, False, False))
    driver.settle()
    code, text = refused(client)
    assert (code, "it has the messages of 'over': delete these queues first" in text) == (406, True)
    client = a_client(driver)
    client.send(1, methods.QueueDelete(0, "over"), methods.QueueDelete(0, "s"))
    driver.settle()
    assert client.names() == ["queue.delete-ok", "queue.delete-ok"]

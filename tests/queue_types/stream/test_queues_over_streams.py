"""Quorum queues over a stream on one node, its time and its disk in the test's hand: what clients see of them."""

from __future__ import annotations

from typing import Any

import pytest

from amqp_broker.metadata import commands
from amqp_broker.protocol import methods
from amqp_broker.protocol.fields import Table
from amqp_broker.protocol.frames import encode_method_frame
from amqp_broker.protocol.properties import decode_properties, encode_properties
from queues.effects import Unreadable
from queues.stream.source import source_of
from tests.node.node_driver import Client, NodeDriver, frame_octets
from tests.queue_types.stream.test_streams_of_a_node import MINUTE, a_stream, delivered, fill, qos

#: By then the log knows of acknowledgements that nobody waits for.
RESTED_MS = 50
_NO_MESSAGES = "a queue over a stream (x-stream-source) has no messages of its own"


@pytest.fixture
def driver() -> NodeDriver:
    return NodeDriver()


def over(name: str = "q", **arguments: object) -> Any:
    """To declare a queue over the stream `s`, from its beginning on."""
    table: dict[str, object] = {"x-queue-type": "quorum", "x-stream-source": "s", "x-stream-offset": "first"}
    table |= {key.replace("_", "-"): each for key, each in arguments.items()}
    kept = {key: each for key, each in table.items() if each is not None}
    return methods.QueueDeclare(0, name, False, True, False, False, False, Table(kept))


def consume(name: str = "q", tag: str = "tag", *, no_ack: bool = False) -> Any:
    return methods.BasicConsume(0, name, tag, False, no_ack, False, False, Table({}))


def a_queue(driver: NodeDriver, **arguments: object) -> Client:
    client = a_stream(driver)
    client.send(1, over(**arguments))
    driver.settle()
    assert client.names() == ["queue.declare-ok"]
    client.take()
    return client


def a_reader(driver: NodeDriver, prefetch: int = 100, **options: Any) -> Client:
    reader = driver.client(1)
    reader.send(1, qos(prefetch), consume(**options))
    driver.settle()
    return reader


def refusal(client: Client) -> tuple[int, str]:
    (close,) = [event.method for event in client.take() if event.method.name == "channel.close"]
    client.send(1, methods.ChannelCloseOk())
    client.send(1, methods.ChannelOpen())
    return close.reply_code, close.reply_text


def figures(driver: NodeDriver, name: str = "q") -> tuple[int, int]:
    queue = driver.queue(name)
    return queue.message_count(), queue.unacked_count()


# -- what is handed out ------------------------------------------------------------------------------------------------


def test_consumers_compete_for_what_is_in_the_stream(driver: NodeDriver) -> None:
    """Each message goes to one of them, with its offset; readers of the stream get all of it besides."""
    publisher = a_queue(driver)
    readers = [a_reader(driver), a_reader(driver)]
    fill(driver, publisher, *[b"%d" % number for number in range(10)])
    found = [delivered(reader) for reader in readers]
    assert [len(each) for each in found] == [5, 5]
    assert sorted(found[0] + found[1]) == [(number, b"%d" % number) for number in range(10)]
    assert figures(driver) == (0, 10)
    for reader in readers:
        reader.send(1, methods.BasicAck(0, True))
    driver.settle()
    driver.wait(RESTED_MS)
    assert figures(driver) == (0, 0)
    assert driver.queue("s").message_count() == 10


def test_every_queue_has_all_of_it(driver: NodeDriver) -> None:
    publisher = a_queue(driver)
    publisher.send(1, over("r"), over("next", x_stream_offset=None))
    driver.settle()
    fill(driver, publisher, b"a", b"b")
    for name in ("q", "r", "next"):
        assert [body for _, body in delivered(a_reader(driver, name=name))] == [b"a", b"b"]


def test_what_is_published_behind_the_answer_is_in_a_queue_that_begins_at_the_end(driver: NodeDriver) -> None:
    """declare-ok waits until the log has the queue."""
    publisher = a_stream(driver)
    fill(driver, publisher, b"before")
    publisher.send(1, over(x_stream_offset="next"))
    driver.settle()
    fill(driver, publisher, b"behind")
    assert delivered(a_reader(driver)) == [(1, b"behind")]


def test_a_message_that_comes_back_says_so(driver: NodeDriver) -> None:
    publisher = a_queue(driver)
    fill(driver, publisher, b"a")
    reader = a_reader(driver)
    reader.send(1, methods.BasicNack(1, False, True))
    driver.settle()
    first, second = [event for event in reader.take() if event.method.name == "basic.deliver"]
    headers = decode_properties(second.properties).headers
    assert (first.method.redelivered, second.method.redelivered) == (False, True)
    assert headers is not None
    assert (headers["x-stream-offset"], headers["x-delivery-count"]) == (0, 1)


def test_large_messages_arrive_whole(driver: NodeDriver) -> None:
    publisher = a_queue(driver)
    bodies = [bytes([size % 251]) * size for size in (0, 4088, 4089, 16_384, 40_000)]
    fill(driver, publisher, *bodies)
    assert [body for _, body in delivered(a_reader(driver))] == bodies


def test_without_acknowledgements(driver: NodeDriver) -> None:
    publisher = a_queue(driver)
    fill(driver, publisher, b"a", b"b")
    assert len(delivered(a_reader(driver, no_ack=True))) == 2
    driver.wait(RESTED_MS)
    assert figures(driver) == (0, 0)


def test_basic_get_and_purge(driver: NodeDriver) -> None:
    publisher = a_queue(driver)
    fill(driver, publisher, b"a", b"b", b"c")
    publisher.take()
    publisher.send(1, methods.BasicGet(0, "q", False))
    driver.settle()
    (got,) = publisher.take()
    assert (got.method.name, got.body, got.method.message_count) == ("basic.get-ok", b"a", 2)
    publisher.send(1, methods.QueuePurge(0, "q", False))
    driver.settle()
    (purged,) = publisher.take()
    assert purged.method.message_count == 2
    assert figures(driver) == (0, 1)
    assert driver.queue("s").message_count() == 3


def test_a_single_active_consumer(driver: NodeDriver) -> None:
    publisher = a_queue(driver, x_single_active_consumer=True)
    first, second = a_reader(driver), a_reader(driver)
    fill(driver, publisher, b"a")
    assert (len(delivered(first)), len(delivered(second))) == (1, 0)
    first.send(1, methods.ChannelClose(200, "", 0, 0))
    driver.settle()
    assert delivered(second) == [(0, b"a")]


def test_only_what_is_wanted_comes(driver: NodeDriver) -> None:
    publisher = a_queue(driver, x_stream_filter=["red", "blue"])
    for number, value in enumerate(["red", "green", "blue", None]):
        fill(driver, publisher, b"%d" % number, **_with_value(value))
    assert delivered(a_reader(driver)) == [(0, b"0"), (2, b"2")]
    assert figures(driver) == (0, 2)


def _with_value(value: str | None) -> dict[str, Table]:
    return {"headers": Table({"x-stream-filter-value": value})} if value is not None else {}


def test_of_a_key_one_is_out_at_a_time(driver: NodeDriver) -> None:
    client = a_queue(driver, x_stream_key_order=True)
    client.send(1, methods.ExchangeDeclare(0, "x", "fanout", False, True, False, False, False, Table({})))
    client.send(1, methods.QueueBind(0, "s", "x", "", False, Table({})))
    driver.settle()
    for key, body in (("k", b"k1"), ("k", b"k2"), ("l", b"l1")):
        publish(client, body, "x", key)
    driver.settle()
    reader = a_reader(driver)
    assert [body for _, body in delivered(reader)] == [b"k1", b"l1"]
    reader.send(1, methods.BasicAck(1, False))
    driver.settle()
    assert [body for _, body in delivered(reader)] == [b"k2"]


def publish(client: Client, body: bytes, exchange: str, key: str) -> None:
    octets = encode_method_frame(1, methods.BasicPublish(0, exchange, key, False, False))
    octets += frame_octets(2, 1, b"\x00\x3c\x00\x00" + len(body).to_bytes(8, "big") + encode_properties({}))
    client.send_octets(octets + frame_octets(3, 1, body))


# -- publishing --------------------------------------------------------------------------------------------------------


def test_what_is_published_to_it_goes_to_the_stream_once(driver: NodeDriver) -> None:
    """By its name, or by bindings, of whatever of the stream: with a confirm, and as routed."""
    client = a_queue(driver)
    client.send(1, over("r"), methods.ConfirmSelect(False))
    client.send(1, methods.ExchangeDeclare(0, "x", "fanout", False, True, False, False, False, Table({})))
    for name in ("q", "r", "s"):
        client.send(1, methods.QueueBind(0, name, "x", "", False, Table({})))
    driver.settle()
    client.take()
    publish(client, b"by name", "", "q")
    driver.settle()
    publish(client, b"by bindings", "x", "")
    driver.settle()
    assert client.names() == ["basic.ack", "basic.ack"]
    assert driver.queue("s").message_count() == 2
    for name in ("q", "r"):
        assert delivered(a_reader(driver, name=name)) == [(0, b"by name"), (1, b"by bindings")]


def test_transactions(driver: NodeDriver) -> None:
    client = a_queue(driver)
    client.send(1, methods.TxSelect())
    publish(client, b"a", "", "q")
    client.send(1, methods.TxCommit())
    driver.settle()
    assert "tx.commit-ok" in client.names()
    assert delivered(a_reader(driver)) == [(0, b"a")]


def test_dead_letters(driver: NodeDriver) -> None:
    """What is refused is copied to where dead letters go; one that goes to the queue itself is in the stream again."""
    client = a_queue(driver, x_dead_letter_exchange="", x_dead_letter_routing_key="dead", x_delivery_limit=1)
    client.send(1, methods.QueueDeclare(0, "dead", False, True, False, False, False, Table({})))
    fill(driver, client, b"a", b"b")
    reader = a_reader(driver)
    reader.send(1, methods.BasicReject(1, False), methods.BasicNack(2, False, True))
    driver.settle()
    reader.send(1, methods.BasicNack(3, False, True))
    driver.settle()
    client.take()
    client.send(1, methods.BasicGet(0, "dead", True), methods.BasicGet(0, "dead", True))
    driver.settle()
    got = client.take()
    assert [each.body for each in got] == [b"a", b"b"]
    headers = decode_properties(got[1].properties).headers
    assert headers is not None
    (death,) = headers["x-death"]
    assert (death["queue"], death["reason"]) == ("q", "delivery_limit")


# -- declaring and deleting --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"x_stream_source": "nowhere"}, "x-stream-source names 'nowhere', and there is no stream of this name"),
        ({"x_stream_source": "classic"}, "x-stream-source names 'classic', and there is no stream of this name"),
        ({"x_stream_source": 5}, "invalid arg 'x-stream-source' for queue 'q'"),
        ({"x_stream_offset": "sometime"}, "invalid arg 'x-stream-offset' for queue 'q'"),
        ({"x_stream_filter": 5}, "invalid arg 'x-stream-filter' for queue 'q'"),
        ({"x_stream_key_order": "yes"}, "invalid arg 'x-stream-key-order' for queue 'q'"),
        ({"x_max_length": 5}, f"{_NO_MESSAGES}: the retention of the stream says what stays"),
        ({"x_max_priority": 5}, f"{_NO_MESSAGES}: the order is that of the stream"),
        ({"x_lease_expires": 5}, f"{_NO_MESSAGES}: a reader outside reads the stream itself"),
    ],
)
def test_what_cannot_be_declared(driver: NodeDriver, arguments: dict[str, object], text: str) -> None:
    client = a_stream(driver)
    client.send(1, methods.QueueDeclare(0, "classic", False, True, False, False, False, Table({})))
    client.send(1, over(**arguments))
    driver.settle()
    code, said = refusal(client)
    assert code == 406
    assert text in said


def test_who_may_not_read_the_stream_declares_nothing_over_it(driver: NodeDriver) -> None:
    client = a_stream(driver)
    driver.node.broker.propose(commands.set_permission("guest", "/", ".*", ".*", "^q$"))
    driver.settle()
    client.send(1, over())
    driver.settle()
    assert refusal(client) == (
        403,
        "ACCESS_REFUSED - read access to queue 's' in vhost '/' refused for user 'guest'",
    )


def test_a_declaration_is_compared(driver: NodeDriver) -> None:
    client = a_queue(driver)
    client.send(1, over())
    driver.settle()
    assert client.names() == ["queue.declare-ok"]
    client.take()
    client.send(1, over(x_stream_key_order=True))
    driver.settle()
    assert refusal(client)[0] == 406


def test_the_stream_is_not_deleted_before_it(driver: NodeDriver) -> None:
    client = a_queue(driver)
    client.send(1, methods.QueueDelete(0, "s", False, False, False))
    driver.settle()
    assert refusal(client) == (
        406,
        "PRECONDITION_FAILED - cannot delete queue 's' in vhost '/': it has the messages of 'q': delete these queues "
        "first",
    )
    fill(driver, client, b"a")
    client.take()
    client.send(1, methods.QueueDelete(0, "q", False, False, False))
    driver.settle()
    (deleted,) = client.take()
    assert deleted.method.message_count == 1
    assert driver.queue("s").message_count() == 1
    client.send(1, methods.QueueDelete(0, "s", False, False, False))
    driver.settle()
    assert client.names() == ["queue.delete-ok"]


def test_a_text_names_some_of_very_many(driver: NodeDriver) -> None:
    client = a_stream(driver)
    client.send(1, *[over(f"q{number}") for number in range(7)])
    driver.settle()
    client.take()
    client.send(1, methods.QueueDelete(0, "s", False, False, False))
    driver.settle()
    assert "of 'q0', 'q1', 'q2', 'q3', 'q4' and 2 more: delete these queues first" in refusal(client)[1]


def test_it_is_not_deleted_while_it_is_used_or_has_messages(driver: NodeDriver) -> None:
    client = a_queue(driver)
    fill(driver, client, b"a")
    client.send(1, methods.QueueDelete(0, "q", False, True, False))
    driver.settle()
    assert "not empty" in refusal(client)[1]
    a_reader(driver)
    client.send(1, methods.QueueDelete(0, "q", True, False, False))
    driver.settle()
    assert "in use" in refusal(client)[1]


def test_its_virtual_host_goes_with_both(driver: NodeDriver) -> None:
    a_queue(driver)
    driver.node.broker.propose(commands.delete_vhost("/"))
    driver.settle()
    assert "/" not in driver.node.broker.vhosts


# -- time --------------------------------------------------------------------------------------------------------------


def test_a_policy_says_how_long_messages_live(driver: NodeDriver) -> None:
    """From their publication on; and policies about lengths do not reach it."""
    client = a_queue(driver)
    definition = {"message-ttl": MINUTE, "max-length": 0}
    driver.node.broker.propose(
        commands.set_policy("/", "p", pattern="^q$", apply_to="quorum_queues", definition=definition)
    )
    driver.settle()
    fill(driver, client, b"a")
    driver.wait(MINUTE // 2)
    fill(driver, client, b"b")
    assert figures(driver) == (2, 0)
    driver.wait(MINUTE // 2 + 10)
    assert delivered(a_reader(driver)) == [(1, b"b")]


def test_a_consumer_that_holds_a_message_for_too_long_loses_it(driver: NodeDriver) -> None:
    client = a_queue(driver, x_consumer_timeout=MINUTE)
    fill(driver, client, b"a")
    a_reader(driver)
    driver.wait(2 * MINUTE)
    assert delivered(a_reader(driver)) == [(0, b"a")]


def test_what_retention_takes_is_counted_as_lost(driver: NodeDriver) -> None:
    client = a_queue(driver)
    fill(driver, client, b"a", b"b", b"c")
    source_of(driver.queue("s")).trim(2, lambda error, first: None)
    driver.settle()
    assert driver.queue("q").place() == (2, 2)
    assert delivered(a_reader(driver)) == [(2, b"c")]


def test_what_this_node_has_missed_and_cannot_read_it_gives_back(driver: NodeDriver) -> None:
    """As it came: the next one gets it, if it can be read there."""
    client = a_queue(driver)
    fill(driver, client, b"a")
    reader = a_reader(driver)
    assert delivered(reader) == [(0, b"a")]
    group = driver.queue("q").group
    (number,) = group.delivery_owners
    group.take_effects([Unreadable(number, 1)])
    driver.settle()
    (again,) = [event.method for event in reader.take() if event.method.name == "basic.deliver"]
    assert (again.delivery_tag, again.redelivered) == (2, False)
    assert figures(driver) == (0, 1)


# -- restarts ----------------------------------------------------------------------------------------------------------


def test_it_outlives_a_crash(driver: NodeDriver) -> None:
    """What was acknowledged does not come again; what was held does, and says so."""
    client = a_queue(driver)
    client.send(1, methods.ConfirmSelect(False))
    fill(driver, client, *[b"%d" % number for number in range(6)])
    reader = a_reader(driver, prefetch=4)
    assert len(delivered(reader)) == 4
    reader.send(1, methods.BasicAck(1, False), methods.BasicAck(3, False))
    driver.settle()
    driver.wait(1000)
    driver.crash()
    reader = a_reader(driver)
    heard = [event for event in reader.take() if event.method.name == "basic.deliver"]
    assert [(each.body, each.method.redelivered) for each in heard if each.body not in (b"4", b"5")] == [
        (b"1", True), (b"3", True),
    ]  # fmt: skip
    assert sorted(each.body for each in heard) == [b"1", b"3", b"4", b"5"]
    client = driver.client(1)
    client.send(1, methods.QueueDelete(0, "s", False, False, False))
    driver.settle()
    assert "it has the messages of 'q'" in refusal(client)[1]

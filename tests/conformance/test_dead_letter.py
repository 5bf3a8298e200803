"""Dead-lettering: where messages go, with which key, and what x-death says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.conformance.wire import Connection
from tests.conformance.wire_channel import Channel
from tests.conformance.wire_codec import Typed
from tests.conformance.wire_frames import Message

Named = Callable[[str], str]
RECENT = 1_600_000_000


@pytest.fixture
def dead(channel: Channel, named: Named) -> str:
    """The queue that dead letters arrive in; a consumer waits on it."""
    queue = channel.declare(named("dead"))
    channel.consume(queue, consumer_tag="undertaker", no_ack=True)
    return queue


def _declare(channel: Channel, queue: str, exchange: str, key: str | None, **arguments: Any) -> str:
    table: dict[str, Any] = {"x-dead-letter-exchange": exchange}
    if key is not None:
        table["x-dead-letter-routing-key"] = key
    return channel.declare(queue, arguments={**table, **{f"x-{k.replace('_', '-')}": v for k, v in arguments.items()}})


def _reject(channel: Channel, queue: str) -> None:
    message = channel.get(queue, no_ack=False)
    assert message is not None
    channel.send("basic.reject", delivery_tag=message.delivery_tag)


def _deaths(message: Message) -> list[dict[str, Any]]:
    deaths = message.headers["x-death"]
    assert isinstance(deaths, list)
    return deaths


@pytest.mark.holds("x-dead-letter-exchange: a rejected message goes there, with x-death")
@pytest.mark.parametrize("name", ["basic.reject", "basic.nack"])
def test_a_rejected_message_is_dead_lettered(channel: Channel, dead: str, named: Named, name: str) -> None:
    """Row 23: queue, reason, count, exchange, routing-keys and time, each with its table type."""
    queue = _declare(channel, named("queue"), "", dead)
    channel.publish("", queue, b"m", message_id="m-1", headers={"mine": 1})
    message = channel.get(queue, no_ack=False)
    assert message is not None
    channel.send(name, delivery_tag=message.delivery_tag)
    letter = channel.expect_delivery("undertaker")
    assert (letter.body, letter.exchange, letter.routing_key) == (b"m", "", dead)
    assert letter.properties["message_id"] == "m-1"
    assert letter.redelivered is False
    headers = letter.typed_headers
    assert headers["mine"] == Typed("I", 1)
    kind, (death,) = headers["x-death"]
    assert (kind, death.kind) == ("A", "F")
    time = death.value.pop("time")
    assert time.kind == "T"
    assert time.value > RECENT
    assert death.value == {
        "count": Typed("l", 1),
        "reason": Typed("S", "rejected"),
        "queue": Typed("S", queue),
        "exchange": Typed("S", ""),
        "routing-keys": Typed("A", [Typed("S", queue)]),
    }
    for which in ("reason", "queue", "exchange"):
        assert headers[f"x-first-death-{which}"] == death.value[which]


@pytest.mark.ours_only("has x-first-death-* only")
@pytest.mark.holds("x-last-death-reason, -queue, -exchange are set beside x-first-death-*")
def test_the_last_death_is_told_beside_the_first(channel: Channel, dead: str, named: Named) -> None:
    """Row 23: two deaths in two queues."""
    second = _declare(channel, named("second"), "", dead)
    first = _declare(channel, named("first"), "", second, message_ttl=1)
    channel.publish("", first, b"m")
    channel.call("basic.qos")
    channel.consume(second, consumer_tag="rejecter")
    message = channel.expect_delivery("rejecter")
    channel.send("basic.reject", delivery_tag=message.delivery_tag)
    headers = channel.expect_delivery("undertaker").headers
    ends = {"first": ("expired", first), "last": ("rejected", second)}
    for which, (reason, queue) in ends.items():
        assert (headers[f"x-{which}-death-reason"], headers[f"x-{which}-death-queue"]) == (reason, queue)


@pytest.mark.holds("x-dead-letter-exchange without a routing key: the message keeps its own keys")
def test_without_a_dead_letter_key_the_own_one_stays(channel: Channel, dead: str, named: Named) -> None:
    """Through a direct exchange that knows the original key."""
    exchange = named("exchange")
    channel.call("exchange.declare", exchange=exchange, type="direct")
    queue = _declare(channel, named("queue"), exchange, None)
    channel.call("queue.bind", queue=dead, exchange=exchange, routing_key=queue)
    channel.publish("", queue, b"m")
    _reject(channel, queue)
    letter = channel.expect_delivery("undertaker")
    assert (letter.body, letter.exchange, letter.routing_key) == (b"m", exchange, queue)


@pytest.mark.holds("x-death: an expired message; expiration removed and kept as original-expiration")
def test_an_expired_message_loses_its_expiration(channel: Channel, dead: str, named: Named) -> None:
    """Row 23: or it would expire again where it arrives."""
    queue = _declare(channel, named("queue"), "", dead)
    channel.publish("", queue, b"m", expiration="1")
    letter = channel.expect_delivery("undertaker")
    assert "expiration" not in letter.properties
    (death,) = _deaths(letter)
    assert (death["reason"], death["queue"], death["count"]) == ("expired", queue, 1)
    assert death["original-expiration"] == "1"


@pytest.mark.holds("x-death: expired by the queue's x-message-ttl has no original-expiration")
def test_a_queue_ttl_is_no_original_expiration(channel: Channel, dead: str, named: Named) -> None:
    """There was no property to remember."""
    queue = _declare(channel, named("queue"), "", dead, message_ttl=1)
    channel.publish("", queue, b"m")
    (death,) = _deaths(channel.expect_delivery("undertaker"))
    assert (death["reason"], death["queue"]) == ("expired", queue)
    assert "original-expiration" not in death


@pytest.mark.holds("x-death: a message that overflow drops has reason maxlen")
def test_an_overflowing_message_is_dead_lettered(channel: Channel, dead: str, named: Named) -> None:
    """The oldest goes."""
    queue = _declare(channel, named("queue"), "", dead, max_length=1)
    for body in (b"1", b"2"):
        channel.publish("", queue, body)
    letter = channel.expect_delivery("undertaker")
    assert letter.body == b"1"
    assert [(death["reason"], death["queue"]) for death in _deaths(letter)] == [("maxlen", queue)]


@pytest.mark.holds("x-overflow reject-publish-dlx: the refused message is dead-lettered with reason maxlen")
def test_a_refused_message_is_dead_lettered(channel: Channel, dead: str, named: Named) -> None:
    """The newest goes; with reject-publish alone it would be lost."""
    queue = _declare(channel, named("queue"), "", dead, max_length=1, overflow="reject-publish-dlx")
    for body in (b"1", b"2"):
        channel.publish("", queue, body)
    letter = channel.expect_delivery("undertaker")
    assert letter.body == b"2"
    assert [(death["reason"], death["queue"]) for death in _deaths(letter)] == [("maxlen", queue)]


@pytest.mark.holds("x-overflow reject-publish: the refused message is not dead-lettered")
def test_a_refused_message_is_not_dead_lettered(channel: Channel, dead: str, named: Named) -> None:
    """Its publisher has the nack."""
    queue = _declare(channel, named("queue"), "", dead, max_length=1, overflow="reject-publish")
    channel.call("confirm.select")
    for body in (b"1", b"2"):
        channel.publish("", queue, body)
    assert channel.expect("basic.ack").delivery_tag == 1
    assert channel.expect("basic.nack").delivery_tag == 2
    channel.expect_silence(dead)


@pytest.mark.holds("x-dead-letter-exchange: purge, delete and ack dead-letter nothing")
def test_only_rejection_expiry_and_overflow_count(channel: Channel, dead: str, named: Named) -> None:
    """What was taken on purpose is gone."""
    queue = _declare(channel, named("queue"), "", dead)
    channel.connection.fill(queue, b"acked", b"purged")
    message = channel.get(queue, no_ack=False)
    assert message is not None
    channel.send("basic.ack", delivery_tag=message.delivery_tag)
    channel.call("queue.purge", queue=queue)
    channel.connection.fill(queue, b"deleted")
    channel.call("queue.delete", queue=queue)
    channel.expect_silence(dead)


@pytest.mark.holds("x-dead-letter-exchange: a missing exchange or an unbound key drops the message")
@pytest.mark.parametrize("exchange", ["missing-exchange", "amq.direct"])
def test_a_dead_letter_that_leads_nowhere_is_dropped(channel: Channel, named: Named, exchange: str) -> None:
    """The queue itself goes on."""
    queue = _declare(channel, named("queue"), exchange, "nowhere")
    channel.connection.fill(queue, b"1", b"2")
    _reject(channel, queue)
    assert channel.get_bodies(queue) == [b"2"]


@pytest.mark.holds("x-death: routing-keys lists the key and CC, not BCC; CC is removed with a dead letter key")
def test_cc_and_bcc_of_a_dead_letter(channel: Channel, dead: str, named: Named) -> None:
    """Row 23: with x-dead-letter-routing-key the letter goes to that key alone."""
    queue, copies = _declare(channel, named("queue"), "", dead), channel.declare(named("copies"))
    headers = {"CC": [copies], "BCC": ["hidden"], "mine": True}
    channel.publish("", queue, b"m", headers=headers)
    assert channel.get_bodies(copies) == [b"m"]
    _reject(channel, queue)
    letter = channel.expect_delivery("undertaker")
    assert letter.headers["mine"] is True
    assert "CC" not in letter.headers
    assert "BCC" not in letter.headers
    assert _deaths(letter)[0]["routing-keys"] == [queue, copies]
    assert channel.get_bodies(copies) == []


@pytest.mark.holds("x-death: without a dead letter key CC stays and routes again")
def test_cc_routes_the_dead_letter_too(channel: Channel, dead: str, named: Named) -> None:
    """To a fanout of its own here, so that it is delivered once and its header can be seen."""
    exchange = named("fanout")
    channel.call("exchange.declare", exchange=exchange, type="fanout")
    channel.call("queue.bind", queue=dead, exchange=exchange)
    queue = _declare(channel, named("queue"), exchange, None)
    channel.publish("", queue, b"m", headers={"CC": ["elsewhere"]})
    _reject(channel, queue)
    letter = channel.expect_delivery("undertaker")
    assert letter.headers["CC"] == ["elsewhere"]
    assert _deaths(letter)[0]["routing-keys"] == [queue, "elsewhere"]


@pytest.mark.holds("x-death: one entry per queue and reason, count rising, newest first, time of the first death")
def test_a_retry_loop_counts(channel: Channel, named: Named) -> None:
    """Row 23: rejected to a waiting queue, expired back to the first, three times round."""
    work, wait = named("work"), named("wait")
    _declare(channel, work, "", wait)
    _declare(channel, wait, "", work, message_ttl=1)
    channel.consume(work, consumer_tag="worker")
    channel.publish("", work, b"m")
    times: list[dict[tuple[str, str], int]] = []
    for round_number in range(4):
        message = channel.expect_delivery("worker")
        deaths = message.headers.get("x-death", [])
        expected = [(wait, "expired", round_number), (work, "rejected", round_number)] if round_number else []
        assert [(death["queue"], death["reason"], death["count"]) for death in deaths] == expected
        times.append({(death["queue"], death["reason"]): death["time"] for death in deaths})
        channel.send("basic.reject", delivery_tag=message.delivery_tag)
    assert times[1] == times[2] == times[3]


@pytest.mark.holds("x-death: a message that is published with an x-death of its own is continued")
def test_a_published_x_death_is_continued(channel: Channel, dead: str, named: Named) -> None:
    """Clients republish what they received, headers and all: the count of the same queue and reason rises."""
    queue = _declare(channel, named("queue"), "", dead)
    channel.publish("", queue, b"m")
    _reject(channel, queue)
    letter = channel.expect_delivery("undertaker")
    channel.publish("", queue, b"m", **letter.properties)
    _reject(channel, queue)
    again = channel.expect_delivery("undertaker")
    assert [(death["queue"], death["count"]) for death in _deaths(again)] == [(queue, 2)]


@pytest.mark.holds("x-dead-letter-exchange: an automatic cycle is dropped")
def test_a_cycle_without_rejection_is_dropped(connection: Connection, channel: Channel, named: Named) -> None:
    """Row 24: two queues that expire into each other; the message would circle for ever."""
    first, second = named("first"), named("second")
    _declare(channel, first, "", second, message_ttl=20)
    _declare(channel, second, "", first, message_ttl=20)
    channel.publish("", first, b"round")
    connection.let_pass(300)
    assert channel.counts(first) == (0, 0)
    assert channel.counts(second) == (0, 0)


@pytest.mark.holds("x-dead-letter-exchange: a queue that dead-letters to itself drops what expires")
def test_a_cycle_of_one_is_dropped(connection: Connection, channel: Channel, named: Named) -> None:
    """Row 24: the shortest cycle."""
    queue = named("queue")
    _declare(channel, queue, "", queue, message_ttl=20)
    channel.publish("", queue, b"round")
    connection.let_pass(200)
    assert channel.counts(queue) == (0, 0)


@pytest.mark.holds("x-dead-letter-exchange: a cycle with a rejection goes on")
def test_a_cycle_with_a_rejection_goes_on(channel: Channel, named: Named) -> None:
    """Row 24: a queue that dead-letters to itself; the consumer decides how long."""
    queue = named("queue")
    _declare(channel, queue, "", queue)
    channel.consume(queue, consumer_tag="worker")
    channel.publish("", queue, b"m")
    for count in range(1, 6):
        channel.send("basic.reject", delivery_tag=channel.expect_delivery("worker").delivery_tag)
        deaths = []
        if count == 5:
            deaths = _deaths(channel.expect_delivery("worker"))
            assert [(death["reason"], death["count"]) for death in deaths] == [("rejected", 5)]


@pytest.mark.holds("dead-lettering: order is kept")
def test_dead_letters_keep_their_order(channel: Channel, dead: str, named: Named) -> None:
    """Fifty rejected at once arrive as they were published."""
    queue = _declare(channel, named("queue"), "", dead)
    bodies = [b"%d" % index for index in range(50)]
    channel.connection.fill(queue, *bodies)
    for _ in bodies:
        assert channel.get(queue, no_ack=False) is not None
    channel.send("basic.nack", delivery_tag=0, multiple=True)
    channel.expect_deliveries(*bodies)


@pytest.mark.ours_only("has delivery limits on quorum queues only")
@pytest.mark.holds("x-delivery-limit: one return too many -> dead-lettered with reason delivery_limit")
@pytest.mark.parametrize("limit", [0, 2])
def test_a_delivery_limit_ends_a_poison_loop(channel: Channel, dead: str, named: Named, limit: int) -> None:
    """The message may come back as often as the limit says, and then no more."""
    queue = _declare(channel, named("queue"), "", dead, delivery_limit=limit)
    channel.connection.fill(queue, b"poison")
    for _ in range(limit + 1):
        message = channel.get(queue, no_ack=False)
        assert message is not None
        channel.send("basic.reject", delivery_tag=message.delivery_tag, requeue=True)
    letter = channel.expect_delivery("undertaker")
    assert [(death["reason"], death["queue"]) for death in _deaths(letter)] == [("delivery_limit", queue)]
    assert channel.get(queue) is None


@pytest.mark.ours_only("tells the count on quorum queues only")
@pytest.mark.holds("x-delivery-limit: a message that came back tells how often in the header x-delivery-count")
@pytest.mark.parametrize("no_ack", [False, True])
def test_a_delivery_limit_shows_the_count(channel: Channel, dead: str, named: Named, no_ack: bool) -> None:
    """Not the first delivery; and the dead letter is as it was published."""
    queue = _declare(channel, named("queue"), "", dead, delivery_limit=2)
    channel.connection.fill(queue, b"poison")
    counts = []
    for _ in range(2):
        message = channel.get(queue, no_ack=False)
        assert message is not None
        counts.append((message.properties.get("headers") or {}).get("x-delivery-count"))
        channel.send("basic.reject", delivery_tag=message.delivery_tag, requeue=True)
    assert counts == [None, 1]
    channel.consume(queue, no_ack=no_ack)
    message = channel.expect_delivery()
    assert message.properties["headers"]["x-delivery-count"] == 2
    if not no_ack:
        channel.send("basic.reject", delivery_tag=message.delivery_tag, requeue=True)
        letter = channel.expect_delivery("undertaker")
        assert "x-delivery-count" not in letter.properties["headers"]

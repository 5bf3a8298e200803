"""AMQP class tx: publishes and acknowledgements that wait for a commit."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.conformance.replies import no_exchange, unknown_delivery_tag
from tests.conformance.wire import Connection
from tests.conformance.wire_channel import Channel


@pytest.fixture
def transactional(connection: Connection) -> Channel:
    channel = connection.channel()
    channel.call("tx.select")
    return channel


@pytest.fixture
def other(connection: Connection) -> Channel:
    return connection.channel()


@pytest.fixture
def queue(other: Channel) -> str:
    return other.declare(exclusive=True)


@pytest.mark.holds("tx.commit, tx.rollback: not transactional -> 406")
@pytest.mark.parametrize("name", ["tx.commit", "tx.rollback"])
def test_without_select_is_a_406(channel: Channel, name: str) -> None:
    """tx.select comes first."""
    channel.refused(406, "PRECONDITION_FAILED - channel is not transactional", name)


@pytest.mark.holds("tx.select: on a confirming channel -> 406")
def test_a_confirming_channel_cannot_be_transactional(channel: Channel) -> None:
    """One or the other."""
    channel.call("confirm.select")
    text = "PRECONDITION_FAILED - cannot switch from confirm to tx mode"
    channel.refused(406, text, "tx.select")


@pytest.mark.holds("tx.select: twice -> select-ok")
def test_selecting_twice_is_ok(transactional: Channel) -> None:
    """It is transactional already."""
    transactional.call("tx.select")


@pytest.mark.holds("tx.commit: publishes appear with it, in order")
def test_publishes_wait_for_the_commit(transactional: Channel, other: Channel, queue: str) -> None:
    """Before commit-ok nobody sees them."""
    for body in (b"1", b"2"):
        transactional.publish("", queue, body)
    transactional.call("basic.qos")
    assert other.get(queue) is None
    transactional.call("tx.commit")
    assert other.get_bodies(queue) == [b"1", b"2"]


@pytest.mark.holds("tx.rollback: publishes are forgotten")
def test_rolled_back_publishes_are_forgotten(transactional: Channel, other: Channel, queue: str) -> None:
    """A later commit has nothing of them."""
    transactional.publish("", queue, b"forgotten")
    transactional.call("tx.rollback")
    transactional.publish("", queue, b"kept")
    transactional.call("tx.commit")
    assert other.get_bodies(queue) == [b"kept"]


@pytest.mark.holds("channel.close: an open transaction is rolled back")
def test_closing_rolls_back(transactional: Channel, other: Channel, queue: str) -> None:
    """Publishes are forgotten, acknowledged deliveries return."""
    other.connection.fill(queue, b"held")
    assert transactional.get(queue, no_ack=False) is not None
    transactional.send("basic.ack", delivery_tag=1)
    transactional.publish("", queue, b"forgotten")
    transactional.call("channel.close", reply_code=200)
    message = other.get(queue)
    assert message is not None
    assert (message.body, message.redelivered) == (b"held", True)
    assert other.get(queue) is None


@pytest.mark.holds("tx.commit: acknowledgements take effect with it")
def test_acks_wait_for_the_commit(transactional: Channel, other: Channel, queue: str) -> None:
    """A committed ack is final, an uncommitted one is not."""
    other.connection.fill(queue, b"1", b"2")
    for _ in range(2):
        assert transactional.get(queue, no_ack=False) is not None
    transactional.send("basic.ack", delivery_tag=1)
    transactional.call("tx.commit")
    transactional.send("basic.ack", delivery_tag=2)
    transactional.call("channel.close", reply_code=200)
    assert other.get_bodies(queue) == [b"2"]


@pytest.mark.holds("tx.rollback: acknowledgements are undone; the deliveries stay with the channel")
def test_a_rolled_back_ack_can_be_given_again(transactional: Channel, other: Channel, queue: str) -> None:
    """Nothing is requeued by the rollback; the same tag is settled afterwards."""
    other.connection.fill(queue, b"m")
    assert transactional.get(queue, no_ack=False) is not None
    transactional.send("basic.ack", delivery_tag=1)
    transactional.call("tx.rollback")
    assert other.get(queue) is None
    transactional.send("basic.nack", delivery_tag=1, requeue=True)
    transactional.call("tx.commit")
    assert other.get_bodies(queue) == [b"m"]


@pytest.mark.holds("basic.recover: what an open transaction has acknowledged stays settled")
def test_recover_spares_what_is_acknowledged(transactional: Channel, other: Channel, queue: str) -> None:
    """Before the commit as well; a rollback gives it back to the channel."""
    other.connection.fill(queue, b"1", b"2")
    for _ in range(2):
        assert transactional.get(queue, no_ack=False) is not None
    transactional.send("basic.ack", delivery_tag=1)
    transactional.call("basic.recover", requeue=True)
    assert other.get_bodies(queue) == [b"2"]
    transactional.call("tx.rollback")
    transactional.call("basic.recover", requeue=True)
    assert other.get_bodies(queue) == [b"1"]


@pytest.mark.holds("tx.commit: nack and reject wait for it as well")
@pytest.mark.parametrize("name", ["basic.nack", "basic.reject"])
def test_requeues_wait_for_the_commit(transactional: Channel, other: Channel, queue: str, name: str) -> None:
    """The message returns with commit-ok."""
    other.connection.fill(queue, b"m")
    assert transactional.get(queue, no_ack=False) is not None
    transactional.send(name, delivery_tag=1, requeue=True)
    transactional.call("basic.qos")
    assert other.get(queue) is None
    transactional.call("tx.commit")
    assert other.get_bodies(queue) == [b"m"]


@pytest.mark.holds("tx: an unknown delivery tag -> 406 at once, not at the commit")
def test_an_unknown_tag_is_told_at_once(transactional: Channel) -> None:
    """The channel closes and with it the transaction."""
    transactional.refused(406, unknown_delivery_tag(9), "basic.ack", delivery_tag=9)


@pytest.mark.holds("tx: a missing exchange -> 404 at once")
def test_a_missing_exchange_is_told_at_once(transactional: Channel, vhost: str) -> None:
    """What was published before it in the transaction is forgotten."""
    transactional.publish("missing-exchange", "key")
    transactional.expect_close(404, no_exchange("missing-exchange", vhost), by="basic.publish")


@pytest.mark.holds("tx.commit: mandatory and unroutable -> basic.return before commit-ok")
def test_returns_come_before_commit_ok(transactional: Channel) -> None:
    """Row 18: not before the commit."""
    transactional.publish("", "no-such-queue", b"lost", mandatory=True)
    transactional.call("basic.qos")
    transactional.send("tx.commit")
    assert transactional.expect_message("basic.return").body == b"lost"
    transactional.expect("tx.commit-ok")


@pytest.mark.holds("tx.commit: many messages in one transaction")
def test_a_large_transaction(transactional: Channel, other: Channel, queue: str) -> None:
    """A thousand, in order, and persistent ones as well."""
    bodies = [b"%d" % index for index in range(1000)]
    for body in bodies:
        transactional.publish("", queue, body, delivery_mode=2)
    transactional.call("tx.commit")
    assert other.get_bodies(queue) == bodies


@pytest.mark.holds("tx.commit: a full queue with reject-publish refuses some of it -> 406")
def test_a_full_queue_makes_it_a_406(transactional: Channel, other: Channel) -> None:
    """All else is done, what was acknowledged, too: the client knows what it has to publish again."""
    limits = {"x-max-length": 1, "x-overflow": "reject-publish"}
    full = other.declare(exclusive=True, arguments=limits)
    for body in (b"1", b"2"):
        transactional.publish("", full, body)
    transactional.send("tx.commit")
    text = transactional.expect_close(406, by="tx.commit")
    assert text.startswith("PRECONDITION_FAILED - partial tx completion")
    assert other.get_bodies(full) == [b"1"]


@pytest.mark.holds("tx.commit: what was published goes where it was routed, though its exchange is gone")
def test_an_exchange_that_goes_before_the_commit(
    transactional: Channel, other: Channel, queue: str, named: Callable[[str], str]
) -> None:
    """A message is routed when it is published; the commit hands it over."""
    exchange = named("exchange")
    other.call("exchange.declare", exchange=exchange, type="fanout")
    other.call("queue.bind", queue=queue, exchange=exchange)
    transactional.publish("", queue, b"1")
    transactional.publish(exchange, "", b"2")
    transactional.publish(exchange, "", b"3", headers={"CC": ["more"]})
    transactional.call("basic.qos")
    other.call("exchange.delete", exchange=exchange)
    transactional.call("tx.commit")
    assert other.get_bodies(queue) == [b"1", b"2", b"3"]


@pytest.mark.holds("tx.commit: a queue that is gone by then gets nothing, the others do")
def test_a_queue_that_goes_before_the_commit(
    transactional: Channel, other: Channel, queue: str, named: Callable[[str], str]
) -> None:
    """Nor does another one of its name."""
    gone = other.declare(named("gone"))
    for name in (gone, queue):
        other.call("queue.bind", queue=name, exchange="amq.direct", routing_key=queue)
    transactional.publish("amq.direct", queue, b"1")
    transactional.call("basic.qos")
    other.call("queue.delete", queue=gone)
    other.declare(gone)
    transactional.call("tx.commit")
    assert other.get_bodies(queue) == [b"1"]
    assert other.get(gone) is None

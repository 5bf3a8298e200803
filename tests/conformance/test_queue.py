"""AMQP class queue: declare, equivalence, exclusivity, names, delete, purge, auto-delete."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.conformance.replies import NO_PREVIOUS_QUEUE, inequivalent, locked_queue, no_queue
from tests.conformance.wire import Connection
from tests.conformance.wire_channel import Channel
from tests.conformance.wire_codec import Typed

Connect = Callable[..., Connection]
Named = Callable[[str], str]
SERVER_NAMED = re.compile(r"amq\.gen-[A-Za-z0-9_-]{22}")
INT = "the value '{}' of type 'signedint'"
STR = "the value '{}' of type 'longstr'"


@pytest.mark.holds("queue.declare: -> name, ready messages, consumers")
def test_declare_ok_counts_ready_messages_and_consumers(connection: Connection, named: Named) -> None:
    """Unacknowledged messages are not ready and do not count."""
    channel = connection.channel()
    queue = channel.declare(named("queue"))
    assert channel.counts(queue) == (0, 0)
    connection.fill(queue, b"1", b"2", b"3")
    assert channel.counts(queue) == (3, 0)
    channel.call("basic.qos", prefetch_count=1)
    channel.consume(queue)
    channel.expect_deliveries(b"1")
    assert channel.counts(queue) == (2, 1)
    again = channel.call("queue.declare", queue=queue)
    assert (again.queue, again.message_count, again.consumer_count) == (queue, 2, 1)


@pytest.mark.ours_only("its count may lag behind the publishes of the same channel")
@pytest.mark.holds("queue.declare: message_count includes what the same channel published before")
def test_counts_are_exact_for_the_same_channel(channel: Channel) -> None:
    """Publish, then ask: the answer knows."""
    queue = channel.declare(exclusive=True)
    for count in range(1, 50):
        channel.publish("", queue, b"m")
        assert channel.counts(queue) == (count, 0)


@pytest.mark.holds("queue.declare: passive, missing -> 404")
@pytest.mark.parametrize("queue", ["missing-queue", "amq.missing", ""])
def test_a_passive_declare_of_a_missing_queue_is_a_404(channel: Channel, vhost: str, queue: str) -> None:
    """Row 1; a reserved or an empty name makes no difference."""
    channel.refused(404, no_queue(queue, vhost), "queue.declare", queue=queue, passive=True)


@pytest.mark.holds("queue.declare: passive ignores flags and arguments")
def test_a_passive_declare_compares_nothing(channel: Channel, named: Named) -> None:
    """Only the name is asked for."""
    queue = channel.declare(named("queue"))
    arguments = {"x-max-length": 3}
    channel.declare(queue, passive=True, durable=True, auto_delete=True, arguments=arguments)


@pytest.mark.holds("queue: another connection's exclusive queue -> 405 for every use")
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("queue.declare", {"exclusive": True}),
        ("queue.declare", {"passive": True}),
        ("queue.declare", {"durable": True}),
        ("queue.bind", {"exchange": "amq.direct"}),
        ("queue.purge", {}),
        ("queue.delete", {}),
        ("basic.consume", {}),
        ("basic.get", {}),
    ],
)
def test_an_exclusive_queue_is_locked_for_others(
    connect: Connect, named: Named, vhost: str, name: str, arguments: dict[str, Any]
) -> None:
    """Row 2: whatever another connection asks of it."""
    queue = connect().channel().declare(named("exclusive"), exclusive=True)
    stranger = connect().channel()
    stranger.refused(405, locked_queue(queue, vhost), name, queue=queue, **arguments)


@pytest.mark.holds("queue: another connection may publish to an exclusive queue")
def test_others_may_publish_to_an_exclusive_queue(connect: Connect, named: Named) -> None:
    """Exclusive is who reads, not who writes: this is how replies arrive."""
    owner = connect().channel()
    queue = owner.declare(named("exclusive"), exclusive=True)
    connect().fill(queue, b"for you")
    assert owner.get_bodies(queue) == [b"for you"]


@pytest.mark.holds("queue.declare: own queue with another exclusive value -> 405, before durable and arguments")
@pytest.mark.parametrize("exclusive", [False, True])
def test_another_exclusive_value_is_a_405(channel: Channel, named: Named, vhost: str, exclusive: bool) -> None:
    """Row 2: checked first, even where more differs."""
    queue = channel.declare(named("queue"), exclusive=exclusive)
    arguments = {"exclusive": not exclusive, "auto_delete": True, "arguments": {"x-max-length": 1}}
    channel.refused(405, locked_queue(queue, vhost), "queue.declare", queue=queue, **arguments)


@pytest.mark.holds("queue: an exclusive queue goes with its connection")
def test_an_exclusive_queue_goes_with_its_connection(connect: Connect, named: Named, vhost: str) -> None:
    """Also a durable one; when close-ok has come, the name is free."""
    owner = connect()
    queue = owner.channel().declare(named("exclusive"), exclusive=True, durable=True)
    owner.close()
    connect().channel().refused(404, no_queue(queue, vhost), "queue.declare", queue=queue, passive=True)


@pytest.mark.holds("queue.declare: redeclare with another durable or auto_delete -> 406")
@pytest.mark.parametrize("current", [False, True])
@pytest.mark.parametrize("argument", ["durable", "auto_delete"])
def test_other_flags_are_a_406(channel: Channel, named: Named, vhost: str, argument: str, current: bool) -> None:
    """Row 3: received and current as true and false."""
    queue = channel.declare(named("queue"), **{argument: current})
    values = [f"'{str(value).lower()}'" for value in (not current, current)]
    text = inequivalent(argument, "queue", queue, vhost, *values)
    channel.refused(406, text, "queue.declare", queue=queue, **{argument: not current})


@pytest.mark.holds("queue.declare: differences are named in the order durable, auto_delete, arguments")
def test_the_first_difference_is_named(connection: Connection, named: Named, vhost: str) -> None:
    """Row 3: one of many."""
    queue = connection.channel().declare(named("queue"))
    change: dict[str, Any] = {"durable": True, "auto_delete": True, "arguments": {"x-max-length": 1}}
    for argument in ("durable", "auto_delete"):
        text = inequivalent(argument, "queue", queue, vhost, "'true'", "'false'")
        connection.channel().refused(406, text, "queue.declare", queue=queue, **change)
        del change[argument]


@pytest.mark.holds("queue.declare: redeclare with other arguments -> 406")
@pytest.mark.parametrize(
    ("argument", "before", "after", "received", "current"),
    [
        ("x-max-length", None, 10, INT.format(10), "none"),
        ("x-max-length", 10, None, "none", INT.format(10)),
        ("x-max-length", 10, 20, "'20'", "'10'"),
        ("x-max-length-bytes", 10, None, "none", INT.format(10)),
        ("x-message-ttl", 1000, 2000, "'2000'", "'1000'"),
        ("x-expires", None, 60_000, INT.format(60_000), "none"),
        ("x-dead-letter-exchange", "a", "b", "'b'", "'a'"),
        ("x-dead-letter-exchange", "a", None, "none", STR.format("a")),
        ("x-overflow", "drop-head", "reject-publish", "'reject-publish'", "'drop-head'"),
        ("x-max-priority", None, 5, INT.format(5), "none"),
        ("x-queue-mode", None, "lazy", STR.format("lazy"), "none"),
    ],
)
def test_other_arguments_are_a_406(
    channel: Channel,
    named: Named,
    vhost: str,
    argument: str,
    before: Any,
    after: Any,
    received: str,
    current: str,
) -> None:
    """Row 3: absent on one side says none and the other's type; two values are compared without types."""
    queue = named("queue")
    tables = [{} if value is None else {argument: value} for value in (before, after)]
    channel.declare(queue, arguments=tables[0])
    text = inequivalent(argument, "queue", queue, vhost, received, current)
    channel.refused(406, text, "queue.declare", queue=queue, arguments=tables[1])


@pytest.mark.holds("queue.declare: a number is not equal to one of another kind -> 406")
def test_a_double_is_no_integer(channel: Channel, named: Named) -> None:
    """Not even if they have the same value."""
    queue = channel.declare(named("queue"), arguments={"x-message-ttl": 10})
    channel.send("queue.declare", queue=queue, arguments={"x-message-ttl": 10.0})
    assert "inequivalent arg 'x-message-ttl'" in channel.expect_close(406)


@pytest.mark.holds("queue.declare: integer arguments are equal by value, whatever their size")
@pytest.mark.parametrize("kind", ["b", "B", "s", "u", "I", "i", "l"])
def test_integers_compare_by_value(channel: Channel, named: Named, kind: str) -> None:
    """Row 3: clients choose the letter by the size of the number."""
    queue = channel.declare(named("queue"), arguments={"x-max-length": Typed("l", 10)})
    channel.declare(queue, arguments={"x-max-length": Typed(kind, 10)})


@pytest.mark.holds("queue.declare: x-queue-type classic is the same as none")
def test_an_absent_queue_type_is_classic(channel: Channel, named: Named) -> None:
    """Row 3, in both directions."""
    for before, after in (({}, {"x-queue-type": "classic"}), ({"x-queue-type": "classic"}, {})):
        queue = channel.declare(named("queue"), arguments=before)
        channel.declare(queue, arguments=after)


@pytest.mark.holds("queue.declare: unknown arguments are accepted and not compared")
def test_unknown_arguments_do_not_matter(channel: Channel, named: Named) -> None:
    """Clients put their own notes there."""
    queue = channel.declare(named("queue"), arguments={"x-note": 1})
    channel.declare(queue, arguments={"note": "other"})


@pytest.mark.holds("queue.declare: durable and exclusive -> equal to exclusive alone")
def test_durable_exclusive_is_not_durable(channel: Channel, named: Named) -> None:
    """Row 7: equivalence uses what is stored."""
    queue = channel.declare(named("queue"), durable=True, exclusive=True)
    channel.declare(queue, durable=False, exclusive=True)
    channel.declare(queue, durable=True, exclusive=True)


@pytest.mark.holds("queue.declare: empty name -> amq.gen- and 22 characters, another one each time")
def test_server_named_queues(channel: Channel) -> None:
    """Row 4: URL-safe base 64 of 16 octets."""
    names = [channel.declare(exclusive=True) for _ in range(5)]
    assert len(set(names)) == 5
    assert all(SERVER_NAMED.fullmatch(name) for name in names), names


@pytest.mark.holds("queue.declare: passive, of a server-named queue -> ok")
def test_a_server_named_queue_may_be_asked_for(channel: Channel) -> None:
    """Row 5: the reserved prefix is no obstacle to a question."""
    assert channel.counts(channel.declare(exclusive=True)) == (0, 0)


@pytest.mark.ours_only("403, even for one's own queue; the specification allows names that exist")
@pytest.mark.holds("queue.declare: redeclare of an existing amq.gen- queue -> ok")
def test_a_server_named_queue_may_be_redeclared(channel: Channel) -> None:
    """Row 5: only new reserved names are refused."""
    queue = channel.declare(exclusive=True)
    assert channel.declare(queue, exclusive=True) == queue


@pytest.mark.holds("queue.declare: new name with the prefix amq. -> 403")
def test_a_reserved_name_is_a_403(channel: Channel) -> None:
    """Row 5."""
    text = "ACCESS_REFUSED - queue name 'amq.mine' contains reserved prefix 'amq.*'"
    channel.refused(403, text, "queue.declare", queue="amq.mine")


@pytest.mark.holds("queue.declare: CR and LF in a name are stripped")
def test_line_breaks_in_a_name_are_stripped(channel: Channel, named: Named) -> None:
    """Row 6: declare-ok carries the clean name."""
    queue = named("queue")
    assert channel.declare(f"{queue[:3]}\r\n{queue[3:]}\n") == queue


@pytest.mark.holds("queue.declare: names are octets; any UTF-8 and 255 octets are fine")
@pytest.mark.parametrize("stem", ["Grüße/世界 with spaces", "x" * 242])
def test_unusual_names_are_fine(connection: Connection, named: Named, stem: str) -> None:
    """Declared, filled and read under the same octets."""
    channel = connection.channel()
    queue = named(stem)
    assert channel.declare(queue) == queue
    connection.fill(queue, b"m")
    assert channel.get_bodies(queue) == [b"m"]


@pytest.mark.holds("queue: an empty name without a declared queue -> 404")
@pytest.mark.parametrize(
    "name", ["queue.bind", "queue.unbind", "queue.purge", "queue.delete", "basic.consume", "basic.get"]
)
def test_no_previously_declared_queue_is_a_404(channel: Channel, name: str) -> None:
    """Row 4: the most recent name is the channel's own."""
    arguments = {"exchange": "amq.direct"} if name in ("queue.bind", "queue.unbind") else {}
    channel.refused(404, NO_PREVIOUS_QUEUE, name, **arguments)


@pytest.mark.holds("queue: an empty name is the channel's last declared queue")
def test_the_last_declared_queue_is_meant(connection: Connection, vhost: str) -> None:
    """In consume, get, purge and delete."""
    channel = connection.channel()
    first, second = channel.declare(exclusive=True), channel.declare(exclusive=True)
    connection.fill(second, b"1", b"2", b"3")
    message = channel.get("")
    assert message is not None
    assert message.body == b"1"
    assert channel.call("queue.purge").message_count == 2
    tag = channel.consume("")
    assert channel.counts(second) == (0, 1)
    channel.call("basic.cancel", consumer_tag=tag)
    channel.call("queue.delete")
    assert channel.counts(first) == (0, 0)
    channel.refused(404, no_queue(second, vhost), "queue.declare", queue=second, passive=True)


@pytest.mark.holds("queue.declare: nowait has no answer; errors still close the channel")
def test_nowait_declares_silently(channel: Channel, named: Named, vhost: str) -> None:
    """Row 33."""
    queue = named("queue")
    channel.send("queue.declare", queue=queue, nowait=True)
    assert channel.counts(queue) == (0, 0)
    channel.send("queue.declare", queue=queue, durable=True, nowait=True)
    text = inequivalent("durable", "queue", queue, vhost, "'true'", "'false'")
    channel.expect_close(406, text, by="queue.declare")


@pytest.mark.holds("queue.purge: -> how many ready messages went; unacknowledged ones stay")
def test_purge_takes_ready_messages(connection: Connection) -> None:
    """What a consumer holds is not purged, and comes back when it is requeued."""
    channel = connection.channel()
    queue = channel.declare(exclusive=True)
    connection.fill(queue, b"1", b"2", b"3")
    held = channel.get(queue, no_ack=False)
    assert held is not None
    assert channel.call("queue.purge", queue=queue).message_count == 2
    assert channel.call("queue.purge", queue=queue).message_count == 0
    channel.send("basic.reject", delivery_tag=held.delivery_tag, requeue=True)
    assert channel.get_bodies(queue) == [b"1"]


@pytest.mark.holds("queue.purge: missing -> 404")
def test_purging_a_missing_queue_is_a_404(channel: Channel, vhost: str) -> None:
    """Purge is not idempotent in this sense."""
    channel.refused(404, no_queue("missing-queue", vhost), "queue.purge", queue="missing-queue")


@pytest.mark.holds("queue.purge: nowait has no answer")
def test_nowait_purges_silently(connection: Connection) -> None:
    """The next request sees the empty queue."""
    channel = connection.channel()
    queue = channel.declare(exclusive=True)
    connection.fill(queue, b"1", b"2")
    channel.send("queue.purge", queue=queue, nowait=True)
    assert channel.get(queue) is None


@pytest.mark.holds("queue.delete: -> how many ready messages went; missing -> 0")
def test_delete_counts(connection: Connection, named: Named) -> None:
    """Deleting what is gone is ok and counts nothing."""
    channel = connection.channel()
    queue = channel.declare(named("queue"))
    connection.fill(queue, b"1", b"2", b"3")
    assert channel.call("queue.delete", queue=queue).message_count == 3
    assert channel.call("queue.delete", queue=queue).message_count == 0


@pytest.mark.holds("queue.delete: if_unused with consumers -> 406")
def test_deleting_a_used_queue_is_a_406(connection: Connection, named: Named, vhost: str) -> None:
    """Once the consumer is gone the same request succeeds."""
    channel = connection.channel()
    queue = channel.declare(named("queue"))
    tag = channel.consume(queue)
    text = f"PRECONDITION_FAILED - queue '{queue}' in vhost '{vhost}' in use"
    connection.channel().refused(406, text, "queue.delete", queue=queue, if_unused=True)
    channel.call("basic.cancel", consumer_tag=tag)
    channel.call("queue.delete", queue=queue, if_unused=True)


@pytest.mark.holds("queue.delete: if_empty with ready messages -> 406")
def test_deleting_a_filled_queue_is_a_406(connection: Connection, named: Named, vhost: str) -> None:
    """Once it is empty the same request succeeds."""
    channel = connection.channel()
    queue = channel.declare(named("queue"))
    connection.fill(queue, b"m")
    text = f"PRECONDITION_FAILED - queue '{queue}' in vhost '{vhost}' not empty"
    connection.channel().refused(406, text, "queue.delete", queue=queue, if_empty=True)
    assert channel.get_bodies(queue) == [b"m"]
    channel.call("queue.delete", queue=queue, if_empty=True)


@pytest.mark.holds("queue.delete: nowait has no answer")
def test_nowait_deletes_silently(channel: Channel, named: Named, vhost: str) -> None:
    """The next request finds it gone."""
    queue = channel.declare(named("queue"))
    channel.send("queue.delete", queue=queue, nowait=True)
    channel.refused(404, no_queue(queue, vhost), "queue.declare", queue=queue, passive=True)


@pytest.mark.holds("queue.declare: auto_delete goes with its last consumer, and only after a first one")
def test_an_auto_delete_queue_goes_with_its_last_consumer(connection: Connection, named: Named, vhost: str) -> None:
    """Row 34: without consumers it stays, basic.get is no consumer; the second cancel removes it."""
    channel = connection.channel()
    queue = channel.declare(named("queue"), auto_delete=True)
    connection.fill(queue, b"m")
    assert channel.get_bodies(queue) == [b"m"]
    tags = [channel.consume(queue), channel.consume(queue)]
    channel.call("basic.cancel", consumer_tag=tags[0])
    assert channel.counts(queue) == (0, 1)
    channel.call("basic.cancel", consumer_tag=tags[1])
    channel.refused(404, no_queue(queue, vhost), "queue.declare", queue=queue, passive=True)


@pytest.mark.one_process("another worker hears of it a moment later")
@pytest.mark.holds("queue.declare: auto_delete goes when its last consumer's channel or connection closes")
@pytest.mark.parametrize("whole", [False, True], ids=["channel", "connection"])
def test_an_auto_delete_queue_goes_with_the_channel(connect: Connect, named: Named, vhost: str, whole: bool) -> None:
    """Row 34: leaving without a cancel counts as well."""
    connection, witness = connect(), connect().channel()
    channel = connection.channel()
    queue = channel.declare(named("queue"), auto_delete=True)
    channel.consume(queue)
    if whole:
        connection.close()
    else:
        channel.call("channel.close", reply_code=200)
    witness.refused(404, no_queue(queue, vhost), "queue.declare", queue=queue, passive=True)

"""AMQP class exchange: declare, delete, the predeclared ones, equivalence, auto-delete, internal, alternate
exchanges.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.conformance.replies import DEFAULT_EXCHANGE, inequivalent, no_exchange, no_queue
from tests.conformance.wire import Connection
from tests.conformance.wire_channel import Channel
from tests.conformance.wire_codec import Typed

Named = Callable[[str], str]


def _exists(connection: Connection, exchange: str) -> bool:
    channel = connection.channel()
    channel.send("exchange.declare", exchange=exchange, passive=True)
    answer = channel.next_method()
    if answer.name == "exchange.declare-ok":
        return True
    assert (answer.name, answer.reply_code) == ("channel.close", 404)
    channel.send("channel.close-ok")
    return False


@pytest.mark.holds("exchange.declare: direct, fanout, topic, headers")
@pytest.mark.parametrize("kind", ["direct", "fanout", "topic", "headers"])
@pytest.mark.parametrize("durable", [False, True])
def test_the_four_types_can_be_declared(channel: Channel, named: Named, kind: str, durable: bool) -> None:
    """And again, unchanged, which is ok."""
    exchange = named("exchange")
    for _ in range(2):
        channel.call("exchange.declare", exchange=exchange, type=kind, durable=durable)


@pytest.mark.holds("exchange: amq.direct, amq.fanout, amq.topic, amq.headers, amq.match are predeclared and durable")
@pytest.mark.parametrize(
    ("exchange", "kind"),
    [
        ("amq.direct", "direct"),
        ("amq.fanout", "fanout"),
        ("amq.topic", "topic"),
        ("amq.headers", "headers"),
        ("amq.match", "headers"),
    ],
)
def test_the_predeclared_exchanges(channel: Channel, exchange: str, kind: str) -> None:
    """They may be redeclared as they are, though their names are reserved."""
    channel.call("exchange.declare", exchange=exchange, passive=True)
    channel.call("exchange.declare", exchange=exchange, type=kind, durable=True)


@pytest.mark.holds("exchange: amq.rabbitmq.trace is predeclared and internal")
def test_the_trace_exchange_is_internal(channel: Channel, vhost: str) -> None:
    """It exists, and clients cannot publish to it."""
    channel.call("exchange.declare", exchange="amq.rabbitmq.trace", passive=True)
    channel.publish("amq.rabbitmq.trace", "key")
    text = f"ACCESS_REFUSED - cannot publish to internal exchange 'amq.rabbitmq.trace' in vhost '{vhost}'"
    channel.expect_close(403, text, by="basic.publish")


@pytest.mark.holds("exchange.declare: passive, missing -> 404")
@pytest.mark.parametrize("exchange", ["missing-exchange", "amq.missing"])
def test_a_passive_declare_of_a_missing_exchange_is_a_404(channel: Channel, vhost: str, exchange: str) -> None:
    """A reserved name makes no difference to a question."""
    text = no_exchange(exchange, vhost)
    channel.refused(404, text, "exchange.declare", exchange=exchange, passive=True)


@pytest.mark.holds("exchange.declare: passive ignores type and flags")
def test_a_passive_declare_compares_nothing(channel: Channel, named: Named) -> None:
    """Only the name is asked for, even with a type that does not exist."""
    exchange = named("exchange")
    channel.call("exchange.declare", exchange=exchange, type="direct")
    channel.call("exchange.declare", exchange=exchange, type="nonsense", durable=True, passive=True)


@pytest.mark.ours_only("503 and the end of the connection; 4.x made it a 406")
@pytest.mark.holds("exchange.declare: unknown type -> 406")
@pytest.mark.parametrize("kind", ["nonsense", ""])
def test_an_unknown_type_is_a_406(channel: Channel, named: Named, kind: str) -> None:
    """A soft error that names the type."""
    channel.send("exchange.declare", exchange=named("exchange"), type=kind)
    assert f"exchange type '{kind}'" in channel.expect_close(406, by="exchange.declare")


@pytest.mark.holds("exchange.declare: new name with the prefix amq. -> 403")
def test_a_reserved_name_is_a_403(channel: Channel) -> None:
    """Names that begin with amq. are the broker's."""
    text = "ACCESS_REFUSED - exchange name 'amq.mine' contains reserved prefix 'amq.*'"
    channel.refused(403, text, "exchange.declare", exchange="amq.mine", type="direct")


@pytest.mark.holds("exchange.declare: redeclare with another type, durable, auto_delete or internal -> 406")
@pytest.mark.parametrize(
    ("argument", "received", "current", "change"),
    [
        ("type", "'fanout'", "'direct'", {"type": "fanout"}),
        ("durable", "'true'", "'false'", {"durable": True}),
        ("auto_delete", "'true'", "'false'", {"auto_delete": True}),
        ("internal", "'true'", "'false'", {"internal": True}),
        ("type", "'fanout'", "'direct'", {"type": "fanout", "durable": True, "auto_delete": True}),
        ("durable", "'true'", "'false'", {"durable": True, "auto_delete": True, "internal": True}),
        ("auto_delete", "'true'", "'false'", {"auto_delete": True, "internal": True}),
    ],
)
def test_an_inequivalent_redeclare_is_a_406(
    channel: Channel,
    named: Named,
    vhost: str,
    argument: str,
    received: str,
    current: str,
    change: dict[str, Any],
) -> None:
    """The first difference is named, in the order type, durable, auto_delete, internal."""
    exchange = named("exchange")
    channel.call("exchange.declare", exchange=exchange, type="direct")
    text = inequivalent(argument, "exchange", exchange, vhost, received, current)
    channel.refused(406, text, "exchange.declare", **{"exchange": exchange, "type": "direct", **change})


@pytest.mark.holds("exchange.declare: redeclare with another alternate-exchange -> 406")
@pytest.mark.parametrize(
    ("before", "after", "received", "current"),
    [
        (None, "other", "the value 'other' of type 'longstr'", "none"),
        ("one", "other", "'other'", "'one'"),
        ("one", None, "none", "the value 'one' of type 'longstr'"),
    ],
)
def test_another_alternate_exchange_is_a_406(
    channel: Channel,
    named: Named,
    vhost: str,
    before: str | None,
    after: str | None,
    received: str,
    current: str,
) -> None:
    """Given, changed or left out: each has its text."""
    exchange = named("exchange")
    tables = [{"alternate-exchange": value} if value else {} for value in (before, after)]
    channel.call("exchange.declare", exchange=exchange, type="direct", arguments=tables[0])
    text = inequivalent("alternate-exchange", "exchange", exchange, vhost, received, current)
    channel.refused(406, text, "exchange.declare", exchange=exchange, type="direct", arguments=tables[1])


@pytest.mark.holds("exchange.declare: unknown arguments are kept and not compared")
def test_unknown_arguments_do_not_matter(channel: Channel, named: Named) -> None:
    """Clients put their own notes there."""
    exchange = named("exchange")
    channel.call("exchange.declare", exchange=exchange, type="direct", arguments={"note": 1})
    channel.call("exchange.declare", exchange=exchange, type="direct", arguments={"other": 2})


@pytest.mark.holds("exchange.declare: alternate-exchange of another type than a string -> 406")
def test_an_alternate_exchange_must_be_a_string(channel: Channel, named: Named, vhost: str) -> None:
    """The text names the type that was sent."""
    exchange = named("exchange")
    text = (
        "PRECONDITION_FAILED - invalid type 'signedint' for arg 'alternate-exchange' "
        f"in exchange '{exchange}' in vhost '{vhost}'"
    )
    arguments = {"alternate-exchange": Typed("I", 5)}
    channel.refused(406, text, "exchange.declare", exchange=exchange, type="direct", arguments=arguments)


@pytest.mark.holds("exchange: the default exchange can be neither declared, deleted, bound nor unbound -> 403")
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("exchange.declare", {"type": "direct"}),
        ("exchange.declare", {"passive": True}),
        ("exchange.delete", {}),
        ("exchange.bind", {"destination": "amq.direct"}),
        ("exchange.bind", {"source": "amq.direct"}),
        ("exchange.unbind", {"destination": "amq.direct"}),
        ("exchange.unbind", {"source": "amq.direct"}),
    ],
)
def test_the_default_exchange_is_untouchable(channel: Channel, name: str, arguments: dict[str, Any]) -> None:
    """Its bindings are implied: every queue, by its name."""
    channel.refused(403, DEFAULT_EXCHANGE, name, **arguments)


@pytest.mark.holds("exchange.declare: nowait has no answer; errors still close the channel")
def test_nowait_declares_silently(channel: Channel, named: Named, vhost: str) -> None:
    """The next answer belongs to the next request; a mistake is told all the same."""
    exchange = named("exchange")
    channel.send("exchange.declare", exchange=exchange, type="fanout", nowait=True)
    channel.call("exchange.declare", exchange=exchange, passive=True)
    channel.send("exchange.declare", exchange=exchange, type="direct", nowait=True)
    text = inequivalent("type", "exchange", exchange, vhost, "'direct'", "'fanout'")
    channel.expect_close(406, text, by="exchange.declare")


@pytest.mark.holds("exchange.delete: existing, missing, nowait -> ok")
def test_deleting_is_idempotent(connection: Connection, named: Named) -> None:
    """What is gone is gone; deleting it again is no mistake."""
    channel, exchange = connection.channel(), named("exchange")
    channel.call("exchange.declare", exchange=exchange, type="direct")
    channel.send("exchange.delete", exchange=exchange, nowait=True)
    channel.call("exchange.delete", exchange=exchange)
    assert not _exists(connection, exchange)


@pytest.mark.holds("exchange.delete: if_unused and bound -> 406")
def test_deleting_a_bound_exchange_if_unused_is_a_406(connection: Connection, named: Named, vhost: str) -> None:
    """A binding to a queue is a use; without it the same request succeeds."""
    channel, exchange = connection.channel(), named("exchange")
    channel.call("exchange.declare", exchange=exchange, type="direct")
    queue = channel.declare(exclusive=True)
    channel.call("queue.bind", queue=queue, exchange=exchange, routing_key="key")
    text = f"PRECONDITION_FAILED - exchange '{exchange}' in vhost '{vhost}' in use"
    connection.channel().refused(406, text, "exchange.delete", exchange=exchange, if_unused=True)
    channel.call("queue.unbind", queue=queue, exchange=exchange, routing_key="key")
    channel.call("exchange.delete", exchange=exchange, if_unused=True)


@pytest.mark.holds("exchange.delete: a predeclared one or any name with the prefix amq. -> 403")
@pytest.mark.parametrize("exchange", ["amq.direct", "amq.missing"])
def test_deleting_a_system_exchange_is_a_403(channel: Channel, vhost: str, exchange: str) -> None:
    """The broker's own exchanges stay."""
    text = f"ACCESS_REFUSED - deletion of system exchange '{exchange}' in vhost '{vhost}' not allowed"
    channel.refused(403, text, "exchange.delete", exchange=exchange)


@pytest.mark.holds("exchange.declare: internal; basic.publish to it -> 403")
def test_an_internal_exchange_takes_no_publish(connection: Connection, named: Named, vhost: str) -> None:
    """It receives from other exchanges only."""
    channel, internal, public = connection.channel(), named("internal"), named("public")
    channel.call("exchange.declare", exchange=internal, type="fanout", internal=True)
    channel.call("exchange.declare", exchange=public, type="fanout")
    channel.call("exchange.bind", destination=internal, source=public)
    queue = channel.declare(exclusive=True)
    channel.call("queue.bind", queue=queue, exchange=internal)
    channel.publish(public, "", b"through")
    assert channel.get_bodies(queue) == [b"through"]
    channel.publish(internal, "", b"refused")
    text = f"ACCESS_REFUSED - cannot publish to internal exchange '{internal}' in vhost '{vhost}'"
    channel.expect_close(403, text, by="basic.publish")


@pytest.mark.holds("exchange.declare: auto_delete goes with the last binding, and only after a first one")
def test_an_auto_delete_exchange_goes_with_its_last_binding(connection: Connection, named: Named) -> None:
    """Unbound from the start it stays; with two bindings the second unbind removes it."""
    channel, exchange = connection.channel(), named("exchange")
    channel.call("exchange.declare", exchange=exchange, type="direct", auto_delete=True)
    queue = channel.declare(exclusive=True)
    assert _exists(connection, exchange)
    for key in ("one", "two"):
        channel.call("queue.bind", queue=queue, exchange=exchange, routing_key=key)
    channel.call("queue.unbind", queue=queue, exchange=exchange, routing_key="one")
    assert _exists(connection, exchange)
    channel.call("queue.unbind", queue=queue, exchange=exchange, routing_key="two")
    assert not _exists(connection, exchange)


@pytest.mark.holds("exchange.declare: auto_delete goes when its last bound queue is deleted")
def test_an_auto_delete_exchange_goes_with_its_last_queue(connection: Connection, named: Named) -> None:
    """A queue takes its bindings along."""
    channel, exchange = connection.channel(), named("exchange")
    channel.call("exchange.declare", exchange=exchange, type="fanout", auto_delete=True)
    queue = channel.declare(exclusive=True)
    channel.call("queue.bind", queue=queue, exchange=exchange)
    channel.call("queue.delete", queue=queue)
    assert not _exists(connection, exchange)


@pytest.mark.holds("exchange.declare: auto_delete follows exchange-to-exchange bindings of which it is the source")
def test_an_auto_delete_exchange_goes_with_its_last_destination(connection: Connection, named: Named) -> None:
    """A chain of two disappears from its end to its beginning."""
    channel, first, second = connection.channel(), named("first"), named("second")
    for exchange in (first, second):
        channel.call("exchange.declare", exchange=exchange, type="fanout", auto_delete=True)
    channel.call("exchange.bind", destination=second, source=first)
    queue = channel.declare(exclusive=True)
    channel.call("queue.bind", queue=queue, exchange=second)
    channel.call("queue.delete", queue=queue)
    assert not _exists(connection, second)
    assert not _exists(connection, first)


@pytest.mark.holds(
    "exchange: a durable exchange and its bindings to durable queues survive a restart (see test_restart)"
)
@pytest.mark.holds("exchange.declare: CR and LF in a name are stripped")
def test_line_breaks_in_a_name_are_stripped(channel: Channel, named: Named) -> None:
    """What comes back under the clean name is the same exchange."""
    exchange = named("exchange")
    channel.call("exchange.declare", exchange=f"{exchange[:4]}\r\n{exchange[4:]}\n", type="fanout")
    channel.call("exchange.declare", exchange=exchange, passive=True)


@pytest.mark.holds("queue.bind, queue.delete, exchange.bind, exchange.delete: CR and LF in names are stripped")
def test_line_breaks_are_stripped_wherever_something_changes(channel: Channel, named: Named) -> None:
    """Who declared it so can bind and delete it so."""
    exchange, second, queue = named("exchange"), named("exchange"), named("queue")
    for name in (exchange, second):
        channel.call("exchange.declare", exchange=name, type="fanout")
    channel.declare(queue)
    ends = {"source": f"{exchange}\n", "destination": f"{second}\r\n"}
    channel.call("exchange.bind", **ends)
    channel.call("queue.bind", queue=f"{queue}\n", exchange=f"\n{second}")
    channel.publish(exchange, "", b"1")
    channel.call("queue.unbind", queue=f"{queue}\n", exchange=f"\n{second}")
    channel.publish(exchange, "", b"2")
    channel.call("queue.bind", queue=queue, exchange=second)
    channel.call("exchange.unbind", **ends)
    channel.publish(exchange, "", b"3")
    assert channel.get_bodies(queue) == [b"1"]
    channel.call("queue.delete", queue=f"{queue}\r")
    channel.refused(404, no_queue(queue, channel.connection.address.vhost), "queue.purge", queue=queue)
    other = channel.connection.channel()
    other.call("exchange.delete", exchange=f"{exchange}\r")
    vhost = channel.connection.address.vhost
    other.refused(404, no_exchange(exchange, vhost), "exchange.declare", exchange=exchange, passive=True)


@pytest.mark.holds("alternate-exchange: takes what the exchange cannot route")
def test_an_alternate_exchange_takes_the_unroutable(channel: Channel, named: Named) -> None:
    """With its original routing key, and named as the original exchange."""
    exchange, alternate = named("exchange"), named("alternate")
    channel.call("exchange.declare", exchange=alternate, type="fanout")
    arguments = {"alternate-exchange": alternate}
    channel.call("exchange.declare", exchange=exchange, type="direct", arguments=arguments)
    routed, unrouted = channel.declare(exclusive=True), channel.declare(exclusive=True)
    channel.call("queue.bind", queue=routed, exchange=exchange, routing_key="known")
    channel.call("queue.bind", queue=unrouted, exchange=alternate)
    channel.publish(exchange, "known", b"a", mandatory=True)
    channel.publish(exchange, "unknown", b"b", mandatory=True)
    message = channel.get(unrouted)
    assert message is not None
    assert (message.body, message.exchange, message.routing_key) == (b"b", exchange, "unknown")
    assert channel.get_bodies(unrouted) == []
    assert channel.get_bodies(routed) == [b"a"]


@pytest.mark.holds("alternate-exchange: mandatory is returned only if the alternate fails too")
def test_mandatory_asks_the_alternate_first(channel: Channel, named: Named) -> None:
    """A chain of alternates is followed to its end; a missing one is passed over."""
    names = [named("exchange") for _ in range(3)]
    for exchange, alternate in zip(names, [*names[1:], "missing-alternate"], strict=True):
        arguments = {"alternate-exchange": alternate}
        channel.call("exchange.declare", exchange=exchange, type="direct", arguments=arguments)
    channel.publish(names[0], "nowhere", b"lost", mandatory=True)
    returned = channel.expect_message("basic.return")
    assert (returned.reply_code, returned.exchange, returned.body) == (312, names[0], b"lost")
    queue = channel.declare(exclusive=True)
    channel.call("queue.bind", queue=queue, exchange=names[2], routing_key="nowhere")
    channel.publish(names[0], "nowhere", b"found", mandatory=True)
    assert channel.get_bodies(queue) == [b"found"]


@pytest.mark.holds("alternate-exchange: a cycle of alternates ends")
def test_a_cycle_of_alternates_ends(channel: Channel, named: Named) -> None:
    """Two exchanges that name each other: the message is returned once."""
    first, second = named("first"), named("second")
    for exchange, alternate in ((first, second), (second, first)):
        arguments = {"alternate-exchange": alternate}
        channel.call("exchange.declare", exchange=exchange, type="direct", arguments=arguments)
    channel.publish(first, "nowhere", b"lost", mandatory=True)
    assert channel.expect_message("basic.return").body == b"lost"
    channel.expect_silence()

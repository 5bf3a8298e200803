"""Users, permissions, topic permissions: who may do what, and the texts of refusals."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from interop_tests.administration import Administrator
from tests.conformance.replies import no_queue
from tests.conformance.wire import Address, Connection
from tests.conformance.wire_channel import Channel

Connect = Callable[..., Connection]
PASSWORD = "correct horse"


class Account(NamedTuple):
    """A user without permissions yet, in a vhost that the suite's own user has filled."""

    vhost: str
    user: str
    admin: Administrator

    def grant(self, configure: str = "^$", write: str = "^$", read: str = "^$") -> None:
        self.admin.put_permission(self.user, self.vhost, configure, write, read)


@pytest.fixture(scope="module")
def account(admin: Administrator, address: Address) -> Iterator[Account]:
    unique = uuid.uuid4().hex[:8]
    account = Account(f"vhost-{unique}", f"user-{unique}", admin)
    admin.create_vhost(account.vhost)
    admin.put_user(account.user, PASSWORD)
    admin.put_permission("guest", account.vhost, ".*", ".*", ".*")
    owner = Connection(address).open(vhost=account.vhost)
    channel = owner.channel()
    channel.declare("old", durable=True)
    for exchange, kind in (("direct-x", "direct"), ("other-x", "fanout"), ("topic-x", "topic")):
        channel.call("exchange.declare", exchange=exchange, type=kind, durable=True)
    owner.close()
    yield account
    admin.delete_vhost(account.vhost)


@pytest.fixture
def login(connect: Connect, account: Account) -> Callable[[], Channel]:
    """Logs the account's user in and opens a channel."""

    def logged_in() -> Channel:
        return connect(user=account.user, password=PASSWORD, vhost=account.vhost).channel()

    return logged_in


def _expect_refusal(channel: Channel, account: Account, kind: str, name: str, by: str) -> None:
    text = channel.expect_close(403, by=by)
    wanted = f"access to {kind} '{name}' in vhost '{account.vhost}' refused for user '{account.user}'"
    pattern = f"ACCESS_REFUSED - ((configure|write|read) )?{re.escape(wanted)}"
    assert re.fullmatch(pattern, text), text


@pytest.mark.holds("connection.open: a vhost without permission -> 530")
def test_a_vhost_without_permission_is_a_530(dial: Callable[[], Connection], account: Account) -> None:
    """The user exists and the vhost exists; they do not belong together."""
    connection = dial()
    connection.start()
    connection.send_start_ok(account.user, PASSWORD)
    connection.tune()
    vhost = connection.address.vhost
    connection.send_method(0, "connection.open", virtual_host=vhost)
    text = f"NOT_ALLOWED - access to vhost '{vhost}' refused for user '{account.user}'"
    connection.expect_close(530, text, by="connection.open")


@pytest.mark.holds("permissions: without configure, write or read -> 403 that names resource, vhost and user")
@pytest.mark.parametrize(
    ("name", "arguments", "kind", "resource"),
    [
        ("queue.declare", {"queue": "new"}, "queue", "new"),
        ("queue.delete", {"queue": "old"}, "queue", "old"),
        ("queue.purge", {"queue": "old"}, "queue", "old"),
        ("queue.bind", {"queue": "old", "exchange": "direct-x"}, "queue", "old"),
        ("queue.unbind", {"queue": "old", "exchange": "direct-x"}, "queue", "old"),
        ("exchange.declare", {"exchange": "new", "type": "direct"}, "exchange", "new"),
        ("exchange.delete", {"exchange": "direct-x"}, "exchange", "direct-x"),
        ("exchange.bind", {"source": "direct-x", "destination": "other-x"}, "exchange", "other-x"),
        ("exchange.unbind", {"source": "direct-x", "destination": "other-x"}, "exchange", "other-x"),
        ("basic.consume", {"queue": "old"}, "queue", "old"),
        ("basic.get", {"queue": "old"}, "queue", "old"),
        ("basic.get", {"queue": "missing"}, "queue", "missing"),
    ],
)
def test_without_permissions_everything_is_refused(
    login: Callable[[], Channel],
    account: Account,
    name: str,
    arguments: dict[str, Any],
    kind: str,
    resource: str,
) -> None:
    """Also for what does not exist: a stranger learns nothing."""
    account.grant()
    channel = login()
    channel.send(name, **arguments)
    _expect_refusal(channel, account, kind, resource, by=name)


@pytest.mark.holds("permissions: basic.publish without write -> 403; the default exchange is amq.default")
@pytest.mark.parametrize(("exchange", "shown"), [("direct-x", "direct-x"), ("", "amq.default"), ("missing", "missing")])
def test_publishing_without_write_is_refused(
    login: Callable[[], Channel], account: Account, exchange: str, shown: str
) -> None:
    """Asynchronously, like a missing exchange."""
    account.grant(configure=".*", read=".*")
    channel = login()
    channel.publish(exchange, "old", b"m")
    _expect_refusal(channel, account, "exchange", shown, by="basic.publish")


@pytest.mark.holds("permissions: a reply to a reply address needs write on amq.default, as any publish there -> 403")
def test_replying_without_write_is_refused(login: Callable[[], Channel], account: Account) -> None:
    """Though no queue is written to."""
    account.grant(configure=".*", read=".*", write="^direct-x$")
    channel = login()
    channel.publish("", "amq.rabbitmq.reply-to." + "0" * 32, b"answer")
    _expect_refusal(channel, account, "exchange", "amq.default", by="basic.publish")


@pytest.mark.holds("permissions: each operation needs just its own")
@pytest.mark.parametrize(
    ("name", "arguments", "granted"),
    [
        ("queue.declare", {"queue": "fresh", "auto_delete": True}, {"configure": "^fresh$"}),
        ("queue.declare", {"queue": ""}, {"configure": "^amq\\.gen"}),
        ("queue.purge", {"queue": "old"}, {"read": "^old$"}),
        ("queue.bind", {"queue": "old", "exchange": "direct-x"}, {"write": "^old$", "read": "^direct-x$"}),
        ("queue.unbind", {"queue": "old", "exchange": "direct-x"}, {"write": "^old$", "read": "^direct-x$"}),
        ("exchange.declare", {"exchange": "fresh-x", "type": "direct"}, {"configure": "^fresh-x$"}),
        ("exchange.delete", {"exchange": "fresh-x"}, {"configure": "^fresh-x$"}),
        (
            "exchange.bind",
            {"source": "direct-x", "destination": "other-x"},
            {"write": "^other-x", "read": "^direct"},
        ),
        (
            "exchange.unbind",
            {"source": "direct-x", "destination": "other-x"},
            {"write": "^other-x", "read": "^direct"},
        ),
        ("basic.consume", {"queue": "old"}, {"read": "^old$"}),
        ("queue.declare", {"queue": "old", "passive": True}, {"read": "^old$"}),
        ("exchange.declare", {"exchange": "direct-x", "passive": True}, {"write": "^direct-x$"}),
    ],
)
def test_one_permission_is_enough(
    login: Callable[[], Channel],
    account: Account,
    name: str,
    arguments: dict[str, Any],
    granted: dict[str, str],
) -> None:
    """Everything else is refused to this user at that moment."""
    account.grant(**granted)
    login().call(name, **arguments)


@pytest.mark.holds("permissions: expressions are not anchored")
def test_expressions_are_not_anchored(login: Callable[[], Channel], account: Account) -> None:
    """A part of the name is enough, as in RabbitMQ."""
    account.grant(configure="middle")
    channel = login()
    channel.declare("a-middle-z", auto_delete=True)
    channel.send("queue.declare", queue="a-centre-z")
    _expect_refusal(channel, account, "queue", "a-centre-z", by="queue.declare")


@pytest.mark.holds("queue.declare: x-dead-letter-exchange needs read on the queue and write on the exchange")
def test_a_dead_letter_exchange_needs_permissions(login: Callable[[], Channel], account: Account) -> None:
    """Or messages could be moved out of reach."""
    arguments = {"x-dead-letter-exchange": "direct-x"}
    for granted, kind, refused in (
        ({"configure": ".*"}, "queue", "dlq"),
        ({"configure": ".*", "read": "^dlq$"}, "exchange", "direct-x"),
    ):
        account.grant(**granted)
        channel = login()
        channel.send("queue.declare", queue="dlq", arguments=arguments)
        _expect_refusal(channel, account, kind, refused, by="queue.declare")
    account.grant(configure=".*", read="^dlq$", write="^direct-x$")
    login().declare("dlq", arguments=arguments, exclusive=True)


@pytest.mark.holds("exchange.declare: alternate-exchange needs read on the exchange and write on the alternate")
def test_an_alternate_exchange_needs_permissions(login: Callable[[], Channel], account: Account) -> None:
    """Likewise."""
    request: dict[str, Any] = {
        "exchange": "aex",
        "type": "direct",
        "arguments": {"alternate-exchange": "other-x"},
    }
    for granted, refused in (
        ({"configure": ".*"}, "aex"),
        ({"configure": ".*", "read": "^aex$"}, "other-x"),
    ):
        account.grant(**granted)
        channel = login()
        channel.send("exchange.declare", **request)
        _expect_refusal(channel, account, "exchange", refused, by="exchange.declare")
    account.grant(configure=".*", read="^aex$", write="^other-x$")
    channel = login()
    channel.call("exchange.declare", **request)
    channel.call("exchange.delete", exchange="aex")


@pytest.mark.ours_only("asks for no permission at all")
@pytest.mark.holds("queue.declare, exchange.declare: passive without any permission -> 403")
@pytest.mark.parametrize(
    ("name", "arguments", "kind", "resource"),
    [
        ("queue.declare", {"queue": "old"}, "queue", "old"),
        ("exchange.declare", {"exchange": "direct-x"}, "exchange", "direct-x"),
    ],
)
def test_a_passive_declare_needs_some_permission(
    login: Callable[[], Channel],
    account: Account,
    name: str,
    arguments: dict[str, Any],
    kind: str,
    resource: str,
) -> None:
    """Any one of the three would do."""
    account.grant()
    channel = login()
    channel.send(name, passive=True, **arguments)
    _expect_refusal(channel, account, kind, resource, by=name)


@pytest.mark.holds("permissions: passive declare of a missing queue, with permissions -> 404")
def test_a_missing_queue_is_missing_for_all(login: Callable[[], Channel], account: Account) -> None:
    """Nothing special about users."""
    account.grant(".*", ".*", ".*")
    text = no_queue("missing", account.vhost)
    login().refused(404, text, "queue.declare", queue="missing", passive=True)


@pytest.mark.holds("topic permissions: publishing a key that write does not match -> 403")
def test_topic_permissions_bound_publishing(login: Callable[[], Channel], account: Account) -> None:
    """{username} and {vhost} stand for what they say; other exchanges are not concerned."""
    account.grant(".*", ".*", ".*")
    account.admin.put_topic_permission(account.user, account.vhost, "topic-x", "^{username}\\.", "^{vhost}\\.")
    channel = login()
    channel.publish("topic-x", f"{account.user}.news", b"m")
    channel.publish("direct-x", "anything", b"m")
    channel.call("basic.qos")
    channel.publish("topic-x", "somebody.news", b"m")
    text = channel.expect_close(403, by="basic.publish")
    wanted = f"access to topic 'somebody.news' in exchange 'topic-x' in vhost '{account.vhost}' refused for user"
    assert f"{wanted} '{account.user}'" in text


@pytest.mark.ours_only("asks for the routing key alone in 3.x, for all keys in 4.x")
@pytest.mark.holds("topic permissions: a key in CC or BCC that write does not match -> 403")
@pytest.mark.parametrize("header", ["CC", "BCC"])
def test_topic_permissions_bound_copies(login: Callable[[], Channel], account: Account, header: str) -> None:
    """They route as the routing key does. An exchange of another type is not concerned."""
    account.grant(".*", ".*", ".*")
    account.admin.put_topic_permission(account.user, account.vhost, "topic-x", "^mine\\.", ".*")
    channel = login()
    channel.publish("topic-x", "mine.1", b"m", headers={header: ["mine.2", "mine.3"]})
    channel.publish("direct-x", "mine.1", b"m", headers={header: ["theirs"]})
    channel.call("basic.qos")
    channel.publish("topic-x", "mine.1", b"m", headers={header: ["mine.2", "theirs"]})
    text = channel.expect_close(403, by="basic.publish")
    wanted = f"access to topic 'theirs' in exchange 'topic-x' in vhost '{account.vhost}' refused for user"
    assert f"{wanted} '{account.user}'" in text


@pytest.mark.holds("topic permissions: binding with a key that read does not match -> 403")
def test_topic_permissions_bound_binding(login: Callable[[], Channel], account: Account) -> None:
    """The binding key is compared as it is, wildcards included."""
    account.grant(".*", ".*", ".*")
    account.admin.put_topic_permission(account.user, account.vhost, "topic-x", "^{username}\\.", "^{vhost}\\.")
    channel = login()
    queue = channel.declare(exclusive=True)
    channel.call("queue.bind", queue=queue, exchange="topic-x", routing_key=f"{account.vhost}.#")
    channel.send("queue.bind", queue=queue, exchange="topic-x", routing_key="#")
    text = channel.expect_close(403, by="queue.bind")
    assert f"access to topic '#' in exchange 'topic-x' in vhost '{account.vhost}' refused" in text


@pytest.mark.holds("users: a changed password counts at the next login")
def test_a_new_password_counts(dial: Callable[[], Connection], account: Account) -> None:
    """The old one is refused."""
    name = f"{account.user}-changing"
    for password in ("first", "second"):
        account.admin.put_user(name, password)
    for password, is_good in (("first", False), ("second", True)):
        connection = dial()
        connection.start()
        connection.send_start_ok(name, password)
        if is_good:
            connection.tune()
        else:
            connection.expect_close(403)


@pytest.mark.holds("user_id: a user with the tag impersonator may set any")
def test_an_impersonator_may_set_any_user_id(connect: Connect, account: Account) -> None:
    """The property is delivered as it was set."""
    name = f"{account.user}-impersonator"
    account.admin.put_user(name, PASSWORD, tags="impersonator")
    account.admin.put_permission(name, account.vhost, ".*", ".*", ".*")
    channel = connect(user=name, password=PASSWORD, vhost=account.vhost).channel()
    queue = channel.declare(exclusive=True)
    channel.publish("", queue, b"m", user_id="somebody")
    message = channel.get(queue)
    assert message is not None
    assert message.properties == {"user_id": "somebody"}


@pytest.mark.holds("vhosts: queues and exchanges of the same name are different ones")
def test_vhosts_are_separate(connect: Connect, account: Account, named: Callable[[str], str]) -> None:
    """A message published in one does not arrive in the other."""
    here, there = connect().channel(), connect(vhost=account.vhost).channel()
    queue = named("queue")
    here.declare(queue)
    there.declare(queue, exclusive=True)
    here.connection.fill(queue, b"here")
    assert there.get_bodies(queue) == []
    assert here.get_bodies(queue) == [b"here"]

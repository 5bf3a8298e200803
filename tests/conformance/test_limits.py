"""Limits of vhosts and users, operator policies, and what becomes of connections when their vhost goes."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import pytest

from interop_tests.administration import Administrator
from tests.conformance.wire import Connection

pytestmark = pytest.mark.octets_too_slow
Connect = Callable[..., Connection]
PASSWORD = "correct horse"


@pytest.fixture
def own_vhost(admin: Administrator) -> Iterator[str]:
    name = f"vhost-{uuid.uuid4().hex[:8]}"
    admin.create_vhost(name)
    admin.put_permission("guest", name, ".*", ".*", ".*")
    yield name
    admin.delete_vhost(name)


def _refused_open(connection: Connection, vhost: str, user: str | None = None) -> str:
    connection.start()
    connection.send_start_ok(user, PASSWORD if user else None)
    connection.tune()
    connection.send_method(0, "connection.open", virtual_host=vhost)
    return connection.expect_close(530, by="connection.open")


@pytest.mark.holds("vhost limit max-connections -> 530")
def test_a_vhost_may_be_full(
    admin: Administrator, connect: Connect, dial: Callable[[], Connection], own_vhost: str
) -> None:
    """The second connection is refused; with the first gone there is room."""
    admin.limit_vhost(own_vhost, {"max-connections": 1})
    first = connect(vhost=own_vhost)
    text = _refused_open(dial(), own_vhost)
    assert text.startswith(f"NOT_ALLOWED - access to vhost '{own_vhost}' refused for user 'guest'")
    assert "connection limit (1) is reached" in text
    first.close()


@pytest.mark.holds("vhost limit max-queues -> 406")
def test_a_vhost_may_have_enough_queues(admin: Administrator, connect: Connect, own_vhost: str) -> None:
    """Declaring what exists is still fine."""
    admin.limit_vhost(own_vhost, {"max-queues": 1})
    channel = connect(vhost=own_vhost).channel()
    for _ in range(2):
        channel.declare("one", exclusive=True)
    channel.send("queue.declare", queue="two", exclusive=True)
    text = channel.expect_close(406, by="queue.declare")
    cause = f"queue limit in vhost '{own_vhost}' (1) is reached"
    assert text == f"PRECONDITION_FAILED - cannot declare queue 'two': {cause}"


@pytest.mark.holds("user limit max-connections -> 530")
def test_a_user_may_have_enough_connections(
    admin: Administrator, connect: Connect, dial: Callable[[], Connection], own_vhost: str
) -> None:
    """Counted over all vhosts."""
    user = f"user-{uuid.uuid4().hex[:8]}"
    admin.put_user(user, PASSWORD)
    admin.put_permission(user, own_vhost, ".*", ".*", ".*")
    admin.limit_user(user, {"max-connections": 1})
    connect(user=user, password=PASSWORD, vhost=own_vhost)
    text = _refused_open(dial(), own_vhost, user)
    assert f"user '{user}'" in text
    assert "limit (1)" in text


@pytest.mark.holds("user limit max-channels -> 530")
def test_a_user_may_have_enough_channels(admin: Administrator, connect: Connect, own_vhost: str) -> None:
    """Counted over all its connections."""
    user = f"user-{uuid.uuid4().hex[:8]}"
    admin.put_user(user, PASSWORD)
    admin.put_permission(user, own_vhost, ".*", ".*", ".*")
    admin.limit_user(user, {"max-channels": 1})
    connection = connect(user=user, password=PASSWORD, vhost=own_vhost)
    connection.channel().call("basic.qos")
    connection.channel()
    assert f"'{user}'" in connection.expect_close(530)


@pytest.mark.holds("operator policy: the smaller of operator policy, policy and argument counts")
@pytest.mark.parametrize(("argument", "policy", "operator"), [(9, 9, 1), (9, 1, 9), (1, 9, 9)])
def test_an_operator_policy_bounds(
    admin: Administrator, connect: Connect, own_vhost: str, argument: int, policy: int, operator: int
) -> None:
    """Users cannot raise what the operator has set."""
    admin.put_policy(own_vhost, "mine", ".*", {"max-length": policy})
    admin.put_operator_policy(own_vhost, "theirs", ".*", {"max-length": operator})
    connection = connect(vhost=own_vhost)
    channel = connection.channel()
    queue = channel.declare("bounded", exclusive=True, arguments={"x-max-length": argument})
    connection.fill(queue, b"1", b"2", b"3")
    assert channel.get_bodies(queue) == [b"3"]


@pytest.mark.holds("vhost: deleted under a connection -> 320")
def test_connections_of_a_deleted_vhost_are_closed(admin: Administrator, connect: Connect) -> None:
    """With the reason; a new vhost of that name is empty."""
    name = f"vhost-{uuid.uuid4().hex[:8]}"
    admin.create_vhost(name)
    admin.put_permission("guest", name, ".*", ".*", ".*")
    connection = connect(vhost=name)
    connection.channel().declare("old", durable=True)
    admin.delete_vhost(name)
    text = connection.expect_close(320)
    assert text.startswith(f"CONNECTION_FORCED - vhost '{name}' is ")

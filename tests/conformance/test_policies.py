"""Policies: arguments that an administrator gives to queues and exchanges by their names."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from interop_tests.administration import Administrator
from tests.conformance.wire import Connection

Connect = Callable[..., Connection]


class Place(NamedTuple):
    """A vhost of its own for policies, and who puts them there."""

    vhost: str
    admin: Administrator


@pytest.fixture(scope="module")
def place(admin: Administrator) -> Iterator[Place]:
    place = Place(f"vhost-{uuid.uuid4().hex[:8]}", admin)
    admin.create_vhost(place.vhost)
    admin.put_permission("guest", place.vhost, ".*", ".*", ".*")
    yield place
    admin.delete_vhost(place.vhost)


@pytest.fixture
def here(connect: Connect, place: Place) -> Connection:
    return connect(vhost=place.vhost)


@pytest.mark.holds("policy: max-length on existing and new queues, live")
def test_a_length_limit_by_policy(place: Place, here: Connection) -> None:
    """The queue was there before; the limit holds for the next publishes."""
    channel = here.channel()
    queue = channel.declare("length-q", exclusive=True)
    here.fill(queue, b"1", b"2", b"3")
    place.admin.put_policy(place.vhost, "length", "^length-", {"max-length": 2})
    here.fill(queue, b"4")
    assert channel.get_bodies(queue) == [b"3", b"4"]
    again = channel.declare("length-r", exclusive=True)
    here.fill(again, b"1", b"2", b"3")
    assert channel.get_bodies(again) == [b"2", b"3"]


@pytest.mark.holds("policy: message-ttl, dead-letter-exchange and dead-letter-routing-key")
def test_dead_lettering_by_policy(place: Place, here: Connection) -> None:
    """What a declare would say with x- in front."""
    channel = here.channel()
    dead = channel.declare("dead-letters", exclusive=True)
    definition = {"message-ttl": 1, "dead-letter-exchange": "", "dead-letter-routing-key": dead}
    place.admin.put_policy(place.vhost, "ttl", "^ttl-", definition, apply_to="queues")
    queue = channel.declare("ttl-q", exclusive=True)
    channel.consume(dead, no_ack=True)
    channel.publish("", queue, b"m")
    assert channel.expect_delivery().headers["x-death"][0]["queue"] == queue


@pytest.mark.holds("policy: the smaller of policy and argument counts")
@pytest.mark.parametrize(("argument", "policy"), [(1, 3), (3, 1)])
def test_the_smaller_limit_counts(place: Place, here: Connection, argument: int, policy: int) -> None:
    """For lengths and times alike."""
    name = f"both-{argument}-{policy}"
    place.admin.put_policy(place.vhost, name, f"^{name}$", {"max-length": policy})
    channel = here.channel()
    queue = channel.declare(name, exclusive=True, arguments={"x-max-length": argument})
    here.fill(queue, b"1", b"2", b"3", b"4")
    assert channel.get_bodies(queue) == [b"4"]


@pytest.mark.holds("policy: of several that match, the one with the highest priority applies, alone")
def test_exactly_one_policy_applies(place: Place, here: Connection) -> None:
    """The loser's other keys do not apply either."""
    place.admin.put_policy(place.vhost, "weak", "^one-", {"max-length": 1, "message-ttl": 0}, priority=1)
    place.admin.put_policy(place.vhost, "strong", "^one-", {"max-length": 2}, priority=2)
    channel = here.channel()
    queue = channel.declare("one-q", exclusive=True)
    here.fill(queue, b"1", b"2", b"3")
    assert channel.get_bodies(queue) == [b"2", b"3"]


@pytest.mark.holds("policy: alternate-exchange on exchanges")
def test_an_alternate_exchange_by_policy(place: Place, here: Connection) -> None:
    """apply_to exchanges leaves queues of that name alone."""
    definition = {"alternate-exchange": "amq.fanout"}
    place.admin.put_policy(place.vhost, "ae", "^ae-", definition, apply_to="exchanges")
    channel = here.channel()
    channel.call("exchange.declare", exchange="ae-x", type="direct")
    queue = channel.declare("ae-q", exclusive=True)
    channel.call("queue.bind", queue=queue, exchange="amq.fanout")
    channel.publish("ae-x", "nowhere", b"found", mandatory=True)
    assert channel.get_bodies(queue) == [b"found"]


@pytest.mark.holds("policy: alternate-exchange leaves the default exchange alone, whatever its pattern")
def test_the_default_exchange_has_no_alternate(place: Place, here: Connection) -> None:
    """A mandatory message to a queue that is not there comes back."""
    place.admin.put_policy(place.vhost, "all", ".*", {"alternate-exchange": "amq.fanout"}, apply_to="exchanges")
    channel = here.channel()
    queue = channel.declare("of-all", exclusive=True)
    channel.call("queue.bind", queue=queue, exchange="amq.fanout")
    channel.publish("amq.direct", "nowhere", b"found", mandatory=True)
    channel.publish("", "nowhere", b"lost", mandatory=True)
    assert channel.expect_message("basic.return").body == b"lost"
    assert channel.get_bodies(queue) == [b"found"]
    place.admin.delete_policy(place.vhost, "all")


@pytest.mark.holds("policy: apply_to queues leaves exchanges alone, and the other way round")
def test_apply_to_is_respected(place: Place, here: Connection) -> None:
    """A policy for exchanges limits no queue."""
    place.admin.put_policy(place.vhost, "only-x", "^only-", {"alternate-exchange": "amq.fanout"}, apply_to="exchanges")
    place.admin.put_policy(place.vhost, "only-q", "^only-", {"max-length": 1}, apply_to="queues", priority=9)
    channel = here.channel()
    channel.call("exchange.declare", exchange="only-x", type="direct")
    queue = channel.declare("only-q", exclusive=True)
    channel.call("queue.bind", queue=queue, exchange="amq.fanout")
    for body in (b"1", b"2"):
        channel.publish("only-x", "nowhere", body, mandatory=True)
    assert channel.get_bodies(queue) == [b"2"]


@pytest.mark.holds("policy: expires")
def test_expires_by_policy(place: Place, here: Connection) -> None:
    """An unused queue goes."""
    place.admin.put_policy(place.vhost, "expires", "^expiring-", {"expires": 100}, apply_to="queues")
    channel = here.channel()
    channel.declare("expiring-q")
    here.let_pass(500)
    channel.send("queue.declare", queue="expiring-q", passive=True)
    channel.expect_close(404, by="queue.declare")


@pytest.mark.holds("policy: a removed policy no longer applies")
def test_a_removed_policy_is_gone(place: Place, here: Connection) -> None:
    """The queue is without a limit again."""
    place.admin.put_policy(place.vhost, "passing", "^passing-", {"max-length": 1})
    channel = here.channel()
    queue = channel.declare("passing-q", exclusive=True)
    here.fill(queue, b"1", b"2")
    place.admin.delete_policy(place.vhost, "passing")
    here.fill(queue, b"3")
    assert channel.get_bodies(queue) == [b"2", b"3"]


@pytest.mark.holds("policy: equivalence of a redeclare looks at arguments, not at policies")
def test_a_policy_does_not_change_equivalence(place: Place, here: Connection) -> None:
    """A redeclare without arguments fits a queue that has its limit from a policy."""
    place.admin.put_policy(place.vhost, "equal", "^equal-", {"max-length": 1})
    channel = here.channel()
    channel.declare("equal-q", exclusive=True)
    channel.declare("equal-q", exclusive=True)


@pytest.mark.ours_only("knows it on quorum queues only")
@pytest.mark.holds("policy: delivery-limit on classic queues")
def test_a_delivery_limit_by_policy(place: Place, here: Connection) -> None:
    """Dropped after one return too many."""
    place.admin.put_policy(place.vhost, "limit", "^limited-", {"delivery-limit": 1}, apply_to="queues")
    channel = here.channel()
    queue = channel.declare("limited-q", exclusive=True)
    here.fill(queue, b"poison")
    for _ in range(2):
        message = channel.get(queue, no_ack=False)
        assert message is not None
        channel.send("basic.reject", delivery_tag=message.delivery_tag, requeue=True)
    assert channel.get(queue) is None

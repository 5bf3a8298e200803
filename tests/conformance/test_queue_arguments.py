"""Arguments of queue.declare on classic queues: what is accepted, what is refused, and with which text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.conformance.replies import invalid_argument
from tests.conformance.wire_channel import Channel
from tests.conformance.wire_codec import Typed

Named = Callable[[str], str]
TEN_YEARS_MS = 315_360_000_000


@pytest.mark.holds("queue.declare arguments: good values are accepted")
@pytest.mark.parametrize(
    "arguments",
    [
        {"x-message-ttl": 0},
        {"x-message-ttl": TEN_YEARS_MS},
        {"x-message-ttl": Typed("u", 10)},
        {"x-expires": 60_000},
        {"x-expires": TEN_YEARS_MS},
        {"x-max-length": 0},
        {"x-max-length": 2**40},
        {"x-max-length-bytes": 0},
        {"x-overflow": "drop-head"},
        {"x-overflow": "reject-publish"},
        {"x-overflow": "reject-publish-dlx"},
        {"x-dead-letter-exchange": ""},
        {"x-dead-letter-exchange": "not-there-yet", "x-dead-letter-routing-key": "key"},
        {"x-max-priority": 0},
        {"x-max-priority": 10},
        {"x-max-priority": 255},
        {"x-single-active-consumer": True},
        {"x-single-active-consumer": False},
        {"x-queue-type": "classic"},
        {"x-queue-mode": "lazy"},
        {"x-queue-mode": "default"},
        {"x-queue-version": 2},
        {"x-queue-master-locator": "client-local"},
        {"x-something-else": None},
    ],
    ids=str,
)
def test_good_values_are_accepted(channel: Channel, named: Named, arguments: dict[str, Any]) -> None:
    """Section 1.2, classic queues: and the same declare again is equivalent."""
    queue = named("queue")
    for _ in range(2):
        channel.declare(queue, arguments=arguments)


@pytest.mark.holds("queue.declare arguments: bad values -> 406 that names argument, queue and cause")
@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("x-message-ttl", -1),
        ("x-message-ttl", TEN_YEARS_MS + 1),
        ("x-message-ttl", "a"),
        ("x-message-ttl", True),
        ("x-expires", 0),
        ("x-expires", -1),
        ("x-expires", TEN_YEARS_MS + 1),
        ("x-expires", "a"),
        ("x-max-length", -1),
        ("x-max-length", "a"),
        ("x-max-length", 1.5),
        ("x-max-length-bytes", -1),
        ("x-max-length-bytes", "a"),
        ("x-overflow", "sideways"),
        ("x-overflow", 5),
        ("x-max-priority", 256),
        ("x-max-priority", -1),
        ("x-max-priority", "a"),
        ("x-single-active-consumer", "a"),
        ("x-queue-type", "nonsense"),
        ("x-queue-type", 5),
        ("x-queue-mode", "nonsense"),
        ("x-queue-mode", 5),
        ("x-queue-version", 3),
    ],
)
def test_bad_values_are_a_406(channel: Channel, named: Named, vhost: str, argument: str, value: Any) -> None:
    """Section 1.2: the text ends with the cause, in the broker's own words."""
    queue = named("queue")
    channel.send("queue.declare", queue=queue, arguments={argument: value})
    text = channel.expect_close(406, by="queue.declare")
    beginning = invalid_argument(argument, queue, vhost, "")
    assert text.startswith(beginning)
    assert text != beginning


@pytest.mark.holds("queue.declare arguments: x-dead-letter-routing-key without an exchange -> 406")
def test_a_dead_letter_routing_key_needs_an_exchange(channel: Channel, named: Named, vhost: str) -> None:
    """Section 1.2: with this very cause."""
    queue = named("queue")
    text = invalid_argument("x-dead-letter-routing-key", queue, vhost, "routing_key_but_no_dlx_defined")
    arguments = {"x-dead-letter-routing-key": "key"}
    channel.refused(406, text, "queue.declare", queue=queue, arguments=arguments)


@pytest.mark.holds("queue.declare arguments: x-dead-letter-routing-key of another type than a string -> 406")
def test_a_dead_letter_routing_key_must_be_a_string(channel: Channel, named: Named, vhost: str) -> None:
    """Beside a dead letter exchange its type is what is wrong."""
    queue = named("queue")
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": 5}
    channel.send("queue.declare", queue=queue, arguments=arguments)
    text = channel.expect_close(406, by="queue.declare")
    assert text.startswith(invalid_argument("x-dead-letter-routing-key", queue, vhost, ""))


@pytest.mark.holds("queue.declare arguments: x-dead-letter-exchange of another type than a string -> 406")
def test_a_dead_letter_exchange_must_be_a_string(channel: Channel, named: Named, vhost: str) -> None:
    """This one is worded differently."""
    queue = named("queue")
    text = (
        "PRECONDITION_FAILED - invalid type 'signedint' for arg 'x-dead-letter-exchange' "
        f"in queue '{queue}' in vhost '{vhost}'"
    )
    channel.refused(406, text, "queue.declare", queue=queue, arguments={"x-dead-letter-exchange": 5})


@pytest.mark.holds("queue.declare arguments: one of another queue type -> 406")
@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("x-max-age", "1D"),
        ("x-stream-max-segment-size-bytes", 500_000),
        ("x-initial-cluster-size", 3),
        ("x-quorum-initial-group-size", 3),
        ("x-dead-letter-strategy", "at-least-once"),
    ],
)
def test_arguments_of_other_queue_types_are_a_406(
    channel: Channel, named: Named, vhost: str, argument: str, value: Any
) -> None:
    """Section 1.2: the text ends with the queue's type, by whatever name the broker gives it."""
    queue = named("queue")
    channel.send("queue.declare", queue=queue, arguments={argument: value})
    text = channel.expect_close(406, by="queue.declare")
    beginning, _, kind = text.partition(" of queue type ")
    assert beginning == f"PRECONDITION_FAILED - invalid arg '{argument}' for queue '{queue}' in vhost '{vhost}'"
    assert kind in ("classic", "rabbit_classic_queue")


@pytest.mark.ours_only("knows it on quorum queues only")
@pytest.mark.holds("queue.declare arguments: x-delivery-limit on classic queues -> ok")
@pytest.mark.parametrize("limit", [-1, 0, 5])
def test_a_delivery_limit_is_accepted(channel: Channel, named: Named, limit: int) -> None:
    """-1 turns it off."""
    channel.declare(named("queue"), arguments={"x-delivery-limit": limit})


@pytest.mark.holds("queue.declare arguments: another x-queue-type than the queue has -> 406")
def test_another_queue_type_is_a_406(channel: Channel, named: Named) -> None:
    """Asked of a classic queue: inequivalent, whether or not that type could be created."""
    queue = channel.declare(named("queue"), durable=True)
    channel.send("queue.declare", queue=queue, durable=True, arguments={"x-queue-type": "quorum"})
    text = channel.expect_close(406, by="queue.declare")
    assert text.endswith("received the value 'quorum' of type 'longstr' but current is none")

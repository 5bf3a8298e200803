"""Queue arguments and policies: types, ranges, RabbitMQ's words, and who wins."""

from __future__ import annotations

import pytest

from queues.arguments import (
    MAX_TIME_MS,
    ArgumentError,
    Overflow,
    QueueArguments,
    parse_arguments,
    read_fields,
    with_policy,
)


def test_none() -> None:
    assert parse_arguments({}) == QueueArguments()


def test_all() -> None:
    assert parse_arguments(
        {
            "x-message-ttl": 0,
            "x-expires": MAX_TIME_MS,
            "x-max-length": 0,
            "x-max-length-bytes": 1 << 40,
            "x-overflow": "reject-publish-dlx",
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": b"k\xff",
            "x-max-priority": 255,
            "x-single-active-consumer": True,
            "x-delivery-limit": 0,
            "x-queue-type": "classic",
            "x-queue-mode": "lazy",
            "x-queue-version": 2,
            "x-queue-master-locator": "min-masters",
            "x-unheard-of": object(),
        }
    ) == QueueArguments(0, MAX_TIME_MS, 0, 1 << 40, Overflow.REJECT_PUBLISH_DLX, "", "k\udcff", 255, True, 0)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("x-message-ttl", -1),
        ("x-message-ttl", MAX_TIME_MS + 1),
        ("x-message-ttl", "10"),
        ("x-message-ttl", True),
        ("x-message-ttl", None),
        ("x-message-ttl", 1.0),
        ("x-expires", 0),
        ("x-max-length", -1),
        ("x-max-length-bytes", -1),
        ("x-max-priority", 256),
        ("x-max-priority", -1),
        ("x-delivery-limit", -2),
        ("x-overflow", "drop-tail"),
        ("x-overflow", 1),
        ("x-dead-letter-exchange", 1),
        ("x-single-active-consumer", 1),
        ("x-queue-mode", "eager"),
        ("x-queue-version", 3),
    ],
)
def test_a_bad_value_is_named(key: str, value: object) -> None:
    with pytest.raises(ArgumentError) as caught:
        parse_arguments({key: value})
    assert caught.value.key == key
    assert caught.value.reason in str(caught.value)
    assert key in str(caught.value)


def test_a_dead_letter_routing_key_needs_an_exchange() -> None:
    with pytest.raises(ArgumentError, match="routing_key_but_no_dlx_defined"):
        parse_arguments({"x-dead-letter-routing-key": "k"})


def test_off() -> None:
    assert parse_arguments({"x-delivery-limit": -1, "x-max-priority": 0}) == QueueArguments()


def test_a_limit_is_the_lowest_of_all() -> None:
    own = {"message_ttl": 50, "max_length": 5}
    merged = with_policy(
        own, {"message-ttl": 20, "max-length": 9, "expires": 7, "delivery-limit": 3}, {"message-ttl": 30, "expires": 4}
    )
    assert (merged.message_ttl, merged.max_length, merged.expires, merged.delivery_limit) == (20, 5, 4, 3)
    assert with_policy(own, {}) == QueueArguments(**own)


def test_an_argument_wins_over_an_operator_policy_and_that_over_a_policy() -> None:
    own = read_fields({"x-dead-letter-exchange": "own", "x-overflow": "reject-publish"})
    policy = {"dead-letter-exchange": "policy", "dead-letter-routing-key": "k", "overflow": "reject-publish-dlx"}
    merged = with_policy(own, policy)
    assert (merged.dead_letter_exchange, merged.dead_letter_routing_key) == ("own", "k")
    assert merged.overflow is Overflow.REJECT_PUBLISH
    assert with_policy({}, policy).overflow is Overflow.REJECT_PUBLISH_DLX
    assert with_policy({}, policy, {"overflow": "drop-head"}).overflow is Overflow.DROP_HEAD
    assert with_policy(own, policy, {"overflow": "drop-head"}).overflow is Overflow.REJECT_PUBLISH
    assert with_policy(own, policy, {"overflow": "drop-head"}, policy_overflows=True).overflow is Overflow.DROP_HEAD


def test_an_argument_that_says_the_default_is_not_one_that_is_missing() -> None:
    said = read_fields({"x-overflow": "drop-head", "x-delivery-limit": -1, "x-dead-letter-exchange": ""})
    policy = {"overflow": "reject-publish", "dead-letter-exchange": "policy"}
    merged = with_policy(said, policy, {"overflow": "reject-publish-dlx"}, delivery_limit=7)
    assert (merged.overflow, merged.delivery_limit, merged.dead_letter_exchange) == (Overflow.DROP_HEAD, None, "")
    assert with_policy({}, {"delivery-limit": -1}, delivery_limit=7).delivery_limit is None
    assert with_policy({}, {}, delivery_limit=7).delivery_limit == 7

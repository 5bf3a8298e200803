"""What the arguments of a quorum queue and the policies on it come to."""

from __future__ import annotations

import pytest

from queues.arguments import ArgumentError, Overflow, QueueArguments, WrongArgument
from queues.quorum.arguments import (
    DEDUPLICATION_WINDOW,
    DELIVERY_LIMIT,
    check_retry,
    group_size,
    parse_quorum_arguments,
)
from queues.quorum.retry import Retry, RetryType
from queues.quorum.settings import QuorumSettings

QUORUM = {"x-queue-type": "quorum"}


def test_nothing_said() -> None:
    assert parse_quorum_arguments(QUORUM) == QuorumSettings(QueueArguments(delivery_limit=DELIVERY_LIMIT))


def test_everything_said() -> None:
    settings = parse_quorum_arguments(
        {
            **QUORUM,
            "x-quorum-initial-group-size": 5,
            "x-queue-leader-locator": "balanced",
            "x-max-in-memory-length": 1,
            "x-message-ttl": 1,
            "x-expires": 2,
            "x-max-length": 3,
            "x-max-length-bytes": 4,
            "x-overflow": "reject-publish",
            "x-dead-letter-exchange": "dlx",
            "x-dead-letter-routing-key": "key",
            "x-dead-letter-strategy": "at-least-once",
            "x-max-priority": 5,
            "x-single-active-consumer": True,
            "x-delivery-limit": 6,
            "x-message-deduplication": 7,
            "x-deduplication-ttl": 8,
            "x-consumer-timeout": 9,
            "x-delayed-retry-type": "failed",
            "x-delayed-retry-min": 10,
            "x-delayed-retry-max": 11,
            "x-of-somebody-else": "whatever",
        }
    )
    arguments = QueueArguments(1, 2, 3, 4, Overflow.REJECT_PUBLISH, "dlx", "key", 5, True, 6)
    assert settings == QuorumSettings(
        arguments, 9, 7, 8, at_least_once=True, retry=Retry(RetryType.FAILED, 10, 11), gives_way=True
    )


@pytest.mark.parametrize(
    ("argument", "policy", "operator", "limit"),
    [
        (None, None, None, 20),
        (-1, None, None, None),
        (3, None, None, 3),
        (0, None, None, 0),
        (None, 50, None, 50),
        (3, 50, None, 3),
        (80, 50, None, 50),
        (-1, 50, None, 50),
        (None, -1, None, None),
        (None, 50, 40, 40),
    ],
)
def test_the_delivery_limit(argument: int | None, policy: int | None, operator: int | None, limit: int | None) -> None:
    arguments = QUORUM if argument is None else {**QUORUM, "x-delivery-limit": argument}
    definitions = [{} if each is None else {"delivery-limit": each} for each in (policy, operator)]
    assert parse_quorum_arguments(arguments, *definitions).arguments.delivery_limit == limit


def test_policies() -> None:
    policy = {"dead-letter-strategy": "at-least-once", "consumer-timeout": 500, "max-length": 9, "message-ttl": 3}
    settings = parse_quorum_arguments({**QUORUM, "x-max-length": 5}, policy, {"max-length": 7})
    assert (settings.at_least_once, settings.consumer_timeout) == (True, 500)
    assert (settings.arguments.max_length, settings.arguments.message_ttl) == (5, 3)
    own = {**QUORUM, "x-dead-letter-strategy": "at-most-once", "x-consumer-timeout": 100}
    settings = parse_quorum_arguments(own, policy)
    assert (settings.at_least_once, settings.consumer_timeout) == (False, 100)
    own = {**QUORUM, "x-consumer-timeout": 900}
    assert parse_quorum_arguments(own, policy).consumer_timeout == 500, "the lower one"


def test_what_a_policy_says_of_overflow_counts_before_the_argument() -> None:
    """RabbitMQ's rule for quorum queues (policy_has_precedence), and not for classic ones."""
    own = {**QUORUM, "x-overflow": "reject-publish"}
    assert parse_quorum_arguments(own).arguments.overflow is Overflow.REJECT_PUBLISH
    assert parse_quorum_arguments(own, {"overflow": "drop-head"}).arguments.overflow is Overflow.DROP_HEAD
    assert parse_quorum_arguments(own, {}, {"overflow": "drop-head"}).arguments.overflow is Overflow.DROP_HEAD


def test_deduplication() -> None:
    for value, window in ((True, DEDUPLICATION_WINDOW), (False, 0), (0, 0), (5, 5)):
        assert parse_quorum_arguments({**QUORUM, "x-message-deduplication": value}).deduplication_window == window


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("x-quorum-initial-group-size", 0),
        ("x-quorum-initial-group-size", "3"),
        ("x-queue-leader-locator", 1),
        ("x-dead-letter-strategy", "twice"),
        ("x-dead-letter-strategy", 1),
        ("x-message-deduplication", "yes"),
        ("x-message-deduplication", 1_000_001),
        ("x-deduplication-ttl", 5),
        ("x-consumer-timeout", 0),
        ("x-delivery-limit", -2),
        ("x-max-length", -1),
        ("x-max-priority", 256),
        ("x-dead-letter-routing-key", "no exchange"),
    ],
)
def test_a_bad_value_is_named(key: str, value: object) -> None:
    with pytest.raises(ArgumentError) as caught:
        parse_quorum_arguments({**QUORUM, key: value})
    assert caught.value.key == key


@pytest.mark.parametrize("key", ["x-queue-mode", "x-queue-version", "x-max-age", "x-initial-cluster-size"])
def test_arguments_of_other_types(key: str) -> None:
    with pytest.raises(WrongArgument) as caught:
        parse_quorum_arguments({**QUORUM, key: "1"})
    assert (caught.value.key, caught.value.queue_type) == (key, "quorum")


@pytest.mark.parametrize(
    ("arguments", "policy", "expected"),
    [
        ({"type": "all", "min": 5}, {}, Retry(RetryType.ALL, 5)),
        ({}, {"type": "returned", "min": 5, "max": 7}, Retry(RetryType.RETURNED, 5, 7)),
        ({"min": 9}, {"type": "failed", "min": 5, "max": 7}, Retry(RetryType.FAILED, 9, 7)),
        ({"type": "disabled"}, {"type": "failed", "min": 5}, None),
        ({"min": 5}, {}, None),
        ({}, {"type": "failed"}, None),
        # As they may have been declared when nobody knew them:
        ({"type": "all"}, {}, None),
        ({"type": "sometimes", "min": 5}, {}, None),
        ({"type": "all", "min": "5"}, {}, None),
    ],
)
def test_delayed_retry(arguments: dict[str, object], policy: dict[str, object], expected: Retry | None) -> None:
    said = {f"x-delayed-retry-{key}": value for key, value in arguments.items()}
    by_policy = {f"delayed-retry-{key}": value for key, value in policy.items()}
    assert parse_quorum_arguments({**QUORUM, **said}, by_policy).retry == expected


@pytest.mark.parametrize(
    ("arguments", "key"),
    [
        ({"type": "sometimes", "min": 5}, "type"),
        ({"type": 1}, "type"),
        ({"type": "all"}, "type"),
        ({"min": 0}, "min"),
        ({"min": "5"}, "min"),
        ({"min": 5, "max": 4}, "max"),
        ({"max": -1}, "max"),
    ],
)
def test_a_bad_retry_is_named(arguments: dict[str, object], key: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        check_retry({f"x-delayed-retry-{each}": value for each, value in arguments.items()})
    assert caught.value.key == f"x-delayed-retry-{key}"


@pytest.mark.parametrize(
    ("arguments", "policy", "size", "size_of_streams"),
    [
        ({}, None, 0, 0),
        ({"x-quorum-initial-group-size": 5}, {"target-group-size": 3}, 5, 3),
        ({"x-initial-cluster-size": 5}, {"initial-cluster-size": 3}, 5, 3),
        ({"x-initial-cluster-size": 5}, {"initial-cluster-size": 0}, 5, 5),  # as earlier versions let it be
        ({"x-initial-cluster-size": 5}, {}, 5, 5),
        ({}, {"initial-cluster-size": 3}, 3, 3),
    ],
)  # fmt: skip
def test_on_how_many_nodes_it_is_to_be(
    arguments: dict[str, object], policy: dict[str, object] | None, size: int, size_of_streams: int
) -> None:
    assert group_size(arguments, policy) == size
    assert group_size(arguments, policy, policy_wins=True) == size_of_streams

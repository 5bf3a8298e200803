"""What a stream can be declared with, and what RabbitMQ's clients are told of what it cannot."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest

from amqp_broker.errors import ChannelException
from amqp_broker.protocol.fields import RawValue, Table, typed
from amqp_broker.queue_types.contract.own_words import OwnWords
from amqp_broker.queue_types.contract.policy_keys import KEYS
from amqp_broker.queue_types.contract.queue_type import Declared, WrongProperty
from amqp_broker.queue_types.stream.arguments import age_of, parse_stream_arguments
from amqp_broker.queue_types.stream.type import StreamType
from queues.arguments import ArgumentError, WrongArgument
from queues.stream.settings import StreamSettings

DAY = 86_400_000


@pytest.mark.parametrize(
    ("arguments", "settings"),
    [
        ({}, StreamSettings()),
        ({"x-queue-type": "stream", "x-unknown": 1}, StreamSettings()),
        ({"x-max-length-bytes": 0}, StreamSettings(max_length_bytes=0)),
        ({"x-max-length-bytes": 5_000_000_000}, StreamSettings(max_length_bytes=5_000_000_000)),
        ({"x-max-age": "7D"}, StreamSettings(max_age=7 * DAY)),
        ({"x-stream-max-segment-size-bytes": 0}, StreamSettings(segment_bytes=0)),
        ({"x-stream-max-segment-size-bytes": 3_000_000_000}, StreamSettings(segment_bytes=3_000_000_000)),
        ({"x-stream-filter-size-bytes": 255}, StreamSettings(filter_bytes=255)),
        ({"x-initial-cluster-size": 3}, StreamSettings()),
        ({"x-queue-leader-locator": "balanced"}, StreamSettings()),
        ({"x-queue-leader-locator": "least-leaders"}, StreamSettings()),
    ],
    ids=str,
)
def test_what_can_be_said(arguments: dict[str, object], settings: StreamSettings) -> None:
    assert parse_stream_arguments(Table(arguments)) == settings


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("1Y", 365 * DAY), ("2M", 60 * DAY), ("7D", 7 * DAY), ("3h", 10_800_000), ("5m", 300_000), ("10s", 10_000),
        ("007s", 7000), ("999999999999999999Y", 1 << 62),
        ("0s", None), ("-1s", None), ("", None), ("s", None), ("12", None), ("1X", None), ("1 s", None), ("1s ", None),
        ("1.5h", None), ("١s", None),
    ],
)  # fmt: skip
def test_ages(text: str, milliseconds: int | None) -> None:
    assert age_of(text) == milliseconds
    if text.isascii():
        is_good = KEYS["max-age"].expects(text) is None
        assert is_good is (milliseconds is not None)


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("x-max-age", "-1s", "invalid_max_age"),
        ("x-max-age", "5", "invalid_max_age"),
        ("x-max-age", typed("S", b"\xff"), "invalid_max_age"),
        ("x-max-age", 5, "{unacceptable_type,signedint}"),
        ("x-max-age", True, "{unacceptable_type,bool}"),
        ("x-max-length-bytes", "5", '"expected integer, got longstr"'),
        ("x-max-length-bytes", True, '"expected integer, got bool"'),
        ("x-max-length-bytes", 1.5, '"expected integer, got double"'),
        ("x-max-length-bytes", Decimal("1"), '"expected integer, got decimal"'),
        ("x-max-length-bytes", datetime(2020, 1, 1), '"expected integer, got timestamp"'),
        ("x-max-length-bytes", -1, "{value_negative,-1}"),
        ("x-stream-max-segment-size-bytes", "5", '"expected integer, got longstr"'),
        ("x-stream-max-segment-size-bytes", -1, "{value_negative,-1}"),
        ("x-initial-cluster-size", 0, "{value_zero,0}"),
        ("x-initial-cluster-size", -2, "{value_negative,-2}"),
        ("x-initial-cluster-size", "3", '"expected integer, got longstr"'),
        ("x-queue-leader-locator", "nearest", "invalid_queue_locator_arg"),
        ("x-queue-leader-locator", 1, "{unacceptable_type,signedint}"),
    ],
    ids=str,
)
def test_bad_values(key: str, value: Any, reason: str) -> None:
    with pytest.raises(ArgumentError) as found:
        parse_stream_arguments(Table({key: value}))
    assert (found.value.key, found.value.reason) == (key, reason)
    assert not isinstance(found.value, OwnWords)


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("x-stream-max-segment-size-bytes", 3_000_000_001, "Exceeded max value for x-stream-max-segment-size-bytes"),
        ("x-stream-filter-size-bytes", 15, "Invalid value for x-stream-filter-size-bytes"),
        ("x-stream-filter-size-bytes", 256, "Invalid value for x-stream-filter-size-bytes"),
        ("x-stream-filter-size-bytes", -1, "Invalid value for x-stream-filter-size-bytes"),
        ("x-stream-filter-size-bytes", "16", "Invalid type for x-stream-filter-size-bytes"),
    ],
)
def test_bad_values_with_texts_of_their_own(key: str, value: Any, text: str) -> None:
    with pytest.raises(OwnWords) as found:
        parse_stream_arguments(Table({key: value}))
    assert found.value.text == text


@pytest.mark.parametrize(
    "key",
    [
        "x-expires", "x-message-ttl", "x-dead-letter-exchange", "x-dead-letter-routing-key", "x-dead-letter-strategy",
        "x-max-length", "x-max-priority", "x-overflow", "x-queue-mode", "x-queue-version", "x-single-active-consumer",
        "x-delivery-limit", "x-quorum-initial-group-size", "x-message-deduplication", "x-lease-expires",
    ],
)  # fmt: skip
def test_arguments_of_other_types(key: str) -> None:
    with pytest.raises(WrongArgument) as found:
        StreamType.read(Table({key: 1}))
    assert (found.value.key, found.value.queue_type) == (key, "rabbit_stream_queue")


@pytest.mark.parametrize(
    ("policy", "operator", "settings"),
    [
        ({"max-length-bytes": 9}, None, StreamSettings(max_length_bytes=9, max_age=DAY)),
        ({"max-age": "2D"}, None, StreamSettings(max_length_bytes=5, max_age=2 * DAY)),
        (None, {"max-length-bytes": 7}, StreamSettings(max_length_bytes=7, max_age=DAY)),
        ({"max-length-bytes": 9}, {"max-length-bytes": 7}, StreamSettings(max_length_bytes=7, max_age=DAY)),
        ({"max-length-bytes": 6}, {"max-length-bytes": 7}, StreamSettings(max_length_bytes=6, max_age=DAY)),
        (
            {"stream-max-segment-size-bytes": 1000, "stream-filter-size-bytes": 64},
            None,
            StreamSettings(max_length_bytes=5, max_age=DAY, segment_bytes=1000, filter_bytes=64),
        ),
        (
            {"stream-max-segment-size-bytes": 1 << 40, "consumer-timeout": 1, "initial-cluster-size": 3},
            None,
            StreamSettings(max_length_bytes=5, max_age=DAY, segment_bytes=3_000_000_000),
        ),
    ],
    ids=str,
)
def test_a_policy_wins_over_the_argument(
    policy: dict[str, object] | None, operator: dict[str, object] | None, settings: StreamSettings
) -> None:
    """Or a stream could never keep more than it was declared with."""
    arguments = Table({"x-max-length-bytes": 5, "x-max-age": "1D"})
    assert parse_stream_arguments(arguments, policy, operator) == settings


@pytest.mark.parametrize(
    ("declared", "text"),
    [
        (Declared("", "/", True, False, False), "Cannot declare a server-named queue for type rabbit_stream_queue"),
        (Declared("s", "/", True, True, False), "invalid property 'exclusive-owner' for queue 's' in vhost '/'"),
        (Declared("s", "/", True, False, True), "invalid property 'auto-delete' for queue 's' in vhost '/'"),
        (Declared("s", "/", False, False, False), "invalid property 'non-durable' for queue 's' in vhost '/'"),
    ],
)
def test_what_it_cannot_be(declared: Declared, text: str) -> None:
    with pytest.raises(ChannelException) as found:
        StreamType.check(declared)
    assert (found.value.reply_code, found.value.explanation) == (406, text)


def test_what_definitions_cannot_have() -> None:
    StreamType.check_imported(False)
    with pytest.raises(WrongProperty, match="auto_delete"):
        StreamType.check_imported(True)


def test_octets_stay_octets() -> None:
    assert isinstance(typed("S", b"\xff"), RawValue)

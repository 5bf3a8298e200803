"""x-delivery-count is put into a message on octets, which are those that decoding and encoding would give."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from amqp_broker.channel.consumer import redelivered_message
from amqp_broker.messages.facts import MessageFacts, with_header
from amqp_broker.protocol.fields import typed
from amqp_broker.protocol.properties import encode_properties
from queues.message import Address, build_message, make_entry

ADDRESS = Address(b"\x08exchange\x03key")
COUNTING = SimpleNamespace(counts_returns=True)
PROPERTIES: list[dict[str, object]] = [
    {},
    {"headers": {}},
    {"headers": {"a": 1, "b": "x" * 300}},
    {"headers": {"x-delivery-count": 7, "a": 1}},
    {"content_type": "text/plain", "delivery_mode": 2},
    {"content_encoding": "gzip", "message_id": "m"},
    {"content_type": "a", "content_encoding": "b", "headers": {"a": [1, {"b": 2}]}, "priority": 3, "app_id": "app"},
    {"content_type": "x-delivery-count", "correlation_id": "c"},
]


@pytest.mark.parametrize("properties", PROPERTIES)
@pytest.mark.parametrize("body", [b"", b"body", b"x" * 100_000])
def test_it_is_what_decoding_and_encoding_would_give(properties: dict[str, object], body: bytes) -> None:
    message = build_message(ADDRESS, encode_properties(properties), body, True, 3, 1000, 5)
    entry = make_entry(message, 1, 0, 0)
    entry.returns = 300
    found = redelivered_message(COUNTING, entry)
    expected = with_header(message, MessageFacts(message), "x-delivery-count", typed("l", 300))
    assert found.properties() == expected.properties()
    assert found.content == expected.content
    assert (found.body_bytes(), found.expiration, found.raw) == (body, 1000, message.raw)
    assert MessageFacts(found).headers["x-delivery-count"] == 300

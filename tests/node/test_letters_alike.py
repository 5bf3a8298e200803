"""What a letter was made of is remembered for the next one: that one is never like it where it ought not to be."""

from __future__ import annotations

from typing import Any

import pytest

from amqp_broker.messages.deaths import Deaths
from amqp_broker.protocol.fields import Table
from amqp_broker.protocol.properties import encode_properties
from queues.message import Address, Message, build_message

DEATH = [Table({"queue": "q", "reason": "expired", "count": 3})]
#: What a letter is made of, but for one thing.
OTHERS: dict[str, dict[str, Any]] = {
    "headers": {"headers": {"a": 1}},
    "CC": {"headers": {"CC": ["b"]}},
    "an earlier death": {"headers": {"x-death": DEATH}},
    "an expiration": {"expiration": "5"},
    "another property": {"message_id": "1"},
    "a longer body": {"body": b"xyz"},
    "another body": {"body": b"z"},
    "another key": {"key": b"other"},
    "another exchange": {"published_to": b"ex"},
    "another second": {"now": 2000},
    "another queue": {"queue": "other"},
    "another reason": {"reason": "maxlen"},
    "another dead letter exchange": {"exchange": b"\x03dlx"},
    "a dead letter routing key": {"own_key": b"\x03own"},
}


def short(octets: bytes) -> bytes:
    return bytes([len(octets)]) + octets


def letter(deaths: Deaths, **given: Any) -> tuple[bytes, bytes, int, list[str], bool]:
    """All that there is to a letter of a message."""
    expiration = given.get("expiration")
    properties = {name: given[name] for name in ("headers", "expiration", "message_id") if name in given}
    raw = short(given.get("published_to", b"")) + short(given.get("key", b"key"))
    message: Message = build_message(
        Address(raw), encode_properties(properties), given.get("body", b"x"), False, -1, int(expiration or -1), 0
    )
    made = deaths.letter(
        message, given.get("queue", "q"), given.get("reason", "expired"), given.get("exchange", b"\x00"),
        given.get("own_key"), given.get("now", 1000),
    )  # fmt: skip
    return made.raw, made.content, made.header_end, list(deaths.copies), deaths.has_history


@pytest.mark.parametrize("name", OTHERS)
def test_a_letter_is_what_it_would_be_alone(name: str) -> None:
    deaths = Deaths(10_000)
    alone, other = letter(Deaths(10_000)), letter(Deaths(10_000), **OTHERS[name])
    assert alone != other
    for _ in range(2):
        assert letter(deaths) == alone
        assert letter(deaths) == alone
        assert letter(deaths, **OTHERS[name]) == other

"""properties.py: all fourteen against the grammar, one at a time, and changes that leave the rest alone."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqp_broker.protocol import grammar
from amqp_broker.protocol.errors import EncodeError, FieldError, PropertyError
from amqp_broker.protocol.fields import Table
from amqp_broker.protocol.properties import (
    NO_PROPERTIES,
    PROPERTY_NAMES,
    Properties,
    decode_properties,
    encode_properties,
    read_property,
    replace_properties,
)
from tests.protocol.protocol_strategies import DOMAINS, plain_table, plain_value, same

FULL: dict[str, Any] = {
    "content_type": "application/json",
    "content_encoding": "utf-8",
    "headers": {"a": 1},
    "delivery_mode": 2,
    "priority": 9,
    "correlation_id": "c1",
    "reply_to": "amq.rabbitmq.reply-to",
    "expiration": "60000",
    "message_id": "m1",
    "timestamp": datetime(2024, 2, 29, 12),
    "type": "order",
    "user_id": "guest",
    "app_id": "shop",
    "cluster_id": "",
}


@st.composite
def sections(draw: st.DrawFn) -> tuple[bytes, dict[str, Any]]:
    """A property section made by the grammar, and the values in it."""
    values: dict[str, Any] = {}
    for name, domain in grammar.BASIC_PROPERTIES:
        if draw(st.booleans()):
            values[name] = draw(DOMAINS[domain.docs])
    return build_section(values), values


def build_section(values: dict[str, Any]) -> bytes:
    """The section of these values, which are as the grammar has them."""
    flags = {name: name in values for name in PROPERTY_NAMES}
    built: bytes = grammar.PropertySection.build({"flags": flags, **dict.fromkeys(PROPERTY_NAMES), **values})
    return built


def _plain(name: str, value: Any) -> object:
    if name == "headers":
        return plain_table(value)
    return plain_value({"kind": b"T", "value": value}) if name == "timestamp" else value


@settings(deadline=None)
@given(sections())
def test_equals_the_grammar_both_ways(section: tuple[bytes, dict[str, Any]]) -> None:
    raw, values = section
    properties = decode_properties(raw)
    for name in PROPERTY_NAMES:
        found = getattr(properties, name)
        expected = _plain(name, values[name]) if name in values else None
        assert same(dict(found) if isinstance(found, Table) else found, expected)
        assert read_property(raw, name) == found
    assert encode_properties(properties) == raw


@settings(deadline=None)
@given(sections(), sections())
def test_changing_some_leaves_the_others_octet_for_octet(
    first: tuple[bytes, dict[str, Any]], second: tuple[bytes, dict[str, Any]]
) -> None:
    changes = {name: _plain(name, value) for name, value in second[1].items() if name != "headers"}
    changed = replace_properties(first[0], **changes)
    assert changed == build_section({**first[1], **{name: second[1][name] for name in changes}})


def test_names_and_order_are_the_grammars() -> None:
    assert [name for name, _ in grammar.BASIC_PROPERTIES] == list(PROPERTY_NAMES)


def test_all_fourteen() -> None:
    raw = encode_properties(FULL)
    assert raw[:2] == b"\xff\xfc"
    assert decode_properties(raw) == Properties(**FULL)
    assert encode_properties(Properties(**FULL)) == raw


def test_none_at_all() -> None:
    assert encode_properties(Properties()) == encode_properties({}) == NO_PROPERTIES
    assert decode_properties(NO_PROPERTIES) == Properties()


def test_a_headers_table_of_another_encoding_survives_a_change() -> None:
    headers = b"\x01au\0\7" + b"\x01aS\0\0\0\1\xff"
    raw = b"\x21\x00" + len(headers).to_bytes(4) + headers + b"\x0260"
    changed = replace_properties(raw, expiration=None, message_id="m")
    assert changed == b"\x20\x80" + len(headers).to_bytes(4) + headers + b"\x01m"


def test_replacing_headers() -> None:
    raw = replace_properties(encode_properties(FULL), headers={"b": 2})
    assert decode_properties(raw) == Properties(**{**FULL, "headers": {"b": 2}})


def test_reading_one_does_not_need_those_behind_it() -> None:
    raw = encode_properties(FULL)
    assert read_property(raw[:40], "content_type") == "application/json"
    with pytest.raises(PropertyError, match="'app_id' runs past"):
        read_property(raw[:-6], "app_id")


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "its flags alone need 2"),
        (b"\x80", "its flags alone need 2"),
        (b"\x80\x00", "'content_type' runs past"),
        (b"\x80\x00\x05ab", "'content_type' runs past"),
        (b"\x10\x00", "'delivery_mode' runs past"),
        (b"\x00\x40\0\0\0", "'timestamp' runs past"),
        (b"\x20\x00\0\0", "'headers' runs past"),
        (b"\x20\x00\xff\xff\xff\xff\x01", "'headers' runs past"),
        (b"\x00\x00x", "1 octets follow"),
        (b"\x00\x01\x00\x00", "lowest bits"),
        (b"\x00\x02", "lowest bits"),
    ],
)
def test_malformed_sections_name_what_is_wrong(raw: bytes, message: str) -> None:
    with pytest.raises(PropertyError, match=message):
        decode_properties(raw)
    with pytest.raises(PropertyError, match=message):
        replace_properties(raw, type="t")


def test_malformed_headers_are_found_when_they_are_decoded() -> None:
    raw = b"\x20\x00\0\0\0\3\x01aZ"
    with pytest.raises(FieldError, match="unknown type 'Z'"):
        decode_properties(raw)
    with pytest.raises(FieldError):
        read_property(raw, "headers")
    assert replace_properties(raw, type="t") == b"\x20\x20\0\0\0\3\x01aZ\x01t"


def test_the_limit_on_headers() -> None:
    raw = encode_properties({"headers": {"a": "x" * 1000}})
    with pytest.raises(FieldError, match="at most 100 are accepted"):
        read_property(raw, "headers", max_table_bytes=100)
    with pytest.raises(FieldError, match="at most 100 are accepted"):
        decode_properties(raw, max_table_bytes=100)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("content_type", 5),
        ("content_type", "x" * 256),
        ("content_type", "\ud800"),
        ("expiration", 60000),
        ("delivery_mode", 256),
        ("priority", -1),
        ("priority", "9"),
        ("timestamp", -1),
        ("timestamp", "now"),
        ("headers", [1]),
        ("headers", {"a": object()}),
        ("no_such_property", 1),
    ],
)
def test_what_a_property_cannot_carry(name: str, value: object) -> None:
    with pytest.raises(EncodeError):
        encode_properties({name: value})

"""Field tables as JSON: what RabbitMQ reads, and nothing lost between two of ours."""

from __future__ import annotations

import json
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp_broker.management.definitions.arguments import BadArgument, describe_arguments, read_arguments
from amqp_broker.protocol.fields import decode_table, encode_table


def test_plain_values_stand_for_themselves() -> None:
    arguments: dict[str, Any] = {"ttl": 60000, "big": 2**40, "s": "zoë", "b": True, "d": 2.5, "n": None}
    arguments["list"] = [1, "a", {"k": -5}]
    described = describe_arguments(encode_table(arguments))
    assert described == {"arguments": arguments}
    assert read_arguments(json.loads(json.dumps(arguments))) == arguments


def test_an_empty_table() -> None:
    assert describe_arguments(b"") == {"arguments": {}}
    assert read_arguments({}).raw == b""


def test_what_json_lacks_is_shown_as_rabbitmq_shows_it_and_kept_besides() -> None:
    arguments = {"when": datetime(2020, 1, 2, 3, 4, 5), "cost": Decimal("1.25"), "blob": b"\x00\xff"}
    raw = encode_table(arguments)
    described = describe_arguments(raw)
    assert described["arguments"] == {"when": 1577934245, "cost": 1.25, "blob": "\x00\ufffd"}
    again = read_arguments(
        {"when": 1577934245, "cost": 1.25, "blob": "\x00\ufffd"}, described["arguments_raw"]
    )
    assert again == arguments
    assert again.raw == raw


def test_json_alone_reads_as_rabbitmq_reads_it() -> None:
    table = read_arguments({"n": 1, "big": 2**40, "d": 2.5, "s": "x", "b": False})
    assert [table.kind(key) for key in table] == ["I", "l", "d", "S", "t"]


@pytest.mark.parametrize(
    ("arguments", "encoded", "key", "text"),
    [
        ({"ok": 1, "n": 2**64}, None, "arguments.n", "18446744073709551616"),
        ({"k" * 300: 1}, None, "arguments." + "k" * 300, "255"),
        ({"n": 1}, "no base64!", "arguments_raw", "not the base64"),
        ({"n": 1}, "AAAA", "arguments_raw", "not the base64"),
        ({"n": 2}, "AW5JAAAAAQ==", "arguments_raw", "remove it after an edit"),
    ],
)
def test_what_no_field_holds_says_where(
    arguments: dict[str, Any], encoded: str | None, key: str, text: str
) -> None:
    with pytest.raises(BadArgument, match=text) as caught:
        read_arguments(arguments, encoded)
    assert caught.value.key == key


_KEYS = st.text(max_size=5)
_LEAVES = st.one_of(
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=True),
    st.text(max_size=5),
    st.binary(max_size=5),
    st.none(),
    st.datetimes(datetime(1970, 1, 1), datetime(2100, 1, 1)).map(
        lambda moment: moment.replace(microsecond=0)
    ),
    st.decimals(-1000, 1000, places=2),
)
_TABLES = st.dictionaries(
    _KEYS,
    st.recursive(
        _LEAVES,
        lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_KEYS, inner, max_size=3)),
        max_leaves=5,
    ),
    max_size=4,
)


def _typed(value: object) -> object:
    """A value that equals another only if their types do as well; NaN equals itself."""
    if isinstance(value, dict):
        return [(key, _typed(item)) for key, item in value.items()]
    if isinstance(value, list):
        return [_typed(item) for item in value]
    return type(value), repr(value)


@given(_TABLES)
def test_export_and_import_lose_nothing(arguments: dict[str, Any]) -> None:
    raw = encode_table(arguments)
    described = json.loads(json.dumps(describe_arguments(raw), allow_nan=False))
    again = read_arguments(described["arguments"], described.get("arguments_raw"))
    assert _typed(again) == _typed(decode_table(raw))

"""fields.py: every type letter, equality with the grammar, limits, and editing one header among others."""

from __future__ import annotations

import copy
import pickle
import struct
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqp_broker.protocol import grammar
from amqp_broker.protocol.errors import EncodeError, FieldError
from amqp_broker.protocol.fields import (
    KIND_NAMES,
    MAX_DEPTH,
    MAX_TABLE_BYTES,
    RawValue,
    Table,
    decode_table,
    encode_table,
    encode_value,
    join_table,
    plain_longs,
    split_table,
    typed,
)
from tests.protocol.protocol_strategies import TABLES, plain_table, same

# One value of each type letter: letter, octets after it, what it becomes, how to ask for it again.
VECTORS: list[tuple[str, str, object]] = [
    ("t", "01", True),
    ("t", "00", False),
    ("b", "80", -128),
    ("B", "ff", 255),
    ("s", "8000", -32768),
    ("u", "ffff", 65535),
    ("I", "80000000", -2147483648),
    ("I", "7fffffff", 2147483647),
    ("i", "ffffffff", 4294967295),
    ("l", "8000000000000000", -9223372036854775808),
    ("f", "3fc00000", 1.5),
    ("d", "3ff199999999999a", 1.1),
    ("D", "02 ffffff85", Decimal("-1.23")),
    ("D", "00 00000005", Decimal("5")),
    ("S", "00000003 c3a96f", "éo"),
    ("S", "00000000", ""),
    ("x", "00000002 ff00", b"\xff\x00"),
    ("T", "0000000065535f00", datetime(2023, 11, 14, 11, 50, 24)),
    ("V", "", None),
    ("A", "00000005 4900000007", [7]),
    ("F", "00000004 01 61 74 01", {"a": True}),
]


@pytest.mark.parametrize(("kind", "octets", "value"), VECTORS)
def test_each_type_letter(kind: str, octets: str, value: object) -> None:
    raw = b"\x03key" + kind.encode() + bytes.fromhex(octets)
    table = decode_table(raw)
    assert same(dict(table), {"key": value})
    assert table.raw == raw
    assert table.kind("key") == kind
    assert encode_table({"key": typed(kind, value)}) == raw


def test_vectors_cover_every_type_letter() -> None:
    assert {kind for kind, _, _ in VECTORS} | {"L"} == set(KIND_NAMES)


@pytest.mark.parametrize("number", [1_700_000_000_000, -(1 << 63), (1 << 63) - 1])
def test_a_capital_l_is_a_long(number: int) -> None:
    """py-amqp writes so what is beyond 32 bits. It is read, never written."""
    octets = struct.pack(">q", number)
    table = decode_table(b"\x03keyL" + octets)
    assert (table, table.kind("key")) == ({"key": number}, "l")
    assert encode_table({"key": typed("L", number)}) == encode_table(dict(table)) == b"\x03keyl" + octets


@settings(deadline=None)
@given(TABLES)
def test_plain_longs_changes_one_letter_only(entries: Any) -> None:
    raw = grammar.TableContents.build(entries)
    plain = plain_longs(raw)
    assert same(dict(decode_table(plain)), dict(decode_table(raw)))
    changed = [position for position in range(len(raw)) if raw[position] != plain[position]]
    assert all((raw[position], plain[position]) == (ord("L"), ord("l")) for position in changed)
    assert capital_longs(entries) == len(changed)
    assert plain_longs(plain) == plain


def capital_longs(entries: Any) -> int:
    """How many values of type L there are, at any depth."""
    count = 0
    for entry in entries:
        field = entry.get("field", entry)
        count += field["kind"] == b"L"
        if field["kind"] in (b"A", b"F"):
            count += capital_longs(field["value"])
    return count


def test_long_string_that_is_not_utf8_stays_bytes() -> None:
    assert decode_table(b"\x01aS\0\0\0\2\xff\xfe") == {"a": b"\xff\xfe"}


def test_key_that_is_not_utf8_survives() -> None:
    table = decode_table(b"\x02\xff\xfeV")
    assert table == {"\udcff\udcfe": None}
    assert encode_table(dict(table)) == table.raw


def test_timestamp_beyond_the_year_9999_is_an_int() -> None:
    last = 253402300799
    assert decode_table(b"\x01aT" + struct.pack(">Q", last)) == {"a": datetime(9999, 12, 31, 23, 59, 59)}
    for beyond in (last + 1, (1 << 63) + 1, (1 << 64) - 1):
        table = decode_table(b"\x01aT" + struct.pack(">Q", beyond))
        assert table == {"a": beyond}
        assert encode_table({"a": typed("T", beyond)}) == table.raw


def test_of_two_equal_keys_the_later_counts() -> None:
    table = decode_table(b"\x01aI\0\0\0\1" + b"\x01at\1")
    assert table == {"a": True}
    assert table.kind("a") == "t"


@settings(deadline=None)
@given(TABLES)
def test_decodes_as_the_grammar_does(entries: Any) -> None:
    raw = grammar.TableContents.build(entries)
    assert same(dict(decode_table(raw)), plain_table(grammar.TableContents.parse(raw)))


@settings(deadline=None)
@given(TABLES)
def test_split_and_join_leave_every_octet(entries: Any) -> None:
    raw = grammar.TableContents.build(entries)
    pairs = split_table(raw)
    assert [(key, value[:1]) for key, value in pairs] == [(e["key"], e["field"]["kind"]) for e in entries]
    assert join_table(pairs) == raw


VALUES = st.recursive(
    st.one_of(
        st.booleans(),
        st.integers(-(1 << 63), (1 << 63) - 1),
        st.floats(allow_nan=False),
        st.text(max_size=20),
        st.binary(max_size=20),
        st.none(),
        st.datetimes(datetime(1970, 1, 1), datetime(9999, 12, 31)).map(
            lambda moment: moment.replace(microsecond=0)
        ),
        st.decimals(-2147483648, 2147483647, places=0).map(lambda number: number.scaleb(-3)),
    ),
    lambda values: st.lists(values, max_size=4) | st.dictionaries(st.text(max_size=10), values, max_size=4),
    max_leaves=10,
)


@settings(deadline=None)
@given(st.dictionaries(st.text(max_size=40), VALUES, max_size=6))
def test_python_values_survive_and_the_grammar_reads_them(fields: dict[str, object]) -> None:
    raw = encode_table(fields)
    assert same(dict(decode_table(raw)), fields)
    assert same(plain_table(grammar.TableContents.parse(raw)), fields)


def test_type_letter_follows_the_value() -> None:
    fields = {
        "bool": True,
        "small": -(1 << 31),
        "large": 1 << 31,
        "text": "é",
        "octets": b"S",
        "buffer": bytearray(b"x"),
        "float": 0.5,
        "nothing": None,
        "time": datetime(2020, 1, 1),
        "decimal": Decimal("1.5"),
        "list": [1],
        "tuple": (1, "a"),
        "dict": {"a": 1},
        "table": Table({"b": 2}),
        "chosen": typed("u", 7),
    }
    kinds = {key: chr(value[0]) for key, value in split_table(encode_table(fields))}
    assert "".join(kinds.values()) == "tIlSxxdVTDAAFFu"


def test_aware_datetimes_are_converted_to_utc() -> None:
    zone = timezone(timedelta(hours=2))
    assert encode_value(datetime(2020, 1, 1, 2, tzinfo=zone)) == encode_value(
        datetime(2020, 1, 1, tzinfo=UTC)
    )
    assert encode_value(datetime(2020, 1, 1, tzinfo=UTC)) == encode_value(datetime(2020, 1, 1))


def test_subclasses_take_the_letter_of_their_base() -> None:
    class Name(str):
        pass

    assert encode_value(Name("a")) == encode_value("a")


LOOP: list[object] = []
LOOP.append(LOOP)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"a": 1 << 63}, "cannot carry 9223372036854775808"),
        ({"a": object()}, "no field type can carry"),
        ({"a": {1, 2}}, "no field type can carry"),
        ({"a": "\ud800"}, "surrogates not allowed"),
        ({"\ud800": 1}, "UTF-8"),
        ({"k" * 256: 1}, "at most 255 fit"),
        ({5: 1}, "field name 5"),
        ({"a": datetime(1969, 1, 1)}, "before 1970"),
        ({"a": Decimal("NaN")}, "not a finite number"),
        ({"a": Decimal("Infinity")}, "not a finite number"),
        ({"a": Decimal("9999999999")}, "cannot carry"),
        ({"a": Decimal("1e99999999")}, "more than 32 bits"),
        ({"a": Decimal("1e-256")}, "cannot carry"),
        ({"a": LOOP}, "contains itself"),
    ],
)
def test_what_no_table_can_carry(fields: Any, message: str) -> None:
    with pytest.raises(EncodeError, match=message):
        encode_table(fields)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("b", 128),
        ("B", -1),
        ("u", 65536),
        ("I", "7"),
        ("f", 1e300),
        ("T", -1),
        ("T", 1 << 64),
        ("T", "now"),
        ("D", 1.5),
        ("S", 5),
        ("x", None),
        ("A", {"a": 1}),
        ("A", "abc"),
        ("F", [1]),
        ("Z", 1),
        ("ß", 1),
        ("", 1),
        ("II", 1),
        ("\u0149", 1),
    ],
)
def test_what_a_type_letter_cannot_carry(kind: str, value: object) -> None:
    with pytest.raises(EncodeError):
        typed(kind, value)


def test_one_header_is_edited_and_the_others_stay_octet_for_octet() -> None:
    raw = b"\x01au\0\7" + b"\x07x-deathI\0\0\0\1" + b"\x01bS\0\0\0\1\xff"
    edited = [(key, encode_value("new") if key == "x-death" else value) for key, value in split_table(raw)]
    assert join_table(edited) == b"\x01au\0\7" + b"\x07x-deathS\0\0\0\3new" + b"\x01bS\0\0\0\1\xff"


def test_raw_values_are_copied() -> None:
    assert (
        encode_table({"a": [RawValue(b"u\0\7"), typed("l", 3)]}) == b"\x01aA\0\0\0\x0cu\0\7l\0\0\0\0\0\0\0\3"
    )


def test_a_table_inside_another_keeps_its_octets() -> None:
    inner = decode_table(b"\x01cs\0\5")
    assert encode_table({"inner": inner}) == b"\x05innerF\0\0\0\5" + inner.raw


def test_a_table_cannot_be_changed() -> None:
    table = Table({"a": 1})
    changes: list[Callable[[], object]] = [
        lambda: table.__setitem__("a", 2),
        lambda: table.__delitem__("a"),
        lambda: table.update(a=2),
        lambda: table.pop("a"),
        lambda: table.popitem(),
        lambda: table.clear(),
        lambda: table.setdefault("b", 1),
        lambda: table.__ior__({"b": 1}),
    ]
    for change in changes:
        with pytest.raises(TypeError, match="cannot be changed"):
            change()
    assert table == {"a": 1}
    assert dict(table) | {"b": 2} == {"a": 1, "b": 2}


def test_a_table_copies_and_pickles_with_its_octets() -> None:
    table = decode_table(b"\x01cs\0\5")
    for twin in (copy.deepcopy(table), pickle.loads(pickle.dumps(table))):
        assert (twin, twin.raw, twin.kind("c")) == ({"c": 5}, table.raw, "s")


def test_the_kind_of_a_missing_key_is_a_key_error() -> None:
    with pytest.raises(KeyError, match="missing"):
        Table({"a": 1}).kind("missing")


def test_nesting_up_to_the_limit() -> None:
    value: object = {}
    for _ in range(MAX_DEPTH - 2):
        value = [value]
    raw = encode_table({"a": value})
    assert decode_table(raw) == {"a": value}
    deeper = b"\x01aA" + struct.pack(">I", len(raw) - 2) + raw[2:]
    with pytest.raises(FieldError, match="nested too deeply"):
        decode_table(deeper)


def test_a_table_nested_without_end_is_refused_before_it_is_walked() -> None:
    raw = b""
    for _ in range(10_000):
        raw = b"\x01aF" + struct.pack(">I", len(raw)) + raw
    with pytest.raises(FieldError, match="nested too deeply"):
        decode_table(raw)


def test_the_callers_depth_limit() -> None:
    raw = encode_table({"a": [[]]})
    assert decode_table(raw, max_depth=3) == {"a": [[]]}
    with pytest.raises(FieldError):
        decode_table(raw, max_depth=2)


def test_the_size_limit() -> None:
    raw = b"\x01aS" + struct.pack(">I", MAX_TABLE_BYTES) + bytes(MAX_TABLE_BYTES)
    with pytest.raises(FieldError, match="at most 131072 are accepted"):
        decode_table(raw)
    assert decode_table(raw, max_bytes=len(raw)) == {"a": "\0" * MAX_TABLE_BYTES}


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"\x05a", "inside a field's name"),
        (b"\x01a", "before its type"),
        (b"\xff", "inside a field's name"),
        (b"\x01aI\0\0\0", "runs past"),
        (b"\x01at", "runs past"),
        (b"\x01aS", "runs past"),
        (b"\x01aS\0\0\0", "runs past"),
        (b"\x01aS\0\0\0\2a", "runs past"),
        (b"\x01aS\xff\xff\xff\xffabc", "runs past"),
        (b"\x01ax\x80\0\0\0abc", "runs past"),
        (b"\x01aU\0\0\0\0\0\0\0\0", "unknown type 'U'"),
        (b"\x01aL\0\0\0\0\0\0\0", "runs past"),
        (b"\x01a\x00", "unknown type"),
        (b"\x01a\xff", "unknown type"),
        (b"\x01aF\0\0\0\3\x01bt\x01", "runs past"),
        (b"\x01aA\0\0\0\2I\0\0\0\0", "runs past"),
    ],
)
def test_malformed_tables_name_what_is_wrong(raw: bytes, message: str) -> None:
    with pytest.raises(FieldError, match=message):
        decode_table(raw)

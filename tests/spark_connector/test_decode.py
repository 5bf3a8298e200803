"""Blobs to Arrow: every column against the properties that were encoded, and octets that are no blob."""

from __future__ import annotations

import json
import struct
from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp_broker.protocol.properties import PROPERTY_NAMES, encode_properties
from spark_connector import schema as rows
from spark_connector.columns import PROPERTIES, Columns
from spark_connector.decode import Decoder
from spark_connector.encode import Blob, Outgoing
from spark_connector.errors import MalformedBlob, SchemaError
from tests.spark_connector.row_types import columns_of

ALL = rows.row_type("map")


def piece(offset: int, properties: dict[str, object], body: bytes, key: bytes = b"key", count: int = 0) -> bytes:
    raw = encode_properties(properties) if properties else b""
    return b"".join((
        struct.pack(">QQBH", offset, 1_700_000_000_123, count > 0, count), b"\x02ex", bytes([len(key)]), key,
        struct.pack(">L", len(raw)), raw, struct.pack(">L", len(body)), body,
    ))  # fmt: skip


def blob_of(*pieces: bytes) -> bytes:
    return b"\x01" + struct.pack(">L", len(pieces)) + b"".join(pieces)


def test_the_properties_are_those_of_the_protocol() -> None:
    assert PROPERTIES == PROPERTY_NAMES


def test_every_column_holds_what_was_published() -> None:
    properties = {
        "content_type": "text/plain", "content_encoding": "utf-8", "headers": {"n": 1, "s": "x"}, "delivery_mode": 2,
        "priority": 200, "correlation_id": "c", "reply_to": "r", "expiration": "5", "message_id": "m",
        "timestamp": 1_700_000_000, "type": "t", "user_id": "u", "app_id": "a", "cluster_id": "cl",
    }  # fmt: skip
    blob = blob_of(piece(7, properties, b"\x00body", count=3), piece(8, {}, b""))
    batch = Decoder(ALL, "map").batch(blob, "orders", "inc")
    first, second = batch.to_pylist()
    moment = datetime.fromtimestamp(1_700_000_000, UTC)
    assert first == {
        **properties, "timestamp": moment, "headers": [("n", "1"), ("s", "x")], "body": b"\x00body", "exchange": "ex",
        "routing_key": "key", "redelivered": True, "delivery_count": 3, "queue": "orders", "incarnation": "inc",
        "partition": 0,
        "offset": 7, "enqueued_at": datetime.fromtimestamp(1_700_000_000.123, UTC),
    }  # fmt: skip
    assert second["body"] == b""
    assert second["offset"] == 8
    assert [second[name] for name in PROPERTIES] == [None] * 14


def test_only_what_is_asked_for_is_decoded() -> None:
    decoder = Decoder(columns_of("offset bigint, body binary"), "map")
    assert decoder.parts == ["body"]
    batch = decoder.batch(blob_of(piece(0, {"app_id": "a"}, b"x")), "q", "i")
    assert batch.schema.names == ["offset", "body"]
    columns = Columns(blob_of(piece(0, {"app_id": "a"}, b"x")), frozenset({"offset"}))
    assert columns.body is None
    assert columns.texts == [None] * 14


def test_a_mix_of_absent_and_present_values_keeps_the_rows_apart() -> None:
    kinds: list[dict[str, object]] = [{}, {"app_id": "a", "priority": 1}, {"message_id": "m", "timestamp": 5}]
    blob = blob_of(*[piece(row, kinds[row % 3], b"%d" % row) for row in range(100)])
    found = Decoder(ALL, "map").batch(blob, "q", "i").to_pylist()
    for row, each in enumerate(found):
        expected = kinds[row % 3]
        assert each["body"] == b"%d" % row
        assert (each["app_id"], each["priority"], each["message_id"]) == tuple(
            expected.get(name) for name in ("app_id", "priority", "message_id")
        )
        assert (each["timestamp"] is None) == ("timestamp" not in expected)


def test_octets_that_are_no_utf8_are_replaced_in_texts_only() -> None:
    batch = Decoder(ALL, "map").batch(blob_of(piece(0, {}, b"\xff", key=b"k\xff"), piece(1, {}, b"", b"ok")), "q", "i")
    assert batch.column("routing_key").to_pylist() == ["k\ufffd", "ok"]
    assert batch.column("body").to_pylist() == [b"\xff", b""]
    batch.validate(full=True)


def test_a_time_beyond_the_last_year_of_spark_is_none() -> None:
    batch = Decoder(ALL, "map").batch(blob_of(piece(0, {"timestamp": 1 << 62}, b"")), "q", "i")
    assert batch.column("timestamp").to_pylist() == [None]


EVERY_KIND = {
    "t": True, "I": -5, "l": 1 << 40, "S": "text", "x": b"\x00\xff", "d": 0.5, "V": None, "T": datetime(2020, 1, 2),
    "D": Decimal("1.50"), "A": [1, "two", {"three": 3}], "F": {"a": {"b": []}}, "nan": float("nan"),
}  # fmt: skip


def test_headers_of_every_kind_as_json_and_as_texts() -> None:
    blob = blob_of(piece(0, {"headers": EVERY_KIND}, b""))
    schema = columns_of("headers string")
    found = json.loads(Decoder(schema, "json").batch(blob, "q", "i").column("headers")[0].as_py())
    assert found == {
        "t": True, "I": -5, "l": 1 << 40, "S": "text", "x": "AP8=", "d": 0.5, "V": None, "T": "2020-01-02T00:00:00Z",
        "D": "1.50", "A": [1, "two", {"three": 3}], "F": {"a": {"b": []}}, "nan": "nan",
    }  # fmt: skip
    texts = dict(Decoder(ALL, "map").batch(blob, "q", "i").column("headers")[0].as_py())
    assert texts == {
        "t": "true", "I": "-5", "l": str(1 << 40), "S": "text", "x": "AP8=", "d": "0.5", "V": None,
        "T": "2020-01-02T00:00:00Z", "D": "1.50", "A": '[1, "two", {"three": 3}]', "F": '{"a": {"b": []}}',
        "nan": "nan",
    }  # fmt: skip


def test_headers_as_variants_have_sparks_layout() -> None:
    decoder = Decoder(columns_of("headers variant"), "variant")
    batch = decoder.batch(blob_of(piece(0, {"headers": {"a": 1}}, b""), piece(1, {}, b"")), "q", "i")
    first, second = batch.column("headers").to_pylist()
    assert set(first) == {"value", "metadata"}
    assert second is None


@given(st.binary(max_size=200))
def test_no_octets_do_harm(octets: bytes) -> None:
    for blob in (octets, b"\x01" + octets, b"\x01\x00\x00\x00\x01" + octets):
        try:
            batch = Decoder(ALL, "json").batch(blob, "q", "i")
        except (MalformedBlob, ValueError):
            continue
        batch.validate(full=True)


def test_a_blob_cut_anywhere_is_malformed() -> None:
    blob = blob_of(piece(0, {"app_id": "a", "headers": {"k": 1}, "timestamp": 1}, b"body"), piece(1, {}, b"x"))
    for end in range(len(blob)):
        with pytest.raises(MalformedBlob):
            Columns(blob[:end], frozenset(rows.BY_NAME))
    with pytest.raises(MalformedBlob, match="follow the last"):
        Columns(blob + b"x", frozenset(rows.BY_NAME))


def test_a_blob_that_is_staged_reads_as_what_was_put_in() -> None:
    blob = Blob()
    section = encode_properties({"delivery_mode": 2})
    for number in range(3):
        blob.add(Outgoing("e", f"k{number}", section, b"b" * number))
    assert blob.count == 3
    batch = Decoder(ALL, "map").batch(blob.take(), "q", "i")
    assert batch.column("routing_key").to_pylist() == ["k0", "k1", "k2"]
    assert batch.column("delivery_mode").to_pylist() == [2, 2, 2]
    assert blob.count == blob.octets == 0


@pytest.mark.parametrize(
    ("ddl", "said"),
    [
        ("body binary, size int", "a message has no column 'size'"),
        ("body string", "column 'body' is binary, not string"),
        ("offset int", "column 'offset' is bigint, not int"),
    ],
)
def test_a_schema_that_is_none_is_refused_by_column(ddl: str, said: str) -> None:
    with pytest.raises(SchemaError) as caught:
        rows.check(columns_of(ddl), "map")
    assert said in str(caught.value)


def test_batches_have_the_types_that_spark_checks() -> None:
    batch = Decoder(ALL, "map").batch(blob_of(), "q", "i")
    assert batch.num_rows == 0
    assert batch.schema == Decoder(ALL, "map").arrow_schema
    assert batch.schema.field("timestamp").type == pa.timestamp("us", "UTC")

"""Rows to messages: what columns and options say, and rows that are no message."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from amqp_broker.protocol.properties import decode_properties
from spark_connector import schema as rows
from spark_connector.encode import Encoder, Outgoing
from spark_connector.errors import ConnectorError, OptionError, PublishFailed, SchemaError
from spark_connector.options import Options
from tests.spark_connector.row_types import columns_of


def messages(ddl: str | StructType, values: list[dict[str, object]], **options: str) -> list[Outgoing]:
    schema = columns_of(ddl) if isinstance(ddl, str) else ddl
    batch = pa.RecordBatch.from_pylist(values, schema=to_arrow_schema(schema, timezone="UTC"))
    return list(Encoder(schema, Options.parse(options)).messages(batch))


def test_a_body_is_enough() -> None:
    (message,) = messages("value string", [{"value": "ü"}], routingKey="q")
    assert message[:2] == ("", "q")
    assert message.body == "ü".encode()
    assert decode_properties(message.properties).delivery_mode == 2


def test_columns_come_before_options() -> None:
    values: list[dict[str, object]] = [{"body": b"1", "routing_key": "k", "exchange": "e"}, {"body": b"2"}]
    found = messages("body binary, routing_key string, exchange string", values, routingKey="q", exchange="x")
    assert [each[:2] for each in found] == [("e", "k"), ("x", "q")]


def test_all_properties_are_written() -> None:
    moment = datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC)
    values: dict[str, object] = {
        "content_type": "c", "headers": [("a", "1")], "priority": 3, "delivery_mode": 1, "timestamp": moment,
        "message_id": "m", "expiration": "60000", "type": "t",
    }  # fmt: skip

    (message,) = messages(rows.row_type("map"), [{**values, "body": b"x", "routing_key": "k"}])
    properties = decode_properties(message.properties)
    assert properties.headers == {"a": "1"}
    assert (properties.delivery_mode, properties.priority, properties.expiration) == (1, 3, "60000")
    assert properties.timestamp == moment.replace(tzinfo=None)


def test_headers_may_be_json() -> None:
    (message,) = messages("body string, headers string", [{"body": "x", "headers": '{"n": 1}'}], routingKey="q")
    assert decode_properties(message.properties).headers == {"n": 1}


@pytest.mark.parametrize(
    ("ddl", "options", "kind", "said"),
    [
        ("key string", {"routingKey": "q"}, SchemaError, "needs one column 'body'"),
        ("body int", {"routingKey": "q"}, SchemaError, "column 'body' is int"),
        ("body string, size int", {"routingKey": "q"}, SchemaError, "column 'size' is no part of a message"),
        ("body string, headers int", {"routingKey": "q"}, SchemaError, "column 'headers'"),
        ("body string", {}, OptionError, "option 'routingKey' is missing"),
    ],
)
def test_rows_that_can_be_no_messages_are_refused_at_once(
    ddl: str, options: dict[str, str], kind: type[ConnectorError], said: str
) -> None:
    with pytest.raises(kind) as caught:
        Encoder(columns_of(ddl), Options.parse(options))
    assert said in str(caught.value)


def test_unknown_columns_may_be_left_out() -> None:
    found = messages("body string, size int", [{"body": "x", "size": 1}], routingKey="q", ignoreUnknownColumns="true")
    assert found[0].body == b"x"


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"body": None, "routing_key": "k"}, "no body"),
        ({"body": "x", "routing_key": None}, "no routing_key"),
        ({"body": "x", "routing_key": "k", "priority": 300}, "property 'priority' cannot carry 300"),
        ({"body": "x", "routing_key": "k", "message_id": "m" * 256}, "property 'message_id' of 256 octets"),
    ],
)
def test_a_row_that_is_no_message_is_named(values: dict[str, object], said: str) -> None:
    with pytest.raises(PublishFailed) as caught:
        messages("body string, routing_key string, priority int, message_id string", [values])
    assert said in str(caught.value)

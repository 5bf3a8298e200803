"""Every method: the codec that runs against the grammar that is the truth."""

from __future__ import annotations

import copy
import pickle
import time
import timeit
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqp_broker.protocol import methods as m
from amqp_broker.protocol.errors import EncodeError, MethodDecodeError, UnknownMethod
from amqp_broker.protocol.fields import Table, decode_table
from amqp_broker.protocol.grammar import METHODS, MethodGrammar, TableContents
from tests.example_counts import examples
from tests.protocol.protocol_strategies import arguments_of, plain_table, same

BY_INDEX = {method.index: method for method in METHODS}
IDS = [method.name for method in METHODS]


def test_every_method_of_the_grammar_has_a_class() -> None:
    assert [(method.index, method.name) for method in m.METHODS.values()] == [
        (g.index, g.name) for g in METHODS
    ]
    for declared in METHODS:
        method = m.METHODS[divmod(declared.index, 1 << 16)]
        assert method is m.METHODS_BY_NAME[declared.name]
        assert list(method.fields) == declared.field_names()
        assert (method.replies, method.has_content) == (declared.replies, declared.has_content)


def test_class_names() -> None:
    assert m.METHODS_BY_NAME["queue.declare"] is m.QueueDeclare
    assert m.METHODS_BY_NAME["connection.update-secret-ok"] is m.ConnectionUpdateSecretOk
    assert m.METHODS_BY_NAME["basic.get-empty"] is m.BasicGetEmpty


@pytest.mark.parametrize("declared", METHODS, ids=IDS)
@settings(deadline=None, max_examples=examples(25))
@given(data=st.data())
def test_equals_the_grammar_both_ways(declared: MethodGrammar, data: st.DataObject) -> None:
    arguments = data.draw(arguments_of(declared))
    payload = declared.build(arguments)
    method = m.decode_method(payload)
    for name in declared.field_names():
        value = getattr(method, name)
        if isinstance(value, Table):
            assert TableContents.build(arguments[name]) == value.raw
            assert same(dict(value), plain_table(arguments[name]))
        else:
            assert same(value, arguments[name])
    assert m.encode_method(method) == payload


@pytest.mark.parametrize("declared", METHODS, ids=IDS)
def test_defaults_are_zero_empty_and_false(declared: MethodGrammar) -> None:
    method = m.METHODS_BY_NAME[declared.name]()
    payload = m.encode_method(method)
    assert set(payload[4:]) <= {0}
    assert m.decode_method(payload) == method


@pytest.mark.parametrize("declared", METHODS, ids=IDS)
def test_truncated_and_padded_payloads_name_the_method(declared: MethodGrammar) -> None:
    payload = m.encode_method(m.METHODS_BY_NAME[declared.name]())
    for length in range(4, len(payload)):
        with pytest.raises(MethodDecodeError, match=f"malformed arguments of {declared.name}: .* argument '"):
            m.decode_method(payload[:length])
    with pytest.raises(MethodDecodeError, match="1 octets follow the last argument") as caught:
        m.decode_method(payload + b"\0")
    assert (caught.value.class_id, caught.value.method_id) == divmod(declared.index, 1 << 16)
    assert caught.value.reply_code == 502


def test_a_bad_table_names_the_argument_and_the_cause() -> None:
    payload = bytes.fromhex("0032 000a 0000 01 71 00 00000007") + b"\x01aZ\0\0\0\0"
    with pytest.raises(MethodDecodeError, match=r"queue.declare: argument 'arguments': unknown type 'Z'"):
        m.decode_method(payload)


@pytest.mark.parametrize("payload", [b"", b"\0", b"\0\x32\0"])
def test_a_payload_without_ids(payload: bytes) -> None:
    with pytest.raises(MethodDecodeError, match="class and method id need 4"):
        m.decode_method(payload)


def test_unknown_ids() -> None:
    with pytest.raises(UnknownMethod, match=r"unknown class 31 \(method 10\)") as caught:
        m.decode_method(bytes.fromhex("001f000a"))
    assert caught.value.reply_code == 503
    with pytest.raises(UnknownMethod, match=r"unknown method 99 of class 50 \(queue\)") as caught:
        m.decode_method(bytes.fromhex("00320063"))
    assert (caught.value.reply_code, caught.value.class_id, caught.value.method_id) == (540, 50, 99)


def test_octets_that_are_not_utf8_come_back() -> None:
    payload = bytes.fromhex("0032 000a 0000 03 ff00fe 00 00000000")
    method = m.decode_method(payload)
    assert method == m.QueueDeclare(queue="\udcff\0\udcfe")
    assert m.encode_method(method) == payload


@pytest.mark.parametrize(
    ("method", "field"),
    [
        (m.QueueDeclare(queue="q" * 256), "queue"),
        (m.QueueDeclare(queue="é" * 128), "queue"),
        (m.QueueDeclare(queue="\ud800"), "queue"),
        (m.QueueDeclare(queue=None), "queue"),  # type: ignore[arg-type]
        (m.QueueDeclare(ticket=65536), "ticket"),
        (m.QueueDeclare(arguments={"a": object()}), "arguments"),  # type: ignore[arg-type]
        (m.QueueDeclare(arguments=None), "arguments"),  # type: ignore[arg-type]
        (m.ConnectionTune(channel_max=-1), "channel_max"),
        (m.ConnectionSecure(challenge="text"), "challenge"),  # type: ignore[arg-type]
        (m.BasicAck(delivery_tag=1 << 64), "delivery_tag"),
    ],
)
def test_what_the_wire_cannot_carry_names_the_argument(method: m.Method, field: str) -> None:
    with pytest.raises(EncodeError, match=f"{method.name}: argument '{field}' cannot carry"):
        m.encode_method(method)


def test_delivery_tags_are_unsigned_and_of_64_bits() -> None:
    for tag in (0, (1 << 63) - 1, 1 << 63, (1 << 64) - 1):
        assert m.decode_method(m.encode_method(m.BasicAck(delivery_tag=tag))) == m.BasicAck(tag, False)


def test_a_mapping_will_do_for_a_table() -> None:
    method = m.QueueDeclare(arguments={"x-max-length": 5})  # type: ignore[arg-type]
    decoded: Any = m.decode_method(m.encode_method(method))
    assert decoded.arguments == {"x-max-length": 5}
    assert decoded.arguments.kind("x-max-length") == "I"


def test_a_method_is_a_frozen_value() -> None:
    method = m.BasicNack(7, multiple=True)
    assert method == m.BasicNack(delivery_tag=7, multiple=True, requeue=False)
    assert method != m.BasicNack(8, True)
    assert hash(method) == hash(m.BasicNack(7, True))
    assert m.TxSelect() != m.TxCommit()
    assert m.BasicAck(1) != m.BasicReject(1)
    assert repr(method) == "BasicNack(delivery_tag=7, multiple=True, requeue=False)"
    assert method.replace(requeue=True) == m.BasicNack(7, True, True)
    assert (method.ids, method.index, method.name) == ((60, 120), 60 << 16 | 120, "basic.nack")
    changes: list[Callable[[], object]] = [
        lambda: setattr(method, "requeue", True),
        lambda: delattr(method, "requeue"),
    ]
    for change in changes:
        with pytest.raises(AttributeError, match=r"basic\.nack.*use replace"):
            change()
    with pytest.raises(AttributeError):
        _ = method.__dict__
    match method:
        case m.BasicNack(tag, multiple):
            assert (tag, multiple) == (7, True)


def test_wrong_arguments_are_type_errors() -> None:
    with pytest.raises(TypeError, match="'no_wait' is none of its fields"):
        m.QueueDeclare(no_wait=True)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="2 fields but 3 values"):
        m.BasicAck(1, True, 3)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="'delivery_tag' was given twice"):
        m.BasicAck(1, delivery_tag=1)  # type: ignore[misc]


def test_methods_copy_and_pickle() -> None:
    method = m.QueueBind(queue="q", arguments=decode_table(b"\x01cs\0\5"))
    for twin in (copy.deepcopy(method), pickle.loads(pickle.dumps(method))):
        assert twin == method
        assert twin.arguments.kind("c") == "s"


def test_a_declare_is_decoded_in_a_few_microseconds() -> None:
    """Plain Python takes 3 to 5; the grammar itself would take some 100 and slow a storm of handshakes."""
    payload = m.encode_method(
        m.QueueDeclare(queue="orders", durable=True, arguments=Table({"x-max-length": 5}))
    )
    best = min(timeit.repeat(lambda: m.decode_method(payload), number=1000, repeat=5, timer=time.process_time)) / 1000
    assert best < 40e-6

"""The grammar against the specification: ids, bit order, and octets written out by hand."""

from __future__ import annotations

import pytest
from construct import ConstructError

from amqp_broker.protocol import constants, generate
from amqp_broker.protocol.grammar import (
    METHODS,
    ContentHeader,
    FieldTable,
    Frame,
    PropertySection,
    ProtocolHeader,
)

BY_NAME = {method.name: method for method in METHODS}


def test_methods_module_is_what_the_grammar_generates() -> None:
    """After a change of the grammar: python -m amqp_broker.protocol.generate"""
    assert generate.TARGET.read_text(encoding="utf-8") == generate.methods_source()


def test_every_method_has_one_name_and_one_index() -> None:
    assert len(METHODS) == 66
    assert len(BY_NAME) == len({method.index for method in METHODS}) == 66


def test_every_index_constant_belongs_to_the_method_of_its_name() -> None:
    expected = {method.name.upper().replace(".", "_").replace("-", "_"): method.index for method in METHODS}
    classes = tuple({method.name.partition(".")[0].upper() + "_" for method in METHODS})
    assert {name: value for name, value in vars(constants).items() if name.startswith(classes)} == expected


def test_every_reply_is_a_method_of_the_same_class() -> None:
    for method in METHODS:
        for reply in method.replies:
            assert BY_NAME[reply].index >> 16 == method.index >> 16


# §1.3 to §1.8 of the specification, and RabbitMQ's published definition for the rest
@pytest.mark.parametrize(
    ("name", "class_id", "method_id"),
    [
        ("connection.start", 10, 10),
        ("connection.close", 10, 50),
        ("connection.blocked", 10, 60),
        ("connection.unblocked", 10, 61),
        ("connection.update-secret", 10, 70),
        ("channel.close-ok", 20, 41),
        ("access.request-ok", 30, 11),
        ("exchange.bind", 40, 30),
        ("exchange.unbind", 40, 40),
        ("exchange.unbind-ok", 40, 51),
        ("queue.unbind", 50, 50),
        ("queue.unbind-ok", 50, 51),
        ("basic.get-empty", 60, 72),
        ("basic.recover-async", 60, 100),
        ("basic.recover-ok", 60, 111),
        ("basic.nack", 60, 120),
        ("confirm.select", 85, 10),
        ("tx.rollback-ok", 90, 31),
    ],
)
def test_ids(name: str, class_id: int, method_id: int) -> None:
    assert divmod(BY_NAME[name].index, 1 << 16) == (class_id, method_id)


def test_the_first_bit_is_the_lowest() -> None:
    """§4.2.5.2: bits accumulate into whole octets, the first one in the low bit."""
    arguments = {"ticket": 0, "queue": "q", "passive": False, "durable": True, "exclusive": False}
    payload = BY_NAME["queue.declare"].build(
        {**arguments, "auto_delete": True, "nowait": False, "arguments": []}
    )
    assert payload == bytes.fromhex("0032 000a 0000 01 71 0a 00000000")


def test_octets_of_a_tune_method() -> None:
    payload = bytes.fromhex("000a 001e 07ff 00020000 003c")
    assert BY_NAME["connection.tune"].parse(payload) == {
        "channel_max": 2047,
        "frame_max": 131072,
        "heartbeat": 60,
    }


def test_an_argument_too_few_or_an_octet_too_many_is_refused() -> None:
    payload = bytes.fromhex("000a 001e 07ff 00020000 003c")
    for wrong in (payload[:-1], payload + b"\0", b"\0\x0a\0\x1f" + payload[4:]):
        with pytest.raises(ConstructError):
            BY_NAME["connection.tune"].parse(wrong)


def test_a_table_whose_field_does_not_parse_is_refused() -> None:
    """It must not end silently before the bad field."""
    good = b"\x01aI\0\0\0\1"
    for wrong in (good + b"\x01bI\0\0\0", good + b"\x01bZ", good + b"\x09b", good + b"\x01"):
        with pytest.raises(ConstructError):
            FieldTable.parse(len(wrong).to_bytes(4) + wrong)


def test_frame_envelope() -> None:
    frame = Frame.parse(constants.HEARTBEAT_FRAME)
    assert (frame.type, frame.channel, frame.payload) == (8, 0, b"")
    with pytest.raises(ConstructError):
        Frame.parse(constants.HEARTBEAT_FRAME[:-1] + b"\xcd")
    with pytest.raises(ConstructError):
        Frame.parse(b"\x05" + constants.HEARTBEAT_FRAME[1:])


def test_protocol_header() -> None:
    assert ProtocolHeader.parse(constants.PROTOCOL_HEADER).version == b"\0\x09\x01"
    assert ProtocolHeader.parse(constants.PROTOCOL_HEADER_0_9).id == 1


def test_content_header_with_the_first_and_the_last_property() -> None:
    header = ContentHeader.parse(bytes.fromhex("003c 0000 0000000000000005 8004 0461626364 03 636c75"))
    assert (header.class_id, header.body_size) == (60, 5)
    properties = PropertySection.parse(header.properties)
    assert (properties.content_type, properties.cluster_id, properties.headers) == ("abcd", "clu", None)

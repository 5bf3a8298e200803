"""Whatever a peer sends, a decoder answers with a value or with its declared error, in bounded memory.

Valid octets are mutated (flipped, cut, lengthened, lengths falsified), because random ones rarely get past
the first length; the grammar is the judge of whether what remains is still valid.
"""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Callable

import pytest
from construct import ConstructError
from hypothesis import example, given, settings
from hypothesis import strategies as st

from amqp_broker.protocol import constants, grammar
from amqp_broker.protocol.errors import (
    FieldError,
    FrameError,
    MalformedInput,
    MethodDecodeError,
    PropertyError,
)
from amqp_broker.protocol.fields import MAX_TABLE_BYTES, decode_table, join_table, split_table
from amqp_broker.protocol.frames import FrameParser, decode_content_header, encode_frame
from amqp_broker.protocol.methods import decode_method, encode_method
from amqp_broker.protocol.properties import decode_properties, encode_properties, replace_properties
from tests.example_counts import examples
from tests.protocol.protocol_strategies import TABLES, arguments_of, plain_table, same

BY_INDEX = {method.index: method for method in grammar.METHODS}
MANY = settings(deadline=None, max_examples=examples(200))


@st.composite
def mutated(draw: st.DrawFn, valid: st.SearchStrategy[bytes]) -> bytes:
    """Valid octets with up to four things done to them."""
    octets = bytearray(draw(valid))
    for _ in range(draw(st.integers(0, 4))):
        position = draw(st.integers(0, len(octets)))
        match draw(st.sampled_from(["set", "cut", "insert", "remove", "length"])):
            case "set" if position < len(octets):
                octets[position] = draw(st.integers(0, 255))
            case "cut":
                del octets[position:]
            case "insert":
                octets[position:position] = draw(st.binary(min_size=1, max_size=6))
            case "remove":
                del octets[position : position + draw(st.integers(1, 6))]
            case "length":
                length = draw(st.sampled_from([0, 1, 2, 127, 128, 255, 256, 65535, 1 << 31, (1 << 32) - 1]))
                octets[position : position + 4] = struct.pack(">I", length)
    return bytes(octets)


@st.composite
def method_payloads(draw: st.DrawFn) -> bytes:
    method = draw(st.sampled_from(grammar.METHODS))
    return method.build(draw(arguments_of(method)))


TABLE_OCTETS = TABLES.map(grammar.TableContents.build)
SECTIONS = TABLE_OCTETS.map(
    lambda raw: encode_properties({"type": "t", "headers": decode_table(raw), "priority": 3})
)


@MANY
@given(mutated(TABLE_OCTETS))
@example(b"\x01aS\xff\xff\xff\xff")
@example(b"\x01aD\xff\x80\0\0\0")
@example(b"\x01aT\xff\xff\xff\xff\xff\xff\xff\xff")
@example(b"\x01ad\x7f\xf8\0\0\0\0\0\1")
def test_tables(raw: bytes) -> None:
    try:
        expected = plain_table(grammar.TableContents.parse(raw))
    except ConstructError:
        with pytest.raises(FieldError):
            decode_table(raw)
        return
    assert same(dict(decode_table(raw)), expected)


@MANY
@given(mutated(TABLE_OCTETS))
def test_splitting_tables(raw: bytes) -> None:
    try:
        pairs = split_table(raw)
    except FieldError:
        with pytest.raises(FieldError):
            decode_table(raw)
        return
    assert join_table(pairs) == raw


@MANY
@given(mutated(method_payloads()))
def test_methods(payload: bytes) -> None:
    declared = BY_INDEX.get(int.from_bytes(payload[:4])) if len(payload) >= 4 else None
    try:
        if declared is not None:
            declared.parse(payload)
    except ConstructError:
        declared = None
    if declared is None:
        with pytest.raises(MalformedInput):
            decode_method(payload)
        return
    method = decode_method(payload)
    # Bits that have no meaning are lost, so it is the method that must come back, not the octets.
    assert repr(decode_method(encode_method(method))) == repr(method)


@MANY
@given(st.sampled_from(grammar.METHODS), st.binary(max_size=60))
def test_random_arguments(method: grammar.MethodGrammar, arguments: bytes) -> None:
    payload = struct.pack(">I", method.index) + arguments
    cause: MethodDecodeError | None = None
    try:
        decode_method(payload)
    except MethodDecodeError as error:
        cause = error
    if cause is not None:
        assert method.name in str(cause)
        assert (cause.class_id, cause.method_id) == divmod(method.index, 1 << 16)


@MANY
@given(mutated(SECTIONS))
def test_property_sections(raw: bytes) -> None:
    try:
        properties = decode_properties(raw)
    except (PropertyError, FieldError):
        return
    assert repr(decode_properties(replace_properties(raw, type="t", app_id=None)).headers) == repr(
        properties.headers
    )


@MANY
@given(mutated(method_payloads().map(lambda payload: encode_frame(constants.FRAME_METHOD, 1, payload))))
def test_frames(data: bytes) -> None:
    parser = FrameParser(4096)
    try:
        frames = list(parser.receive_data(data))
    except FrameError:
        return
    rebuilt = b"".join(grammar.Frame.build({**frame._asdict(), "end": 0xCE}) for frame in frames)
    assert data.startswith(rebuilt)
    assert len(parser._received) == len(data) - len(rebuilt) < 4096


@given(st.binary(max_size=40))
def test_content_headers(payload: bytes) -> None:
    try:
        header = decode_content_header(payload)
    except PropertyError:
        return
    assert payload.endswith(header.properties)


def _fill(unit: bytes) -> bytes:
    """A table of one array that is full of this unit, as large as is accepted."""
    content = unit * ((MAX_TABLE_BYTES - 7) // len(unit))
    return b"\x01aA" + struct.pack(">I", len(content)) + content


def _peak(decode: Callable[[], object]) -> int:
    """The most octets that were allocated at once while this ran."""
    tracemalloc.start()
    try:
        decode()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "raw",
    [
        _fill(b"V"),
        _fill(b"t\1"),
        _fill(b"A\0\0\0\0"),
        _fill(b"F\0\0\0\0"),
        _fill(b"S\0\0\0\0"),
        _fill(b"S\0\0\0\1\xff"),
        _fill(b"D\xff\x7f\xff\xff\xff"),
        _fill(b"T\0\0\0\0\0\0\0\1"),
        _fill(b"F\0\0\0\2\0V"),
        b"".join(b"\x03" + index.to_bytes(3) + b"V" for index in range(MAX_TABLE_BYTES // 5)),
    ],
    ids=["void", "bool", "array", "table", "string", "octets", "decimal", "time", "one field", "keys"],
)
def test_memory_stays_within_a_multiple_of_the_octets(raw: bytes) -> None:
    assert len(raw) <= MAX_TABLE_BYTES
    assert _peak(lambda: decode_table(raw)) < 48 * MAX_TABLE_BYTES


def test_a_declared_length_allocates_nothing() -> None:
    for raw in (b"\x01aS\x7f\xff\xff\xff", b"\x01aA\xff\xff\xff\xffV", b"\x01aF\x40\0\0\0"):
        with pytest.raises(FieldError):
            decode_table(raw)
    assert _peak(lambda: _refused(b"\x01aS\x7f\xff\xff\xff")) < 50_000


def _refused(raw: bytes) -> None:
    with pytest.raises(FieldError):
        decode_table(raw)


def test_nesting_copies_no_octets() -> None:
    raw = b"\x01aS" + struct.pack(">I", 60_000) + bytes(60_000)
    for _ in range(100):
        raw = b"\x01aF" + struct.pack(">I", len(raw)) + raw
    assert _peak(lambda: decode_table(raw)) < 400_000

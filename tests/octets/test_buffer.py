"""Buffer against a model: a bytearray and the standard library's big endian, for compiled and plain alike."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from amqp_broker import octets
from amqp_broker.octets.buffer import Buffer


def plain_source() -> ModuleType:
    """buffer.py itself, whether or not it is compiled."""
    source = Path(octets.__path__[0]) / "buffer.py"
    spec = importlib.util.spec_from_file_location("plain_buffer", source)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PLAIN = plain_source()
BUFFERS: list[Any] = [Buffer, PLAIN.Buffer]
U8, U16, U32, U64 = (st.integers(0, (1 << bits) - 1) for bits in (8, 16, 32, 64))


class BufferMachine(RuleBasedStateMachine):
    """Both buffers do what is done to a bytearray. The first room is tiny, so that they grow all the time."""

    def __init__(self) -> None:
        super().__init__()
        self.buffers = [kind(1) for kind in BUFFERS]
        self.model = bytearray()

    @rule(value=U8)
    def put_u8(self, value: int) -> None:
        self.model += value.to_bytes(1, "big")
        for buffer in self.buffers:
            buffer.put_u8(value)

    @rule(value=U16)
    def put_u16(self, value: int) -> None:
        self.model += value.to_bytes(2, "big")
        for buffer in self.buffers:
            buffer.put_u16(value)

    @rule(value=U32)
    def put_u32(self, value: int) -> None:
        self.model += value.to_bytes(4, "big")
        for buffer in self.buffers:
            buffer.put_u32(value)

    @rule(value=U64)
    def put_u64(self, value: int) -> None:
        self.model += value.to_bytes(8, "big")
        for buffer in self.buffers:
            buffer.put_u64(value)

    @rule(value=st.binary(max_size=300))
    def put_bytes(self, value: bytes) -> None:
        self.model += value
        for buffer in self.buffers:
            buffer.put_bytes(value)

    @rule(value=st.binary(max_size=255))
    def put_shortstr(self, value: bytes) -> None:
        self.model += bytes([len(value)]) + value
        for buffer in self.buffers:
            buffer.put_shortstr(value)

    @rule(value=st.binary(max_size=300))
    def put_longstr(self, value: bytes) -> None:
        self.model += len(value).to_bytes(4, "big") + value
        for buffer in self.buffers:
            buffer.put_longstr(value)

    @rule(count=st.integers(0, 5000))
    def reserve(self, count: int) -> None:
        for buffer in self.buffers:
            buffer.reserve(count)

    @precondition(lambda self: len(self.model) >= 2)
    @rule(value=U16, data=st.data())
    def set_u16(self, value: int, data: st.DataObject) -> None:
        position = data.draw(st.integers(0, len(self.model) - 2))
        self.model[position : position + 2] = value.to_bytes(2, "big")
        for buffer in self.buffers:
            buffer.set_u16(position, value)

    @precondition(lambda self: len(self.model) >= 4)
    @rule(value=U32, data=st.data())
    def set_u32(self, value: int, data: st.DataObject) -> None:
        position = data.draw(st.integers(0, len(self.model) - 4))
        self.model[position : position + 4] = value.to_bytes(4, "big")
        for buffer in self.buffers:
            buffer.set_u32(position, value)

    @rule(data=st.data())
    def drop_front(self, data: st.DataObject) -> None:
        count = data.draw(st.integers(0, len(self.model)))
        del self.model[:count]
        for buffer in self.buffers:
            buffer.drop_front(count)

    @rule(data=st.data())
    def cut(self, data: st.DataObject) -> None:
        length = data.draw(st.integers(0, len(self.model)))
        del self.model[length:]
        for buffer in self.buffers:
            buffer.cut(length)

    @rule()
    def take(self) -> None:
        for buffer in self.buffers:
            assert buffer.take() == bytes(self.model)
        self.model.clear()

    @rule()
    def clear(self) -> None:
        for buffer in self.buffers:
            buffer.clear()
        self.model.clear()

    @rule(data=st.data())
    def get_bytes(self, data: st.DataObject) -> None:
        end = data.draw(st.integers(0, len(self.model)))
        start = data.draw(st.integers(0, end))
        for buffer in self.buffers:
            found = buffer.get_bytes(start, end)
            assert isinstance(found, bytes)
            assert found == self.model[start:end]

    @invariant()
    def contents(self) -> None:
        for buffer in self.buffers:
            assert len(buffer) == buffer.length == len(self.model)
            with buffer.view() as view:
                assert view == self.model


test_both_do_what_is_done_to_a_bytearray = BufferMachine.TestCase


@pytest.mark.parametrize("kind", BUFFERS, ids=["as imported", "plain"])
def test_a_short_string_is_at_most_255_octets(kind: Any) -> None:
    buffer = kind()
    with pytest.raises(ValueError, match="256"):
        buffer.put_shortstr(b"x" * 256)
    assert buffer.length == 0


@pytest.mark.parametrize("kind", BUFFERS, ids=["as imported", "plain"])
def test_what_is_not_there_cannot_be_taken(kind: Any) -> None:
    buffer = kind()
    buffer.put_bytes(b"abc")
    with pytest.raises(IndexError, match="4 of 3"):
        buffer.drop_front(4)
    with pytest.raises(IndexError, match="3 octets to 4"):
        buffer.cut(4)
    for start, end in ((0, 4), (-1, 2), (2, 1)):
        with pytest.raises(IndexError):
            buffer.get_bytes(start, end)
    assert buffer.take() == b"abc"


@pytest.mark.parametrize("kind", BUFFERS, ids=["as imported", "plain"])
def test_a_buffer_is_usable_after_take_and_clear(kind: Any) -> None:
    buffer = kind(4)
    for _ in range(3):
        buffer.put_u64(1)
        assert buffer.take() == (1).to_bytes(8, "big")
        buffer.put_u16(9)
        buffer.clear()
        assert buffer.take() == b""


@given(st.binary(max_size=5), U16, U32, U64)
def test_integers_are_read_where_they_stand(before: bytes, short: int, word: int, long: int) -> None:
    """Compiled, the readers are C functions: those are tested through pages and journals, the plain ones here."""
    blob = before + short.to_bytes(2, "big") + word.to_bytes(4, "big") + long.to_bytes(8, "big") + b"z"
    position = len(before)
    assert PLAIN.get_u16(blob, position) == short
    assert PLAIN.get_u32(blob, position + 2) == word
    assert PLAIN.get_u64(blob, position + 6) == long

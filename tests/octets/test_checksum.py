"""The sum is zlib's, whichever library makes it, at once or in parts: what is on disks was summed by another one."""

from __future__ import annotations

import importlib
import sys
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp_broker.octets import checksum


@given(octets=st.binary(max_size=300), behind=st.binary(max_size=70))
def test_it_is_zlibs(octets: bytes, behind: bytes) -> None:
    assert checksum.crc32(octets) == zlib.crc32(octets)
    assert checksum.crc32(behind, checksum.crc32(octets)) == zlib.crc32(octets + behind)
    assert checksum.crc32(memoryview(octets)) == zlib.crc32(octets)


@pytest.mark.parametrize("size", [1 << 10, (1 << 18) + 7])
def test_of_many_octets_too(size: int) -> None:
    octets = bytes(range(251)) * (size // 251 + 1)
    assert checksum.crc32(octets[:size]) == zlib.crc32(octets[:size])


def test_without_zlib_ng_zlib_has_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "zlib_ng.zlib_ng", None)
        assert importlib.reload(checksum).crc32 is zlib.crc32
    importlib.reload(checksum)

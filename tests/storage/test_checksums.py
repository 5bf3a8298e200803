"""Many records at once: the compiled checksum is zlib's, and one wrong octet anywhere is found in its record."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from storage.checksums import first_wrong
from storage.records import RecordKind, pack_header

payloads = st.lists(st.binary(max_size=100) | st.binary(min_size=55, max_size=300), min_size=1, max_size=5)


def records(*payloads: bytes) -> list[bytes]:
    return [
        pack_header(RecordKind.PAGE, number, 1000 + number, payload) + payload
        for number, payload in enumerate(payloads)
    ]


@given(payloads, st.binary(max_size=40))
def test_what_was_packed_is_whole(payloads: list[bytes], behind: bytes) -> None:
    data = b"".join(records(*payloads)) + behind
    assert first_wrong(data, len(payloads)) == -1


@given(payloads, st.data())
def test_a_flipped_bit_is_found_in_its_record(payloads: list[bytes], data: st.DataObject) -> None:
    packed = records(*payloads)
    number = data.draw(st.integers(0, len(packed) - 1))
    wrong = bytearray(packed[number])
    # Behind the length: who asks has compared that.
    wrong[data.draw(st.integers(4, len(wrong) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    packed[number] = bytes(wrong)
    assert first_wrong(b"".join(packed), len(packed)) == number


@given(payloads, st.data())
def test_a_cut_is_found_in_the_record_that_it_cuts(payloads: list[bytes], data: st.DataObject) -> None:
    packed = records(*payloads)
    length = data.draw(st.integers(0, len(b"".join(packed)) - 1))
    whole = next(count for count in range(len(packed)) if len(b"".join(packed[: count + 1])) > length)
    assert first_wrong(b"".join(packed)[:length], len(packed)) == whole


def test_a_length_beyond_the_octets_is_a_cut() -> None:
    (record,) = records(b"payload")
    assert first_wrong(b"\xff\xff\xff\xff" + record[4:], 1) == 0


def test_records_of_all_lengths() -> None:
    """64 octets and more are folded, 16 at a time, and what is left is taken by tables."""
    octets = bytes(number * 7 & 255 for number in range(400))
    packed = records(*(octets[:length] for length in range(400)))
    assert first_wrong(b"".join(packed), 400) == -1
    for number in (39, 40, 47, 48, 55, 56, 119, 120, 399):
        wrong = [*packed]
        wrong[number] = packed[number][:-1] + bytes([packed[number][-1] ^ 1])
        assert first_wrong(b"".join(wrong), 400) == number


def test_a_page_of_many_octets() -> None:
    packed = records(bytes(range(256)) * 1025, b"", b"x" * 70_001)
    assert first_wrong(b"".join(packed), 3) == -1
    assert first_wrong(b"".join([packed[0], packed[1], packed[2][:-1] + b"y"]), 3) == 2

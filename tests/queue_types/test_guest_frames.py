"""The octets between a guest of a queue group and the member that leads it: round trips, and frames as they were said
first, which every later version has to read."""

from __future__ import annotations

import pytest

from amqp_broker.queue_types.groups.guest_frames import (
    GOES_ON,
    Answer,
    Close,
    Closed,
    Count,
    Counted,
    Effects,
    Find,
    Found,
    Open,
    Opened,
    Request,
    Standing,
    Taken,
    decode_answer,
    decode_request,
    encode_answer,
    encode_request,
)
from queues.quorum.feed import Heard
from queues.quorum.queue import QueueStatistics
from queues.wire.reader import Malformed

REQUESTS: dict[str, Request] = {
    "010100000003000000000000000b": Find(3, 11),
    "010200000003000000000000000b00000000000000050000000000000007000000000000000800000000000000010000000100000000000000"
    "090000000000000002": Open(3, 11, 5, Heard(7, 8, 1, {9: 2})),
    "010300000003000000000000000b0000000000001000": Taken(3, 11, 4096),
    "010400000003000000000000000b000000000000000c": Count(3, 11, 12),
    "010500000003000000000000000b": Close(3, 11),
}
ANSWERS: dict[str, Answer] = {
    "010100000003000000000000000b020000000000000006026e31": Found(3, 11, Standing.LEADS, 6, "n1"),
    "010200000003000000000000000b0000000000000007": Opened(3, 11, 7),
    "010300000003000000000000000b0000000000000005666f6f": Effects(3, 11, 5, b"foo"),
    "010300000003000000000000000b0000000000000000666f6f": Effects(3, 11, GOES_ON, b"foo"),
    "010400000003000000000000000b026e31": Closed(3, 11, "n1"),
    "010500000003000000000000000b0100000000000000010000000000000002000000000000000300000000000000040000000000000005"
    "00000000000000060000000000000007": Counted(3, 11, QueueStatistics(1, 2, 3, 4, 5, 6, 7)),
}


@pytest.mark.parametrize(("octets", "frame"), REQUESTS.items(), ids=[type(each).__name__ for each in REQUESTS.values()])
def test_a_request_is_said_and_read_as_it_was_first(octets: str, frame: Request) -> None:
    assert decode_request(bytes.fromhex(octets)) == frame
    assert encode_request(frame).hex() == octets


@pytest.mark.parametrize(("octets", "frame"), ANSWERS.items(), ids=[type(each).__name__ for each in ANSWERS.values()])
def test_an_answer_is_said_and_read_as_it_was_first(octets: str, frame: Answer) -> None:
    assert decode_answer(bytes.fromhex(octets)) == frame
    assert encode_answer(frame).hex() == octets


@pytest.mark.parametrize("octets", [*ANSWERS, "020100", "01ff00000003000000000000000b"])
def test_what_is_not_whole_or_of_another_version_is_refused(octets: str) -> None:
    shorter = bytes.fromhex(octets)[: 3 if octets in ANSWERS else None]
    with pytest.raises(Malformed):
        decode_answer(shorter)
    with pytest.raises(Malformed):
        decode_request(shorter)

"""The octets between a node that reads a stream and a member that has it: round trips, and frames as they were said
first, which every later version has to read."""

from __future__ import annotations

import pytest

from amqp_broker.queue_types.stream.read_frames import (
    Answer,
    Asked,
    End,
    GroupSeen,
    Look,
    Piece,
    Place,
    Question,
    Read,
    Refused,
    Said,
    Seen,
    ShareSeen,
    Stop,
    decode_answer,
    decode_question,
    encode_answer,
    encode_question,
)
from queues.stream.groups import Member
from queues.stream.start import Start, StartKind
from queues.wire.reader import I64_MAX, Malformed

QUESTIONS: dict[str, Asked] = {
    "0101000000000000000b00000000000000030400000000000000070000000000000009": Place(Start(StartKind.FROM_END, 7), 9),
    "0102000000000000000b0000000000000003000000000000003200040000": Read(50, 262_144),
    "0103000000000000000b0000000000000003": Stop(),
    "0104000000000000000b0000000000000003010167000000030000000000000009": Look(True, "g", 3, 9),
}
ANSWERS: dict[str, Said] = {
    "0101000000000000000b666f6f": Piece(b"foo"),
    "0102000000000000000b000000000000003c00000000000000020000000000000046": End(60, 2, 70),
    "0103000000000000000b016e6f": Refused(True, "no"),
    "0104000000000000000b00000000000000090000000000000002000000000000004600000003010000000200000000000000"
    "0100000000000000020000000000000004026e3100000000000000060000000000000032000000000000003c":
    Seen(9, 2, 70, 3, GroupSeen((1, 2), 4, Member("n1", 6), 50, 60), False),
    "0104000000000000000b00000000000000090000000000000002000000000000004600000003010000000000000000000000"
    "040000000000000000000000000000000032000000000000003c": Seen(9, 2, 70, 3, GroupSeen((), 4, None, 50, 60), False),
    "0105000000000000000b00000000000000090000000000000002000000000000004600000003010000000100000000000000"
    "0100000003000000000000000100000000000000000000000000000001": Seen(9, 2, 70, 3, ShareSeen((1,), (1, 0, 1)), True),
    "0105000000000000000b0000000000000009000000000000000000000000000000000000000300": Seen(9, 0, 0, 3, None, True),
}


@pytest.mark.parametrize(("octets", "asked"), QUESTIONS.items(), ids=[repr(each) for each in QUESTIONS.values()])
def test_a_question_is_said_and_read_as_it_was_first(octets: str, asked: Asked) -> None:
    assert encode_question(Question(11, 3, asked)).hex() == octets
    assert decode_question(bytes.fromhex(octets)) == Question(11, 3, asked)


@pytest.mark.parametrize(("octets", "said"), ANSWERS.items(), ids=[repr(each) for each in ANSWERS.values()])
def test_an_answer_is_said_and_read_as_it_was_first(octets: str, said: Said) -> None:
    assert encode_answer(Answer(11, said)).hex() == octets
    assert decode_answer(bytes.fromhex(octets)) == Answer(11, said)


def test_an_age_that_is_beyond_all_times_is_the_longest_that_can_be_said() -> None:
    question = Question(11, 3, Place(Start(StartKind.AGE, 1 << 80), 9))
    assert decode_question(encode_question(question)).asked == Place(Start(StartKind.AGE, I64_MAX), 9)


def test_what_is_not_right_is_malformed() -> None:
    for octets in QUESTIONS:
        data = bytes.fromhex(octets)
        for wrong in (b"\2" + data[1:], data[:1] + b"\x63" + data[2:], data[:-1], data + b"\0"):
            with pytest.raises(Malformed):
                decode_question(wrong)
    with pytest.raises(Malformed):
        decode_question(bytes.fromhex("0101" + 16 * "00" + "07" + 16 * "00"))
    for octets, said in ANSWERS.items():
        data = bytes.fromhex(octets)
        cut = [] if isinstance(said, Piece | Refused) else [data[:-1], data + b"\0"]
        for wrong in (b"\2" + data[1:], data[:1] + b"\x63" + data[2:], *cut):
            with pytest.raises(Malformed):
                decode_answer(wrong)

"""Frames to and from a home: each comes back as it was, and octets that do not add up raise Malformed only."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqp_broker.octets.buffer import Buffer
from amqp_broker.queue_types.remote.effects_codec import (
    FRAME_BYTES,
    Blocked,
    Count,
    EffectsWriter,
    HomeEffect,
    QueueCounted,
    Taken,
    decode_from_home,
    decode_to_home,
    encode_count,
    encode_taken,
    is_batch,
)
from amqp_broker.queue_types.remote.home_link import HomeLink
from amqp_broker.queue_types.remote.queue import RemoteQueue
from queues.effects import (
    AttachRefused,
    Cancel,
    Confirmed,
    ConsumerCancelled,
    Counted,
    Delivered,
    GetAnswered,
    Refusal,
    Refused,
    SettleMissed,
)
from queues.message import Message
from queues.page import AddressBook
from queues.queue import Queue
from queues.quorum.batch_reader import BatchReader
from queues.quorum.commands import (
    Batch,
    Command,
    Enqueue,
    How,
    Purge,
    Settle,
    Tick,
    encode_batch,
    encode_leader_batch,
    put_command,
    put_publish,
)
from queues.wire.reader import Malformed
from tests.example_counts import examples
from tests.queues.queue_world import message_named
from tests.queues.test_page import facts, messages

U32 = st.integers(0, (1 << 32) - 1)
U64 = st.integers(0, (1 << 64) - 1)
POSITIVE = st.integers(1, (1 << 64) - 1)
BOOLEANS = st.booleans()
#: Those that a home gives.
REFUSALS = st.sampled_from([each for each in Refusal if each <= Refusal.ID_USED])
SESSION = 77


@st.composite
def confirms(draw: st.DrawFn) -> Confirmed:
    first = draw(POSITIVE)
    last = draw(st.integers(first, (1 << 64) - 1))
    numbers = sorted(draw(st.sets(st.integers(first, last), max_size=4)))
    return Confirmed(SESSION, first, last, tuple(Refused(number, draw(REFUSALS)) for number in numbers))


EFFECTS: st.SearchStrategy[HomeEffect] = st.one_of(
    st.builds(Delivered, U64, U64, messages(), BOOLEANS, U32),
    confirms(),
    st.builds(GetAnswered, U64, U64, st.just(0), st.none(), st.just(False), st.just(0), U64),
    st.builds(GetAnswered, U64, U64, U64, messages(), BOOLEANS, U32, U64),
    st.builds(Counted, U64, U64),
    st.builds(AttachRefused, U64, U64, REFUSALS),
    st.builds(SettleMissed, U64, U64, U64),
    st.builds(ConsumerCancelled, U64, st.sampled_from(Cancel)),
    st.builds(QueueCounted, U64, U64, U64, U32, U64),
    st.builds(Blocked, BOOLEANS),
)


def write(effects: list[HomeEffect], session: int = SESSION) -> list[bytes]:
    """The frames of these effects."""
    writer = EffectsWriter(session)
    for effect in effects:
        if isinstance(effect, Delivered):
            writer.put_delivered(*effect)
        else:
            writer.put(effect)
    return writer.take()


def comparable(effect: HomeEffect) -> Any:
    if isinstance(effect, Delivered | GetAnswered) and effect.message is not None:
        return [facts(effect.message) if part is effect.message else part for part in effect]
    return effect


@given(st.lists(EFFECTS, min_size=1, max_size=6))
def test_effects_come_back_as_they_were(effects: list[HomeEffect]) -> None:
    [frame] = write(effects)
    session, found = decode_from_home(frame, AddressBook())
    assert session == SESSION
    assert list(map(comparable, found)) == list(map(comparable, effects))
    assert list(map(type, found)) == list(map(type, effects))
    assert write(found) == [frame]


@given(st.builds(Count, U64, U64, U64, st.booleans()))
def test_a_count_comes_back_as_it_was(count: Count) -> None:
    assert decode_to_home(encode_count(count)) == count


@given(st.builds(Taken, U64, U64, st.lists(st.tuples(U64, U64), max_size=5).map(tuple)))
def test_what_was_taken_comes_back_as_it_was(taken: Taken) -> None:
    assert decode_to_home(encode_taken(taken)) == taken


def read_batch(data: bytes) -> list[Command]:
    """The commands of a batch, as a home takes them."""
    reader = BatchReader(data, AddressBook())
    found: list[Command] = []
    while reader.next():
        if reader.message is not None:
            queue_ids = reader.queue_ids or [reader.queue_id]
            found.append(Enqueue(tuple(queue_ids), reader.message))
        else:
            assert reader.command is not None
            found.append(reader.command)
    return found


@given(st.lists(st.tuples(st.lists(U64, min_size=1, max_size=4), messages()), max_size=5), st.binary(max_size=3))
def test_publishes_come_back_as_they_were(publishes: list[tuple[list[int], Message]], mark: bytes) -> None:
    """A node of the version before writes marks, which are passed over."""
    commands = [Enqueue(tuple(ids), message, mark, 5 if mark else 0, mark) for ids, message in publishes]
    found = read_batch(encode_batch(Batch(0, "n2", 5, 1, 0, [*commands, Purge(7)])))
    assert found.pop() == Purge(7)
    assert [(list(each.queue_ids), facts(each.message)) for each in found if isinstance(each, Enqueue)] == [
        (ids, facts(message)) for ids, message in publishes
    ]
    assert len(found) == len(publishes)


@given(st.lists(U64, min_size=1, max_size=300), messages())
def test_a_publish_is_an_enqueue_without_marks(queue_ids: list[int], message: Message) -> None:
    link = HomeLink("n1", "n2", lambda node, payload: True, 0)
    queues: list[Queue] = [RemoteQueue("q", queue_id, True, link) for queue_id in queue_ids]
    written, expected = Buffer(), Buffer()
    put_publish(written, queues, message)
    put_command(expected, Enqueue(tuple(queue_ids), message))
    assert written.take() == expected.take()


def test_a_frame_is_bounded_but_for_one_large_effect() -> None:
    large = message_named(1, 2 * FRAME_BYTES)
    small = message_named(2, 1000)
    frames = write([Delivered(1, 1, large, False, 0), *[Delivered(1, 2, small, False, 0)] * 600])
    assert len(frames) > 3
    assert len(frames[0]) < len(large.content) + 2 * FRAME_BYTES + 200
    assert all(len(frame) < FRAME_BYTES + 2000 for frame in frames[1:])
    found = [effect for frame in frames for effect in decode_from_home(frame, AddressBook()).effects]
    assert [effect.message.body_size for effect in found if isinstance(effect, Delivered)] == [
        large.body_size,
        *[1000] * 600,
    ]


def sample_effects() -> bytes:
    [frame] = write(
        [
            Delivered(1, 2, message_named(1, 20), True, 3),
            Confirmed(SESSION, 4, 9, (Refused(5, Refusal.FULL), Refused(9, Refusal.NO_QUEUE))),
            GetAnswered(5, 6, 1, message_named(2, 17_000), True, 1, 4),
            GetAnswered(6, 7, 0, None, False, 0, 0),
            Counted(7, 8),
            AttachRefused(8, 9, Refusal.EXCLUSIVE),
            ConsumerCancelled(9, Cancel.TIMEOUT),
            SettleMissed(9, 1, 2),
            QueueCounted(10, 11, 5, 12, 13),
            Blocked(True),
        ]
    )
    return frame


def check_effects(data: bytes) -> None:
    """What is accepted means exactly these octets."""
    try:
        session, effects = decode_from_home(data, AddressBook())
    except Malformed:
        return
    assert b"".join(write(effects, session)) == data


def check_commands(data: bytes) -> None:
    try:
        if is_batch(data):
            read_batch(data)
            return
        frame = decode_to_home(data)
    except Malformed:
        return
    assert (encode_count(frame) if isinstance(frame, Count) else encode_taken(frame)) == data


def sample_batch() -> bytes:
    commands = [Enqueue((1, 2), message_named(1)), Purge(3), Enqueue((1,), message_named(2), b"who", 5, b"id")]
    return encode_batch(Batch(0, "n2", 5, 1, 0, commands))


@given(data=st.binary(max_size=200))
def test_any_octets_are_a_frame_or_malformed(data: bytes) -> None:
    check_effects(data)
    check_commands(data)
    check_effects(b"\x02" + data)
    check_commands(b"\x81\x02" + data)
    check_commands(b"\x82\x02" + data)


@given(position=st.integers(0, 1 << 16), octets=st.binary(max_size=9), cut=st.integers(0, 9))
@settings(max_examples=examples(400))
def test_changed_octets_are_a_frame_or_malformed(position: int, octets: bytes, cut: int) -> None:
    for data, check in (
        (sample_effects(), check_effects),
        (encode_taken(Taken(1, 2, ((3, 4), (5, 6)))), check_commands),
        (encode_count(Count(1, 2, 3)), check_commands),
        (sample_batch(), check_commands),
    ):
        at = position % len(data)
        check(data[:at] + octets + data[at + cut :])


def test_a_frame_that_is_cut_anywhere_is_malformed() -> None:
    data = sample_effects()
    for end in [*range(400), *range(len(data) - 300, len(data))]:
        with pytest.raises(Malformed):
            decode_from_home(data[:end], AddressBook())
    taken = encode_taken(Taken(1, 2, ((3, 4),)))
    for end in range(len(taken)):
        with pytest.raises(Malformed):
            decode_to_home(taken[:end])
    batch = sample_batch()
    for end in range(len(batch)):
        with pytest.raises(Malformed):
            read_batch(batch[:end])


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x03" + bytes(12), "version 3"),
        (b"\x02" + bytes(12), "without effects"),
        (b"\x02" + bytes(8) + b"\x00\x00\x00\x01\x63\x00\x00\x00\x00", "unknown kind 99"),
        (write([Confirmed(1, 3, 2, ())])[0], "from 3 to 2"),
        (write([Confirmed(1, 3, 5, (Refused(6, Refusal.FULL),))])[0], "6 is refused"),
        (write([Confirmed(1, 3, 5, (Refused(4, Refusal.FULL), Refused(4, Refusal.FULL)))])[0], "4 is refused after 4"),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_reason(data: bytes, reason: str) -> None:
    with pytest.raises(Malformed, match=reason):
        decode_from_home(data, AddressBook())


@pytest.mark.parametrize(("data", "reason"), [(b"\x83\x02", "unknown kind 0x83"), (b"\x81\x03", "version 3")])
def test_what_a_home_does_not_know_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(Malformed, match=reason):
        decode_to_home(data)


#: The head of a batch of one command.
ONE_COMMAND = encode_batch(Batch(0, "n2", 5, 1, 0, [])).removesuffix(b"\0") + b"\1"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (encode_leader_batch(5, [Tick()]), "for a group, and for no home"),
        (encode_batch(Batch(0, "n2", 5, 1, 0, [Settle(1, How.FAIL, ((1, 1),))])), "for a group, and for no home"),
        (ONE_COMMAND + b"\x10" + bytes(4), "a leader's"),
        (ONE_COMMAND + b"\x63" + bytes(4), "unknown kind"),
        (ONE_COMMAND[:-1] + bytes(2), "octets too many"),
    ],
)
def test_what_is_no_batch_for_a_home_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(Malformed, match=reason):
        read_batch(data)

"""Batches of commands: every one comes back as it was, and octets that do not add up raise Malformed only."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queues.arguments import Overflow, QueueArguments
from queues.page import AddressBook
from queues.quorum.commands import (
    Attach,
    Batch,
    Command,
    Detach,
    Dispatched,
    DropQueue,
    Enqueue,
    Get,
    How,
    NodeDown,
    OpenQueue,
    Prefetch,
    Purge,
    Settle,
    Tick,
    decode_batch,
    encode_batch,
    encode_leader_batch,
    with_time,
)
from queues.quorum.lease_commands import AckLease, Claim, OpenLease, ReleaseLease
from queues.quorum.settings import QuorumSettings
from queues.stream.commands import (
    AppendChunk,
    ForgetGroup,
    HoldStream,
    JoinGroup,
    JoinPartitions,
    LeaveGroup,
    LeavePartitions,
    MoveGroup,
    OpenGroup,
    OpenStream,
    Retain,
    SeekGroup,
    StorePosition,
    Trim,
)
from queues.stream.settings import StreamSettings
from queues.wire.reader import Malformed
from tests.example_counts import examples
from tests.queues.queue_world import message_named
from tests.queues.stream.stream_world import chunk_of
from tests.queues.test_page import facts, messages

U32 = st.integers(0, (1 << 32) - 1)
U62 = st.integers(0, (1 << 62) - 1)
U63 = st.integers(0, (1 << 63) - 1)
U64 = st.integers(0, (1 << 64) - 1)
I32 = st.integers(-(1 << 31), (1 << 31) - 1)
SHORT = st.binary(max_size=255)
NAMES = SHORT.map(lambda raw: raw.decode("utf-8", "surrogateescape"))
OPTIONAL = st.none() | U63
BOOLEANS = st.booleans()
QUORUM_SETTINGS = st.builds(
    QuorumSettings,
    st.builds(
        QueueArguments,
        OPTIONAL, OPTIONAL, OPTIONAL, OPTIONAL, st.sampled_from(Overflow), st.none() | NAMES, st.none() | NAMES,
        st.none() | st.integers(1, 255), BOOLEANS, OPTIONAL,
    ),
    OPTIONAL, U32, OPTIONAL, BOOLEANS, BOOLEANS,
)  # fmt: skip
STREAM_SETTINGS = st.builds(StreamSettings, OPTIONAL, OPTIONAL, U63, st.integers(16, 255))


@st.composite
def settles(draw: st.DrawFn) -> Settle:
    pairs = draw(st.lists(st.tuples(st.integers(1, (1 << 64) - 1), st.integers(1, (1 << 64) - 1)), max_size=5))
    return Settle(draw(U64), draw(st.sampled_from(How)), tuple((min(pair), max(pair)) for pair in pairs))


@st.composite
def enqueues(draw: st.DrawFn) -> Enqueue:
    producer = draw(SHORT)
    queue_ids = draw(st.lists(U64, min_size=1, max_size=5))
    return Enqueue(tuple(queue_ids), draw(messages()), producer, draw(U64) if producer else 0, draw(SHORT))


OWN = st.one_of(
    st.builds(OpenQueue, U64, QUORUM_SETTINGS),
    st.builds(DropQueue, U64),
    enqueues(),
    settles(),
    st.builds(Attach, U64, U64, U32, BOOLEANS, I32, BOOLEANS, NAMES),
    st.builds(Detach, U64, BOOLEANS, U64),
    st.builds(Prefetch, U64, U32),
    st.builds(Get, U64, U64),
    st.builds(Purge, U64),
    st.builds(OpenLease, U64, NAMES, NAMES, NAMES),
    st.builds(Claim, U64, NAMES, NAMES, NAMES, U64, U32, U64, BOOLEANS),
    st.builds(AckLease, U64, NAMES, NAMES, NAMES, U64),
    st.builds(ReleaseLease, U64, NAMES, NAMES, NAMES),
    st.builds(OpenStream, U64, STREAM_SETTINGS),
    st.builds(AppendChunk, U64, st.builds(chunk_of, SHORT, SHORT, producer=SHORT, sequence=U62), st.none()),
    st.builds(Trim, U64, U64),
    st.builds(Retain, U64, U64, U64),
    st.builds(HoldStream, U64, NAMES, U64, U64),
    st.builds(JoinGroup, U64, NAMES, U64, U64),
    st.builds(LeaveGroup, U64, NAMES, U64),
    st.builds(StorePosition, U64, NAMES, U64, U64, U64),
    st.builds(SeekGroup, U64, NAMES, U64),
    st.builds(ForgetGroup, U64, NAMES),
    st.builds(JoinPartitions, U64, NAMES, U64, st.integers(1, 10_000)),
    st.builds(LeavePartitions, U64, NAMES, U64),
    st.builds(OpenGroup, U64, NAMES, U64),
    st.builds(MoveGroup, U64, NAMES, U64),
)
LEADERS = st.one_of(st.just(Tick()), st.builds(NodeDown, NAMES, U64), st.builds(Dispatched, U64, U64))
BATCHES = st.one_of(
    st.builds(
        Batch, U62, NAMES.filter(bool), st.integers(1, (1 << 64) - 1), U63.filter(bool), U64,
        st.lists(OWN, max_size=5),
    ),
    st.builds(Batch, U62, st.just(""), st.just(0), st.just(0), st.just(0), st.lists(LEADERS, max_size=4)),
)  # fmt: skip


def comparable(command: Command) -> Any:
    if isinstance(command, Enqueue):
        known = (command.producer, command.producer_sequence, command.message_id)
        return command.queue_ids, facts(command.message), known
    return command


@given(BATCHES)
def test_a_batch_comes_back_as_it_was(batch: Batch) -> None:
    data = encode_batch(batch)
    found = decode_batch(data, AddressBook())
    assert found[:5] == batch[:5]
    assert list(map(comparable, found.commands)) == list(map(comparable, batch.commands))
    assert list(map(type, found.commands)) == list(map(type, batch.commands))
    assert encode_batch(found) == data


def sample() -> Batch:
    ranges = ((1, 3), (9, 9))
    commands: list[Command] = [
        OpenQueue(7, QuorumSettings(QueueArguments(dead_letter_exchange="dlx", max_priority=9))),
        Enqueue((7, 8), message_named(1, 20), b"producer", 5, b"id"),
        Enqueue((7,), message_named(2, 17_000)),
        Settle(1, How.REJECT, ranges),
        Attach(1, 7, 10, True, -5, True, "tag"),
        Get(2, 7),
        OpenLease(7, "job", "0" * 32, "driver"),
        Claim(7, "job", "0" * 32, "driver", 4, 100, 1 << 20, True),
        AckLease(7, "job", "0" * 32, "driver", 5),
        AppendChunk(9, chunk_of(b"one", b"two", producer=b"p", sequence=3)),
    ]
    return Batch(1, "n1", 2, 3, 2, commands)


@given(data=st.binary(max_size=200))
def test_any_octets_are_a_batch_or_malformed(data: bytes) -> None:
    check(data)


@given(position=st.integers(0, 1 << 16), octets=st.binary(max_size=9), cut=st.integers(0, 9))
@settings(max_examples=examples(400))
def test_a_batch_with_changed_octets_is_a_batch_or_malformed(position: int, octets: bytes, cut: int) -> None:
    data = encode_batch(sample())
    position %= len(data)
    check(data[:position] + octets + data[position + cut :])


def check(data: bytes) -> None:
    """What is accepted means exactly these octets."""
    try:
        batch = decode_batch(data, AddressBook())
    except Malformed:
        return
    assert encode_batch(batch) == data


def test_a_batch_that_is_cut_anywhere_is_malformed() -> None:
    data = encode_batch(sample())
    for end in [*range(700), *range(len(data) - 50, len(data))]:
        with pytest.raises(Malformed):
            decode_batch(data[:end], AddressBook())


def test_the_leader_puts_in_the_time() -> None:
    data = encode_batch(sample())
    assert decode_batch(with_time(data, 99), AddressBook()).time == 99
    assert encode_batch(decode_batch(with_time(data, 99), AddressBook())._replace(time=1)) == data


@pytest.mark.parametrize(
    ("batch", "reason"),
    [
        (Batch(1, "n1", 1, 1, 0, [Tick()]), "leaders and nodes"),
        (Batch(1, "", 0, 0, 0, [Purge(1)]), "leaders and nodes"),
        (Batch(1, "", 1, 0, 0, []), "with a session"),
        (Batch(1, "n1", 0, 1, 0, []), "session 0"),
        (Batch(1, "n1", 1, 0, 0, []), "command 0"),
        (Batch(1, "n1", 1, 1, 0, [Settle(1, How.ACK, ((0, 1),))]), "deliveries from 0"),
        (Batch(1, "n1", 1, 1, 0, [Settle(1, How.ACK, ((3, 2),))]), "deliveries from 3"),
        (Batch(1, "n1", 1, 1, 0, [Enqueue((), message_named(1))]), "no queue"),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_reason(batch: Batch, reason: str) -> None:
    with pytest.raises(Malformed, match=reason):
        decode_batch(encode_batch(batch), AddressBook())


@pytest.mark.parametrize(
    ("position", "octets", "reason"),
    [
        (1, b"\x05", "priority 5"),
        (2, b"\x80", "more than 63 bits"),
        (10, b"\x80", "more than 63 bits"),
        (18, b"\xff", "a body of"),
        (26, b"\xff", "has a header of"),
        (30, b"\xff", "announces"),
        (34, b"\xff", "announces"),
    ],
)
def test_a_packed_message_whose_parts_do_not_fit_is_refused(position: int, octets: bytes, reason: str) -> None:
    data = encode_batch(Batch(1, "n1", 1, 1, 0, [Enqueue((1,), message_named(1, 20))]))
    at = data.index(b"n1") + 2 + 28 + 5 + 12 + position  # head, command, queue, no producer, no message id
    with pytest.raises(Malformed, match=reason):
        decode_batch(data[:at] + octets + data[at + 1 :], AddressBook())


def test_a_time_that_leaves_no_room_for_a_ttl_is_refused() -> None:
    with pytest.raises(Malformed, match="the time"):
        decode_batch(encode_leader_batch(1 << 62, [Tick()]), AddressBook())


def test_a_newer_version_is_named() -> None:
    data = encode_leader_batch(1, [Tick()])
    with pytest.raises(Malformed, match="version 3"):
        decode_batch(b"\x03" + data[1:], AddressBook())


def test_priorities_of_a_queue_are_bounded() -> None:
    arguments = QueueArguments(max_priority=1)
    for wrong in (0, 256):
        batch = Batch(1, "n", 1, 1, 0, [OpenQueue(1, QuorumSettings(replace(arguments, max_priority=wrong)))])
        with pytest.raises(Malformed, match="max priority"):
            decode_batch(encode_batch(batch), AddressBook())

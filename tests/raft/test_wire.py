"""The wire: what is encoded is decoded; whatever else comes in raises PeerProtocolError and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raft.configuration import Configuration, decode_configuration, make_configuration
from raft.entry import MAX_NUMBER, MEMBERSHIP, NO_OP, REGULAR, Entry
from raft.errors import PeerProtocolError
from raft.install import CHUNK_BYTES
from raft.messages import (
    Append,
    AppendReply,
    CommitNotice,
    Heartbeat,
    HeartbeatReply,
    InstallChunk,
    InstallReply,
    Message,
    TimeoutNow,
    VoteReply,
    VoteRequest,
)
from raft.wire import decode, encode
from tests.example_counts import examples

groups = st.integers(0, 2**32 - 1)
counts = st.integers(0, 2**32 - 1)
numbers = st.integers(0, MAX_NUMBER)
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
configurations = st.lists(names, unique=True, max_size=6).map(
    lambda drawn: make_configuration(drawn[: len(drawn) // 2], tuple(drawn[len(drawn) // 2 :]))
)
beats = st.lists(st.tuples(groups, numbers, numbers, numbers), max_size=70)


@st.composite
def appends(draw: st.DrawFn) -> Append:
    terms = sorted(draw(st.lists(st.integers(1, MAX_NUMBER), min_size=1, max_size=5)))
    prev_index = draw(st.integers(0, MAX_NUMBER - 10))
    entries: list[Entry] = []
    for term in terms[:-1]:
        kind = draw(st.sampled_from([REGULAR, NO_OP, MEMBERSHIP]))
        data = draw(configurations).encode() if kind == MEMBERSHIP else draw(st.binary(max_size=300))
        entries.append((data, prev_index + 1 + len(entries), term, kind))
    prev_term = draw(st.integers(0, terms[0]))
    return Append(draw(groups), terms[-1], prev_index, prev_term, draw(numbers), entries)


@st.composite
def install_chunks(draw: st.DrawFn) -> InstallChunk:
    data = draw(st.binary(max_size=300))
    term = draw(numbers)
    return InstallChunk(
        draw(groups), term, draw(numbers), draw(st.integers(1, MAX_NUMBER)), draw(st.integers(0, term)),
        draw(configurations), draw(counts), not data, data,
    )  # fmt: skip


messages: st.SearchStrategy[Message] = st.one_of(
    appends(),
    install_chunks(),
    st.builds(AppendReply, groups, numbers, st.booleans(), numbers, numbers, numbers),
    st.builds(Heartbeat, beats),
    st.builds(HeartbeatReply, beats),
    st.builds(CommitNotice, beats),
    st.builds(VoteRequest, groups, numbers, st.booleans(), st.booleans(), numbers, numbers),
    st.builds(VoteReply, groups, numbers, st.booleans(), st.booleans()),
    st.builds(InstallReply, groups, numbers, numbers, counts, st.booleans()),
    st.builds(TimeoutNow, groups, numbers),
)


@given(messages)
def test_what_is_encoded_is_decoded(message: Message) -> None:
    decoded = decode(encode(message))
    assert decoded == message
    assert type(decoded) is type(message)


def survives(frame: bytes) -> None:
    """Decode it, or refuse it; what is decoded is what that frame means, octet for octet."""
    try:
        message = decode(frame)
    except PeerProtocolError:
        return
    assert encode(message) == frame


@settings(max_examples=examples(1000))
@given(st.binary(max_size=200))
def test_noise_is_refused(noise: bytes) -> None:
    survives(noise)
    survives(b"\x01" + noise)


@settings(max_examples=examples(1000))
@given(messages, st.data())
def test_damage_is_refused_or_means_something_else(message: Message, data: st.DataObject) -> None:
    frame = bytearray(encode(message))
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(frame) - 1))
        frame[place] = data.draw(st.integers(0, 255))
    survives(bytes(frame))


@given(messages, st.data())
def test_a_cut_frame_is_refused_or_means_something_else(message: Message, data: st.DataObject) -> None:
    frame = encode(message)
    survives(frame[: data.draw(st.integers(0, len(frame)))])
    survives(frame + data.draw(st.binary(min_size=1, max_size=30)))


BAD = {
    "no head": b"\x01",
    "another version": b"\x02" + encode(TimeoutNow(1, 1))[1:],
    "an unknown type": b"\x01\x63",
    "a number above 63 bits": encode(TimeoutNow(1, MAX_NUMBER))[:-8] + b"\xff" * 8,
    "a flag of 2": encode(VoteReply(1, 1, True, True))[:-1] + b"\x02",
    "terms that fall": encode(Append(1, 5, 0, 0, 0, [(b"", 1, 4, NO_OP), (b"", 2, 3, NO_OP)])),
    "a term above the leader's": encode(Append(1, 5, 0, 0, 0, [(b"", 1, 6, NO_OP)])),
    "an entry of term 0": encode(Append(1, 5, 0, 0, 0, [(b"", 1, 0, NO_OP)])),
    "an unknown kind": encode(Append(1, 5, 0, 0, 0, [(b"", 1, 5, 7)])),
    "no configuration": encode(Append(1, 5, 0, 0, 0, [(b"x", 1, 5, MEMBERSHIP)])),
    "a huge count": encode(Append(1, 5, 0, 0, 0, []))[:-4] + b"\xff\xff\xff\xff",
    "a chunk too large": encode(InstallChunk(1, 5, 1, 1, 1, Configuration(), 0, False, bytes(CHUNK_BYTES + 1))),
    "a last chunk with data": encode(InstallChunk(1, 5, 1, 1, 1, Configuration(), 0, True, b"x")),
    "half a beat": encode(Heartbeat([(1, 1, 1, 1)]))[:-1],
}


@pytest.mark.parametrize("name", BAD)
def test_bad_frames_are_refused(name: str) -> None:
    with pytest.raises(PeerProtocolError):
        decode(BAD[name])


@given(configurations)
def test_a_configuration_is_decoded(configuration: Configuration) -> None:
    assert decode_configuration(configuration.encode()) == configuration


@settings(max_examples=examples(500))
@given(st.binary(max_size=40))
def test_noise_is_no_configuration(noise: bytes) -> None:
    for octets in (noise, b"\x01" + noise):
        try:
            configuration = decode_configuration(octets)
        except ValueError:
            continue
        assert configuration.encode() == octets

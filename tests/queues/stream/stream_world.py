"""Streams in queue groups without Raft (tests/queues/quorum/quorum_world.py), with tiny pages: little traffic pages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from queues.message import Address, build_message
from queues.page import AddressBook
from queues.quorum.commands import Batch, Command, encode_batch
from queues.stream import log as stream_log
from queues.stream import places
from queues.stream.chunk import ChunkBuilder
from queues.stream.commands import AppendChunk, OpenStream
from queues.stream.record import get_record
from queues.stream.settings import StreamSettings
from queues.stream.stream import Stream
from tests.queues.quorum.quorum_world import Group, Member
from tests.queues.quorum.quorum_world import Stream as CommandStream

STREAM = 5


@pytest.fixture
def tiny_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """One page, which is a handful of chunks, stays in RAM, and a checkpoint takes no tail that can be one."""
    monkeypatch.setattr(stream_log, "WARM_PAGES", 1)
    monkeypatch.setattr(places, "TAIL_PAGES", 0)


def chunk_of(*bodies: bytes, producer: bytes = b"", sequence: int = 0) -> bytes:
    """A chunk of messages; with a producer, their sequences rise from `sequence` on."""
    builder = ChunkBuilder(16)
    for number, body in enumerate(bodies):
        builder.add(build_message(Address(b"\0\1q"), b"\0\0", body, True, -1, -1, 0), 0, 0)
        if producer:
            builder.produced(producer, sequence + number)
    return builder.seal()


def one_stream(
    settings: StreamSettings | None = None, members: int = 1, seed: int = 0
) -> tuple[Group, CommandStream]:
    """A group with a stream, and the command stream of its first node."""
    group = Group(*[Member(f"n{number + 1}", seed=seed + number) for number in range(members)])
    node = CommandStream(group, group.members[0])
    node.send(OpenStream(STREAM, settings or StreamSettings()))
    return group, node


def commit_as(group: Group, name: str, number: int, *commands: Command) -> None:
    """Commands of a node that has no member here, in a session of its own."""
    group.commit(encode_batch(Batch(group.now, f"{name} {number}", 1, 1, 0, list(commands))))


def append(group: Group, *bodies: bytes) -> None:
    """One chunk, of a node that does nothing else."""
    commit_as(group, "publisher", len(group.log), AppendChunk(STREAM, chunk_of(*bodies)))


def stream_of(member: Member, queue_id: int = STREAM) -> Stream:
    found = member.machine.stream(queue_id)
    assert found is not None
    return found


def records(stream: Stream, offset: int = 0) -> Iterator[tuple[int, bytes]]:
    """(offset, body) of what a reader gets from an offset on."""
    begin = max(offset, stream.first)
    for stored in stream.log.chunks(begin):
        for number, at in enumerate(stored.chunk.places()):
            if stored.first + number >= begin:
                message = get_record(stored.chunk.octets, at, stored.first + number, stored.time, AddressBook())
                yield stored.first + number, message.body_bytes()


def bodies_of(member: Member, queue_id: int = STREAM) -> list[bytes]:
    """All that is in the stream, whose offsets are dense."""
    stream = stream_of(member, queue_id)
    found = list(records(stream))
    assert [offset for offset, _ in found] == list(range(stream.first, stream.next))
    return [body for _, body in found]

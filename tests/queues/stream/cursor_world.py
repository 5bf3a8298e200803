"""Quorum queues over a stream, in groups without Raft (stream_world.py)."""

from __future__ import annotations

import zlib
from typing import Any

from queues.arguments import QueueArguments
from queues.effects import Delivered, Effect
from queues.message import Address, Message, build_message
from queues.quorum.cursor_commands import OpenCursor
from queues.quorum.cursor_queue import CursorQueue
from queues.quorum.cursor_settings import CursorSettings
from queues.stream.chunk import ChunkBuilder
from queues.stream.commands import AppendChunk
from queues.stream.start import Start, StartKind
from tests.queues.quorum.quorum_world import Group, Member
from tests.queues.quorum.quorum_world import Stream as CommandStream
from tests.queues.stream.stream_world import STREAM, commit_as, one_stream

CURSOR = 7
FIRST = Start(StartKind.FIRST)


def settings_of(start: Start = FIRST, consumer_timeout: int | None = None, **arguments: Any) -> CursorSettings:
    """Settings by the names of both dataclasses."""
    own = {"values", "takes_unfiltered", "has_key_order", "stream_id", "retry", "gives_way"}
    return CursorSettings(
        QueueArguments(**{key: arguments[key] for key in arguments if key not in own}),
        consumer_timeout,
        **{"stream_id": STREAM, "start": start, **{key: arguments[key] for key in arguments if key in own}},
    )


def one_cursor(*bodies: bytes, members: int = 1, **arguments: Any) -> tuple[Group, CommandStream]:
    """A group with a stream of these messages and a queue over it, and the command stream of its first node."""
    group, node = one_stream(members=members)
    if bodies:
        publish(group, *bodies)
    node.send(OpenCursor(CURSOR, settings_of(**arguments)))
    return group, node


def cursor_of(member: Member, queue_id: int = CURSOR) -> CursorQueue:
    found = member.queue(queue_id)
    assert isinstance(found, CursorQueue)
    return found


def message_of(body: bytes, key: bytes = b"q", value: bytes | None = None) -> Message:
    """With a routing key, and a value to filter by."""
    properties = b"\0\0"
    if value is not None:
        field = b"\x15x-stream-filter-valueS" + len(value).to_bytes(4, "big") + value
        properties = b"\x20\0" + len(field).to_bytes(4, "big") + field
    address = Address(b"\0" + bytes([len(key)]) + key)
    return build_message(address, properties, body, True, -1, -1, 0)


def publish(group: Group, *bodies: bytes, key: bytes = b"q", value: bytes | None = None) -> None:
    """One chunk, of a node that does nothing else."""
    publish_all(group, *[message_of(body, key, value) for body in bodies])


def publish_all(group: Group, *messages: Message) -> None:
    """The same of messages."""
    builder = ChunkBuilder(16)
    for message in messages:
        builder.add(message, 0, value_hash_of(message))
    commit_as(group, "publisher", len(group.log), AppendChunk(STREAM, builder.seal()))


def value_hash_of(message: Message) -> int:
    """As a publisher puts it into the record."""
    key = b"\x15x-stream-filter-valueS"
    at = message.content.find(key)
    if at < 0:
        return 0
    at += len(key)
    size = int.from_bytes(message.content[at : at + 4], "big")
    return zlib.crc32(message.content[at + 4 : at + 4 + size]) or 1


def delivered(effects: list[Effect]) -> list[tuple[int, bytes, int]]:
    """(delivery id, body, delivery count) of all Delivered."""
    return [
        (each.delivery_id, each.message.body_bytes(), each.delivery_count)
        for each in effects
        if isinstance(each, Delivered)
    ]


def bodies(effects: list[Effect]) -> list[bytes]:
    return [body for _, body, _ in delivered(effects)]


def figures(member: Member, queue_id: int = CURSOR) -> tuple[int, int, int]:
    """(ready, unacknowledged, lost)."""
    queue = cursor_of(member, queue_id)
    return queue.statistics().ready, queue.statistics().unacked, queue.place.lost

"""What commands do to the streams of a group (queues/quorum/execution.py does the rest of a batch)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from queues.effects import Refusal
from queues.pager import Pager
from queues.stream.commands import (
    Compact,
    CompactedTo,
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
    StreamCommand,
    Trim,
)
from queues.stream.groups import Member
from queues.stream.stream import Hold, Stream


def execute(
    streams: dict[int, Stream], command: StreamCommand, node: str, clock: int, pager: Pager
) -> tuple[Stream | None, Refusal | None]:
    """Carry out a command of a node, any but an AppendChunk. Returns the stream, and why it had no success."""
    stream = streams.get(command.queue_id)
    if isinstance(command, OpenStream):
        if stream is None:
            stream = streams[command.queue_id] = Stream(command.queue_id, command.settings, pager)
        else:
            stream.apply_settings(command.settings, clock)
    elif stream is None:
        return None, Refusal.NO_QUEUE
    elif isinstance(command, Trim):
        stream.trim(command.first)
    elif isinstance(command, Retain):
        stream.retain_from(command.first, command.least, clock)
    elif isinstance(command, CompactedTo):
        stream.claim(node, command.below)
    elif isinstance(command, Compact):
        stream.compacted.want(stream.next)
    elif isinstance(command, HoldStream):
        hold = Hold(command.offset, command.until) if command.until else None
        return stream, None if stream.hold(command.name, hold, clock) else Refusal.FULL
    else:
        return stream, _ABOUT_GROUPS[type(command)](stream, command, node)
    return stream, None


def _join(stream: Stream, command: JoinGroup, node: str) -> Refusal | None:
    group = stream.groups.open(command.group, command.position)
    if group is None:
        return Refusal.FULL
    group.join(Member(node, command.number))
    return None


def _leave(stream: Stream, command: LeaveGroup, node: str) -> Refusal | None:
    group = stream.groups.get(command.group)
    if group is not None:
        group.leave(Member(node, command.number))
    return None


def _store(stream: Stream, command: StorePosition, node: str) -> Refusal | None:
    group = stream.groups.get(command.group)
    is_stored = group is not None and group.store(command.generation, command.position, command.delivered)
    return None if is_stored else Refusal.FENCED


def _seek(stream: Stream, command: SeekGroup, node: str) -> Refusal | None:
    group = stream.groups.open(command.group, command.position)
    if group is None:
        return Refusal.FULL
    group.seek(command.position)
    return None


def _forget(stream: Stream, command: ForgetGroup, node: str) -> Refusal | None:
    share = stream.shares.get(command.group)
    if (share is not None and share.members) or not stream.groups.forget(command.group):
        return Refusal.EXCLUSIVE
    stream.shares.forget(command.group)
    return None


def _join_partitions(stream: Stream, command: JoinPartitions, node: str) -> Refusal | None:
    if stream.groups.get(command.group) is None:
        return Refusal.NO_QUEUE
    stream.shares.open(command.group).join(Member(node, command.number), command.partitions)
    return None


def _leave_partitions(stream: Stream, command: LeavePartitions, node: str) -> Refusal | None:
    share = stream.shares.get(command.group)
    if share is not None:
        share.leave(Member(node, command.number))
    return None


def _open(stream: Stream, command: OpenGroup, node: str) -> Refusal | None:
    return Refusal.FULL if stream.groups.open(command.group, command.position) is None else None


def _move(stream: Stream, command: MoveGroup, node: str) -> Refusal | None:
    position = min(command.position, stream.next)
    group = stream.groups.open(command.group, position)
    if group is None:
        return Refusal.FULL
    group.move(position)
    return None


_ABOUT_GROUPS: dict[type, Callable[[Stream, Any, str], Refusal | None]] = {
    JoinGroup: _join,
    LeaveGroup: _leave,
    StorePosition: _store,
    SeekGroup: _seek,
    ForgetGroup: _forget,
    JoinPartitions: _join_partitions,
    LeavePartitions: _leave_partitions,
    OpenGroup: _open,
    MoveGroup: _move,
}

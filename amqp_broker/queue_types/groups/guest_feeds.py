"""GuestFeeds: a member that leads a queue group serves the nodes that are no members of it, its guests.

    OPEN -> the difference between what the guest has heard and the state -> EFFECTS, and what is applied from now on
    not the leader any more, or the link is gone -> the feed is over; the guest opens one elsewhere

Commands of guests come as those of members do (QueueGroup.receive_batch). A feed says what follows from entries that
are committed and applied here, so one of a leader that was deposed and does not know it is late, and never wrong.

Invariants:
1. At most `WINDOW_BYTES` of effects (or one frame more) are on their way to a guest; what is above that waits here, and
   is bounded by the guest's own consumers and commands.
2. A feed is opened by a leader that has applied whatever earlier leaders have committed.
3. What comes up to a Confirmed counts as a whole: refusals have numbers as other notices, and come with it.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from amqp_broker.queue_types.groups.guest_frames import (
    GOES_ON,
    Answer,
    Close,
    Closed,
    Count,
    Counted,
    Effects,
    Found,
    Open,
    Opened,
    Request,
    Standing,
    Taken,
    encode_answer,
)
from amqp_broker.queue_types.remote.effects_codec import EffectsWriter
from amqp_broker.settings.workers import node_of_worker
from queues.effects import (
    AttachRefused,
    Confirmed,
    ConsumerCancelled,
    Delivered,
    Effect,
    GetAnswered,
    SessionClosed,
    SettleMissed,
    Unreadable,
)
from queues.effects import (
    Counted as CommandCounted,
)
from queues.quorum.queue import QueueStatistics
from queues.stream.counts import StreamCounts

if TYPE_CHECKING:
    from amqp_broker.links.tenants import Send
    from amqp_broker.queue_types.groups.group import QueueGroup


#: Octets of effects that are on their way to a guest at most, and one frame more.
WINDOW_BYTES = 8 * 1024 * 1024


class _Serving:
    """One feed. frames: those that wait for the window, and of each whether the next one belongs to it. sent, taken:
    octets."""

    def __init__(self, number: int, session: int) -> None:
        self.number = number
        self.writer = EffectsWriter(session)
        self.frames: deque[tuple[bytes, bool]] = deque()
        self.sent = 0
        self.taken = 0


class GuestFeeds:
    """Of one group on this node. send: an answer to another node. serving: the feeds, by the guest."""

    def __init__(self, group: QueueGroup, send: Send) -> None:
        self._group = group
        self._group_id = group.group_id
        self._raft = group.raft
        self._machine = group.machine
        self._send = send
        self.serving: dict[str, _Serving] = {}

    def receive(self, name: str, frame: Request) -> None:
        """A frame of another node."""
        group, serving = self._group, self.serving.get(name)
        if isinstance(frame, Taken):
            if serving is not None and serving.number == frame.number:
                serving.taken = frame.octets
                self._send_frames(name, serving)
        elif isinstance(frame, Close):
            if serving is not None and serving.number == frame.number:
                self.drop(name)
        elif isinstance(frame, Count):
            self._say(name, Counted(group.group_id, frame.number, self._figures(frame.queue_id)))
        elif isinstance(frame, Open):
            self._open(name, frame)
        else:
            self._say(name, self._found(name, frame.number))

    def _figures(self, queue_id: int) -> QueueStatistics | None:
        """Of a queue, which may not be in the log yet, or a stream; None: this member does not know."""
        if not self._group.leads_and_knows:
            return None
        stream = self._machine.stream(queue_id)
        if stream is not None:
            return QueueStatistics(*StreamCounts.of(stream).numbers())
        return self._machine.statistics(queue_id) or QueueStatistics(0, 0, 0, 0, 0)

    def _say(self, name: str, answer: Answer) -> bool:
        return self._send(name, encode_answer(answer))

    def _found(self, name: str, number: int) -> Found:
        group, raft, node = self._group, self._raft, node_of_worker(name)
        if not raft.is_leader:
            standing = Standing.FOLLOWS
        elif node in raft.members or node in raft.learners or not raft.has_settled_members:
            standing = Standing.LEADS_MEMBER
        else:
            standing = Standing.LEADS if group.leads_and_knows else Standing.NOT_READY
        return Found(group.group_id, number, standing, raft.term, group.member_leading() or "")

    def _open(self, name: str, frame: Open) -> None:
        group = self._group
        self.drop(name)
        if not group.leads_and_knows or group.raft.last_applied < frame.at:
            standing = Standing.NOT_READY if group.raft.is_leader else Standing.FOLLOWS
            raft = group.raft
            self._say(name, Found(group.group_id, frame.number, standing, raft.term, group.member_leading() or ""))
            return
        newest = group.machine.last_session_of(name)
        if not self._say(name, Opened(group.group_id, frame.number, newest)):
            return
        group.machine.open_feed(name, frame.heard)
        self.serving[name] = _Serving(frame.number, frame.heard.session)
        self.work()

    def work(self) -> None:
        """What was applied goes to those whom it concerns."""
        machine = self._machine
        for name, serving in list(self.serving.items()):
            effects = machine.take_feed(name)
            if effects:
                _write_whole(serving, effects)
            if serving.frames:
                self._send_frames(name, serving)

    def _send_frames(self, name: str, serving: _Serving) -> None:
        index = self._raft.last_applied
        while serving.frames and serving.sent - serving.taken < WINDOW_BYTES:
            octets, goes_on = serving.frames.popleft()
            serving.sent += len(octets)
            if not self._say(name, Effects(self._group_id, serving.number, GOES_ON if goes_on else index, octets)):
                self.drop(name)
                return

    def drop(self, name: str) -> None:
        """The guest hears nothing more here."""
        if self.serving.pop(name, None) is not None:
            self._machine.close_feed(name)

    def close(self) -> None:
        """This member does not lead any more."""
        leader = self._group.member_leading() or ""
        for name, serving in list(self.serving.items()):
            self.drop(name)
            self._say(name, Closed(self._group_id, serving.number, leader))


def _write_whole(serving: _Serving, effects: list[Effect]) -> None:
    """Pack effects; frames that end before the Confirmed of their entry say so (invariant 3)."""
    writer, start = serving.writer, 0
    for place, effect in enumerate(effects):
        if isinstance(effect, Confirmed):
            _write(writer, effects[start : place + 1])
            start = place + 1
            if writer.is_split:
                *parts, last = writer.take()
                serving.frames += [(octets, True) for octets in parts]
                serving.frames.append((last, False))
    _write(writer, effects[start:])
    serving.frames += [(octets, False) for octets in writer.take()]


def _write(writer: EffectsWriter, effects: list[Effect]) -> None:
    for effect in effects:
        if isinstance(effect, Delivered):
            writer.put_delivered(
                effect.consumer, effect.delivery_id, effect.message, effect.redelivered, effect.delivery_count
            )
        elif isinstance(effect, GetAnswered) and effect.message is None and effect.delivery_id:
            writer.put(effect._replace(delivery_id=0))
            writer.put(Unreadable(effect.consumer, effect.delivery_id))
        elif isinstance(
            effect,
            Confirmed | GetAnswered | CommandCounted | AttachRefused | SettleMissed | ConsumerCancelled | SessionClosed
            | Unreadable,
        ):  # fmt: skip
            writer.put(effect)

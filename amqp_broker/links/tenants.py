"""Tenants: who shares the links between nodes, and what of a frame is whose.

    frame      u8 version, u8 11, u8 kind (FrameKind), octets: of the tenant that has registered the kind
               any other second octet: Raft's (raft/wire.py), which is a tenant like the others

What a turn has for another node leaves in the order in which it was put, whoever has put it. It may be lost with the
link, and waits for no disk: a tenant that has to wait puts it later.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from amqp_broker.links.frame_kinds import SINCE, FrameKind
from amqp_broker.links.levels import FIRST
from raft.outbox import Outbox
from raft.wire import FOREIGN, VERSION

log = logging.getLogger("amqp_broker.cluster")

#: Called with the node that a frame is from, its octets, and the time.
Receive = Callable[[str, bytes, int], None]
#: Called with a node and the octets of a frame for it. False if there is no link, or the node does not know the kind.
Send = Callable[[str, bytes], bool]

# As integers of this module, which a compiled one compares in C.
_VERSION = VERSION
_FOREIGN = FOREIGN
_HEAD_BYTES = 3


def head_of(kind: FrameKind) -> bytes:
    """How a frame of this kind begins."""
    return bytes([VERSION, FOREIGN, kind])


class _Sender:
    """What a tenant sends its frames with."""

    def __init__(self, tenants: Tenants, kind: FrameKind) -> None:
        self._linked = tenants.linked
        self._outbox = tenants.outbox
        self._head = head_of(kind)
        self._since = SINCE.get(kind, FIRST)

    def send(self, name: str, payload: bytes) -> bool:
        """See Send."""
        if name not in self._linked or self._linked[name] < self._since:
            return False
        self._outbox.put(name, self._head + payload)
        return True


class Tenants:
    """receivers: of frames, by their kind. outbox: what leaves at the end of the turn. linked: the nodes to which there
    is a link, and what they say counts (acquaintances.py), with the level that each speaks."""

    def __init__(self, outbox: Outbox) -> None:
        self.outbox = outbox
        self.linked: dict[str, int] = {}
        self.receivers: dict[int, Receive] = {}
        self._receive_raft: Receive | None = None

    def register(self, kind: FrameKind, receive: Receive) -> Send:
        """Have frames of this kind given to `receive`, without their heads. Returns what sends such. Raises ValueError
        if somebody has the kind."""
        if kind in self.receivers:
            raise ValueError(f"frames of kind {kind} ({kind.name}) are another tenant's already")
        self.receivers[int(kind)] = receive
        send: Send = _Sender(self, kind).send
        return send

    def register_raft(self, receive: Receive) -> None:
        """The same for all frames that are of no kind, whole; what answers them goes into the outbox. Raises ValueError
        if somebody has them."""
        if self._receive_raft is not None:
            raise ValueError("Raft's frames are another tenant's already")
        self._receive_raft = receive

    def link_up(self, name: str, level: int) -> None:
        """There is a link to a node that speaks this level, and what it says counts."""
        self.linked[name] = level

    def link_down(self, name: str) -> None:
        """It is gone, with what was to go out on it."""
        self.linked.pop(name, None)
        self.outbox.drop(name)

    def receive(self, name: str, frame: bytes, now: int) -> None:
        """A frame of a node. Raises PeerProtocolError: its link has to go; RaftStopped: the node has to stop."""
        receive = self._receive_raft
        if len(frame) >= 2 and frame[1] == _FOREIGN and frame[0] == _VERSION:
            if name not in self.linked:
                return
            receive = self.receivers.get(frame[2]) if len(frame) >= _HEAD_BYTES else None
            if receive is None:
                kind = frame[2:_HEAD_BYTES].hex()
                log.error("%s sends a message of unknown kind %s: is it of a newer version?", name, kind)
                return
            frame = frame[_HEAD_BYTES:]
        if receive is not None:
            receive(name, frame, now)

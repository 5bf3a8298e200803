"""The kinds of frames between nodes that are not Raft's own (tenants.py). docs/cluster-links.md says what each is.

Numbers never change: nodes of several versions talk to each other while a cluster is upgraded.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum


class FrameKind(IntEnum):
    """What a frame is, by the octet that says so."""

    METADATA_COMMANDS = 1
    METADATA_APPLIED = 2
    QUEUE_BATCH = 3
    HOME_COMMANDS = 4
    HOME_EFFECTS = 5
    DIRECT_REPLY = 6
    TRANSFER_REQUEST = 7
    RELEASE = 8
    LEASE_REQUEST = 9
    LEASE_ANSWER = 10
    MEMBERS = 11
    ACQUAINTANCE = 12
    MANAGEMENT = 13
    GUEST_REQUEST = 14
    GUEST_ANSWER = 15
    STREAM_REQUEST = 16
    STREAM_ANSWER = 17
    METADATA_FEED = 18
    CONNECTION_MOVE = 19
    STREAM_READ = 20
    STREAM_READ_ANSWER = 21
    QUEUE_MOVE = 22


#: The level (levels.py) with which a kind came, for those that not all versions know.
SINCE: Mapping[FrameKind, int] = {
    FrameKind.MANAGEMENT: 2,
    FrameKind.GUEST_REQUEST: 2,
    FrameKind.GUEST_ANSWER: 2,
    FrameKind.STREAM_REQUEST: 2,
    FrameKind.STREAM_ANSWER: 2,
    FrameKind.METADATA_FEED: 2,
    FrameKind.CONNECTION_MOVE: 2,
    FrameKind.STREAM_READ: 2,
    FrameKind.STREAM_READ_ANSWER: 2,
    FrameKind.QUEUE_MOVE: 2,
}

"""What members of a group say to each other, after Figure 2 of the Raft paper, as immutable values.

Every reply carries the term in which it was made, so that one from an earlier leadership is known as such.
"""

from __future__ import annotations

from typing import NamedTuple

from raft.configuration import Configuration
from raft.entry import Entry


class Append(NamedTuple):
    """AppendEntries: `entries` follow the entry at `prev_index`, which has the term `prev_term`."""

    group: int
    term: int
    prev_index: int
    prev_term: int
    commit_index: int
    entries: list[Entry]


class AppendReply(NamedTuple):
    """Success: the log matches the leader's up to `match_index`, on disk. Refusal of the append after `prev_index`: the
    logs can match at `match_index` at most, where the follower has `match_term`.
    """

    group: int
    term: int
    is_success: bool
    match_index: int
    match_term: int
    prev_index: int


#: (group, term, commit_index, sent_index): a leader is there, and has sent entries up to sent_index.
Beat = tuple[int, int, int, int]
#: (group, term, sent_index, match_index): an answer to a Beat.
BeatReply = tuple[int, int, int, int]


class Heartbeat(NamedTuple):
    """The beats of all groups that the sender leads and the receiver belongs to."""

    beats: list[Beat]


class HeartbeatReply(NamedTuple):
    """The answers to a Heartbeat."""

    replies: list[BeatReply]


class CommitNotice(NamedTuple):
    """As a Heartbeat, but nobody answers: commit indexes have moved."""

    beats: list[Beat]


class VoteRequest(NamedTuple):
    """`is_pre`: would you vote? `is_transfer`: the leader itself has asked for this election."""

    group: int
    term: int
    is_pre: bool
    is_transfer: bool
    last_index: int
    last_term: int


class VoteReply(NamedTuple):
    """`term` is the term asked for if granted, else the term of who refuses."""

    group: int
    term: int
    is_pre: bool
    is_granted: bool


class InstallChunk(NamedTuple):
    """Part `number` of the state as of `last_index`; the last one is empty."""

    group: int
    term: int
    install_id: int
    last_index: int
    last_term: int
    configuration: Configuration
    number: int
    is_last: bool
    data: bytes


class InstallReply(NamedTuple):
    """`next_number` is the part that is wanted next; `is_done`: the state is there, on disk."""

    group: int
    term: int
    install_id: int
    next_number: int
    is_done: bool


class TimeoutNow(NamedTuple):
    """The leader asks a member to stand for election at once (thesis, section 3.10)."""

    group: int
    term: int


GroupMessage = Append | AppendReply | VoteRequest | VoteReply | InstallChunk | InstallReply | TimeoutNow
Message = GroupMessage | Heartbeat | HeartbeatReply | CommitNotice

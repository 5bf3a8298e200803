"""Outcomes of what an operator asks of a group."""

from __future__ import annotations

import enum


class MembershipResult(enum.Enum):
    """What became of add_member or remove_member. ACCEPTED: it is in the log, and happens once it is committed."""

    ACCEPTED = "accepted"
    NOT_LEADER = "this member does not lead the group; ask the leader"
    NOT_READY = "the leader is new, or a change is going on; ask again"
    ALREADY_MEMBER = "it is a member already"
    NOT_A_MEMBER = "it is no member"
    LAST_VOTER = "a group needs one voter at least"
    LEADER_ITSELF = "the leader is not removed; transfer the leadership first"


class TransferResult(enum.Enum):
    """What became of transfer_leadership. STARTED: proposals wait until it has happened or was given up."""

    STARTED = "started"
    NOT_LEADER = "this member does not lead the group; ask the leader"
    LEADER_ALREADY = "it leads already"
    NOT_A_VOTER = "it is no voter of the group"
    NOT_CONNECTED = "it is not connected"
    IN_PROGRESS = "another transfer is going on"

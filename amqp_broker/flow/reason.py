"""Reason: why a connection is paused. Several may hold at once; who pauses and resumes is pauses.py."""

from __future__ import annotations

from enum import IntFlag


class Reason(IntFlag):
    """Bits of `Client.paused_for`. For any of them nothing is read from the connection."""

    ANSWER = 1  # its last method waits for an answer, or for the disk
    LOGIN = 2  # its password is being checked, or whether there is room for it
    SHARE = 4  # it has had its share of the turn
    GATE = 8  # it is about to publish, and publishers wait
    OUTPUT = 16  # it does not read its replies: nothing more is read, what is there is handled
    REPLIES = 32  # what this turn has to say to it is too long: nothing is handled until it has read
    MOVE = 64  # another worker is about to go on with it
    HELD = 128  # the queue that its next method names is about to live elsewhere
    CLOSE = 256  # it has closed, and is answered when others know: that it says no more is not its end until then


#: For these no frame is handled either.
HANDLING = int(
    Reason.ANSWER | Reason.LOGIN | Reason.SHARE | Reason.GATE | Reason.REPLIES | Reason.MOVE | Reason.HELD
    | Reason.CLOSE
)  # fmt: skip

"""LeaseError: why a request of lease.* or txn.* has no success, with a code that programs act upon."""

from __future__ import annotations

from typing import Final

#: There is no such queue, exchange or verb.
NOT_FOUND: Final = "not-found"
#: The user lacks a permission.
ACCESS_REFUSED: Final = "access-refused"
#: Somebody else owns the group, or the epoch, now.
FENCED: Final = "fenced"
#: The group is another one than before, or a range, or what was staged, is no longer there.
GONE: Final = "gone"
#: Not now: the same request may well have success later.
BUSY: Final = "busy"
#: The request itself is wrong.
INVALID: Final = "invalid"
CODES: Final = (NOT_FOUND, ACCESS_REFUSED, FENCED, GONE, BUSY, INVALID)


class LeaseError(Exception):
    """code: one of CODES. The text names the thing, the value and the way out."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text

"""What holds messages in RAM, and can bring them to the disk: as who frees memory (the node's PagingOut) sees it."""

from __future__ import annotations

from typing import Protocol


class Holder(Protocol):
    """Messages of one queue, lease group or transaction."""

    def ram_page_bytes(self) -> int:
        """Octets in RAM that `page_out` can do something about."""

    def page_out(self, want: int) -> int:
        """Bring so many octets to the disk, if there are as many. Returns what was freed."""

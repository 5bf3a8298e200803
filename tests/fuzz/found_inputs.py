"""Programs (conversation.py) that once broke an invariant, by the name of the cause. A case is never taken out."""

from __future__ import annotations

from typing import Final

FOUND: Final[dict[str, bytes]] = {}

"""How many examples a property is tried with.

Without the compiled modules the source is the same, and has been tried with all of them: there a part is enough to see
whether the two forms differ.
"""

from __future__ import annotations

import os

IS_PLAIN = os.environ.get("AMQP_BROKER_PLAIN") == "1"
_PART, _LEAST = 5, 10


def examples(count: int) -> int:
    """So many of `count`."""
    return max(count // _PART, min(count, _LEAST)) if IS_PLAIN else count

"""Python's garbage collector in a node: rarely, and never through what was there at the start."""

from __future__ import annotations

import gc
from typing import Final

#: Objects of a message live shortly, and there are fewer than 2,000 of those on their way; the collector looks for
#: cycles only. Nobody is served meanwhile: it looks at 2,000 objects in half a millisecond, at those that outlived two
#: such looks in one, and at all that there are after some fifty million.
_THRESHOLDS: Final = (2_000, 0, 12_500)


def start_collector() -> None:
    """The node has recovered: what there is now holds no cycles that go."""
    gc.freeze()
    gc.enable()
    gc.set_threshold(*_THRESHOLDS)

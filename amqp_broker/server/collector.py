"""Python's garbage collector in a node: rarely, and never through what was there at the start."""

from __future__ import annotations

import gc
from typing import Final

#: Objects of a message live shortly; the collector looks for cycles only. Nobody is served meanwhile, so it looks at few
#: objects at a time, while they are in the processor's caches: at 250, at those that outlived two such looks, which
#: takes some 50 microseconds, and at all that there are after some fifty million.
_THRESHOLDS: Final = (250, 0, 100_000)


def start_collector() -> None:
    """The node has recovered: what there is now holds no cycles that go."""
    gc.freeze()
    gc.enable()
    gc.set_threshold(*_THRESHOLDS)

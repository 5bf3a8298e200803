"""Python's garbage collector in a node: rarely, and never through what was there at the start."""

from __future__ import annotations

import gc
from typing import Final

#: Objects of a message live shortly; the collector looks for cycles only, and rarely. Nobody is served meanwhile: it
#: looks at 3,000 objects in less than a millisecond, at those that outlived three such looks together, and at all that
#: there are after some fifty million.
_THRESHOLDS: Final = (3_000, 2, 6000)


def start_collector() -> None:
    """The node has recovered: what there is now holds no cycles that go."""
    gc.freeze()
    gc.enable()
    gc.set_threshold(*_THRESHOLDS)

"""How much processor time something takes, whatever else the tests' process keeps in memory."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager


class Taken:
    """seconds: what was taken, when the block has ended."""

    seconds = 0.0


@contextmanager
def processor_time() -> Iterator[Taken]:
    """Of this block alone: the collector goes over all that the tests before have left, and is held off meanwhile."""
    taken = Taken()
    gc.collect()
    gc.disable()
    try:
        began = time.process_time()
        yield taken
        taken.seconds = time.process_time() - began
    finally:
        gc.enable()

"""What the C library does with memory that was given back.

Left alone it gives the heap's end back to the system as soon as some 128 KiB of it are free, or twice the largest block
that it has given back so far: with bodies of 1 MiB after nearly each message, which then costs the pages anew. Measured
(`make bench-compare`, row 1m): a fifth less processor time a message with the room kept.
"""

from __future__ import annotations

import ctypes
import os

#: So much of the heap's end is kept though it is free, octets.
KEPT_BYTES = 16 << 20
#: Blocks from this size on are asked of the system one by one, octets: what the C library comes to by itself at most.
APART_BYTES = 32 << 20
#: Who has decided otherwise has done so by one of these.
_DECIDED = ("GLIBC_TUNABLES", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_")
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # malloc.h of glibc


def keep_room() -> bool:
    """Of this process, from now on. False: this C library has no such choice, or the environment has made it."""
    if any(name in os.environ for name in _DECIDED):
        return False
    try:
        choose = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(choose(_TRIM_THRESHOLD, KEPT_BYTES)) and bool(choose(_MMAP_THRESHOLD, APART_BYTES))

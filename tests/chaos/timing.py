"""Waiting, where time itself is part of the experiment: how long a fault lasts, how often a client publishes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

POLL_S = 0.05


def now() -> float:
    """Seconds on the machine's monotonic clock: one clock for the harness, all clients and all nodes."""
    return time.monotonic()


async def pause(seconds: float) -> None:
    """Return after so many seconds."""
    loop = asyncio.get_running_loop()
    over: asyncio.Future[None] = loop.create_future()

    def end() -> None:
        if not over.done():
            over.set_result(None)

    timer = loop.call_later(seconds, end)
    try:
        await over
    finally:
        timer.cancel()


async def until(claim: Callable[[], bool], seconds: float) -> bool:
    """Wait until the claim holds. Returns False if it does not after so many seconds."""
    deadline = now() + seconds
    while not claim():
        if now() > deadline:
            return False
        await pause(POLL_S)
    return True

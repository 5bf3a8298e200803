"""Completion: something that will be done, told to who waits for it by whoever does it; an Awaited (task.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Completion(Generic[T]):
    """result: what it came to; there is none before it is done."""

    result: T

    def __init__(self) -> None:
        self.is_done = False
        self._then: list[Callable[[T], None]] = []

    def when_done(self, then: Callable[[T], None]) -> None:
        """Call `then(result)`; at once if it is done already."""
        if self.is_done:
            then(self.result)
        else:
            self._then.append(then)

    def complete(self, result: T) -> None:
        """It is done, or has been before."""
        if self.is_done:
            return
        self.is_done, self.result = True, result
        then, self._then = self._then, []
        for each in then:
            each(result)

"""Process: a program of a simulated application that waits for answers: a generator with a life of its own.

It yields what it waits for: something that is called with what to call when that has come (`Wait`), and goes on with
what that was called with. Where it is killed it stays.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

Resume = Callable[[Any], None]
Wait = Callable[[Resume], None]
Program = Generator[Wait, Any, Any]


class Process:
    """on_end: called with what the program returns, unless it is killed before."""

    def __init__(self, program: Program, on_end: Resume) -> None:
        self.is_over = False
        self._program = program
        self._on_end = on_end

    def start(self) -> None:
        """Go on to the first thing that it waits for."""
        self._go_on(None)

    def kill(self) -> None:
        """It never goes on."""
        self.is_over = True

    def _go_on(self, value: Any) -> None:
        if self.is_over:
            return
        try:
            wait = self._program.send(value)
        except StopIteration as end:
            self.is_over = True
            self._on_end(end.value)
            return
        wait(self._go_on)

"""Keys: those pressed on the terminal, one by one, while something else is shown."""

from __future__ import annotations

import os
import select
import sys
import termios
import time
import tty
from types import TracebackType
from typing import Self


class Keys:
    """A context manager: the terminal gives keys at once and does not show them. Where standard input is no terminal
    there are none, and `wait` only waits."""

    def __init__(self) -> None:
        self._descriptor = sys.stdin.fileno() if sys.stdin.isatty() else -1
        self._before: list[int | list[bytes | int]] = []

    def __enter__(self) -> Self:
        if self._descriptor >= 0:
            self._before = termios.tcgetattr(self._descriptor)
            tty.setcbreak(self._descriptor)
        return self

    def wait(self, seconds: float) -> str:
        """What was pressed, as soon as something is; "" if nothing was for so long."""
        if self._descriptor < 0:
            time.sleep(seconds)
            return ""
        if not select.select([self._descriptor], [], [], max(0.0, seconds))[0]:
            return ""
        return os.read(self._descriptor, 64).decode("utf-8", "replace") or "q"  # at the end of input nobody is there

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._before:
            termios.tcsetattr(self._descriptor, termios.TCSADRAIN, self._before)

"""Standard output that cannot be written: a full device, a pipe that nobody reads any more.

Whoever prints, click and rich included, prints through a WatchedOutput, which remembers what failed: an OSError alone
does not say whether it was standard output or a file that the command is about.
"""

from __future__ import annotations

import os
import sys
from typing import Any, TextIO, TypeAlias

Stream: TypeAlias = Any  # untyped: of text, or of octets below it


class WatchedOutput:
    """A stream, and `failure`, the first OSError that writing to it met."""

    def __init__(self, stream: Stream, outer: WatchedOutput | None = None) -> None:
        self.failure: OSError | None = None
        self._stream = stream
        self._outer = outer

    def write(self, text: object) -> int:
        try:
            return int(self._stream.write(text))
        except OSError as error:
            self._note(error)
            raise

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError as error:
            self._note(error)
            raise

    @property
    def buffer(self) -> WatchedOutput:
        """The octets below, for those who encode by themselves."""
        return WatchedOutput(self._stream.buffer, self)

    def _note(self, error: OSError) -> None:
        self.failure = self.failure or error
        if self._outer is not None:
            self._outer._note(error)

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)


def hold_standard_descriptors() -> None:
    """Open those of 0, 1 and 2 that are closed, on /dev/null. Otherwise the next file or socket would be one of them,
    and a message for standard error could end in the journal."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free, which is this one
    # The interpreter has given up those that were closed when it started.
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115 - lives as long as the process
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115


def abandon(output: TextIO) -> None:
    """Forget what could not be written: the interpreter would try again at its end, and fail."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, output.fileno())
    os.close(nowhere)
    output.flush()

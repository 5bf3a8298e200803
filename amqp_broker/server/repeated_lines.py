"""RepeatedLines: a filter that says the same line a few times, and then how often it came again.

    connection ...: refused
    connection ...: refused ... 20,107 times more in 10 s

Installed on the handler that the program's loggers share. Time is that of the records: what was counted is said before
the first record, of whatever line, that comes `PERIOD_S` after the line was said; and by `say`, for when none comes.

Invariants:
1. A line that was counted is said, with the number, once its period is over; none is lost.
2. At most `MOST_LINES` lines are known, each by at most `MOST_CHARACTERS`; the one known longest makes room.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

PERIOD_S = 10.0
"""A line's count is said so long after the line."""
FIRST = 5
"""So often a line is said in a period before it is only counted."""
MOST_LINES = 1000
MOST_CHARACTERS = 1000


class _Line:
    """since: when its period began. said: how often in it. counted: how often besides."""

    def __init__(self, record: logging.LogRecord, text: str) -> None:
        self.name = record.name
        self.level = record.levelno
        self.text = text
        self.since = record.created
        self.said = 0
        self.counted = 0


class RepeatedLines(logging.Filter):
    """emit: writes a record, past this filter."""

    def __init__(self, emit: Callable[[logging.LogRecord], object]) -> None:
        super().__init__()
        self._emit = emit
        self._lines: dict[tuple[str, int, str], _Line] = {}  # those whose period began first come first

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a record is to be written now."""
        self.say(record.created)
        text = record.getMessage()[:MOST_CHARACTERS]
        key = (record.name, record.levelno, text)
        line = self._lines.get(key)
        if line is None:
            if len(self._lines) >= MOST_LINES:
                self._end(next(iter(self._lines)), record.created, goes_on=False)
            line = self._lines[key] = _Line(record, text)
        if line.said < FIRST:
            line.said += 1
            return True
        line.counted += 1
        return False

    def say(self, now: float) -> None:
        """Say what was counted in periods that are over, seconds since the epoch."""
        while self._lines:
            key, line = next(iter(self._lines.items()))
            if line.since <= now < line.since + PERIOD_S:
                return
            self._end(key, now, goes_on=True)

    def say_all(self, now: float) -> None:
        """Say everything that was counted: this is the end."""
        while self._lines:
            self._end(next(iter(self._lines)), now, goes_on=False)

    def _end(self, key: tuple[str, int, str], now: float, *, goes_on: bool) -> None:
        """A line's period is over. In the next one, if it `goes_on`, it is counted from the first time on."""
        line = self._lines.pop(key)
        if not line.counted:
            return
        times = "once" if line.counted == 1 else f"{line.counted:,} times"
        again = f"{line.text} ... {times} more in {max(1, round(now - line.since))} s"
        record = logging.LogRecord(line.name, line.level, "", 0, again, (), None)
        record.created = now
        if goes_on:
            line.since, line.counted = now, 0
            self._lines[key] = line
        self._emit(record)

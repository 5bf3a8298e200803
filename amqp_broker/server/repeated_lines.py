"""RepeatedLines: a filter that says the same line a few times, and then how often it came again.

    connection ...: refused
    connection ...: refused ... 20,107 times more in 10 s

Lines that differ in what is put into them, such as a port, are said more often than that, but not for ever either:

    connection 127.0.0.1:40123 ...: refused ... and 20,107 lines like it in 10 s

Installed on the handler that the program's loggers share. Time is that of the records: what was counted is said before
the first record, of whatever line, that comes `PERIOD_S` after the line was said; and by `say`, for when none comes.

Invariants:
1. A line that was counted is said, with the number, once its period is over; none is lost.
2. At most `MOST_LINES` lines, and kinds of lines, are known, each by at most `MOST_CHARACTERS`; the one known longest
   makes room.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

PERIOD_S = 10.0
"""A line's count is said so long after the line."""
FIRST = 5
"""So often a line is said in a period before it is only counted."""
FIRST_ALIKE = 100
"""So many lines of one logger and level that are the same but for what is put into them (`LogRecord.msg`)."""
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


class _Lines:
    """Lines that are counted from the `first` + 1st in a period on. emit: writes a record, past the filter."""

    def __init__(self, first: int, emit: Callable[[logging.LogRecord], object], again: Callable[[int], str]) -> None:
        self.known: dict[tuple[str, int, str], _Line] = {}  # those whose period began first come first
        self._first = first
        self._emit = emit
        self._again = again

    def admit(self, record: logging.LogRecord, what: str, text: str) -> bool:
        """Whether a record is to be written now. what: what makes it one of these lines; text: an example."""
        key = (record.name, record.levelno, what)
        line = self.known.get(key)
        if line is None:
            if len(self.known) >= MOST_LINES:
                self._end(next(iter(self.known)), record.created, goes_on=False)
            line = self.known[key] = _Line(record, text)
        if line.said < self._first:
            line.said += 1
            return True
        line.counted += 1
        return False

    def counts(self, record: logging.LogRecord, what: str) -> bool:
        """Whether a record is one too many of these lines, and so only counted."""
        line = self.known.get((record.name, record.levelno, what))
        if line is None or line.said < self._first:
            return False
        line.counted += 1
        return True

    def say(self, now: float) -> None:
        """Say what was counted in periods that are over, seconds since the epoch."""
        while self.known:
            key, line = next(iter(self.known.items()))
            if line.since <= now < line.since + PERIOD_S:
                return
            self._end(key, now, goes_on=True)

    def say_all(self, now: float) -> None:
        """Say everything that was counted: this is the end."""
        while self.known:
            self._end(next(iter(self.known)), now, goes_on=False)

    def _end(self, key: tuple[str, int, str], now: float, *, goes_on: bool) -> None:
        """A line's period is over. In the next one, if it `goes_on`, it is counted from the first time on."""
        line = self.known.pop(key)
        if not line.counted:
            return
        again = f"{line.text} ... {self._again(line.counted)} in {max(1, round(now - line.since))} s"
        record = logging.LogRecord(line.name, line.level, "", 0, again, (), None)
        record.created = now
        if goes_on:
            line.since, line.counted = now, 0
            self.known[key] = line
        self._emit(record)


class RepeatedLines(logging.Filter):
    """emit: writes a record, past this filter."""

    def __init__(self, emit: Callable[[logging.LogRecord], object]) -> None:
        super().__init__()
        self._same = _Lines(FIRST, emit, lambda count: "once more" if count == 1 else f"{count:,} times more")
        self._alike = _Lines(
            FIRST_ALIKE, emit, lambda count: f"and {count:,} line{'s' if count > 1 else ''} like it"
        )

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a record is to be written now."""
        self.say(record.created)
        kind = str(record.msg)[:MOST_CHARACTERS]
        if self._alike.counts(record, kind):
            return False  # and takes nobody's place among the lines that are told apart
        text = record.getMessage()[:MOST_CHARACTERS]
        return self._same.admit(record, text, text) and self._alike.admit(record, kind, text)

    def say(self, now: float) -> None:
        """Say what was counted in periods that are over, seconds since the epoch."""
        self._same.say(now)
        self._alike.say(now)

    def say_all(self, now: float) -> None:
        """Say everything that was counted: this is the end."""
        self._same.say_all(now)
        self._alike.say_all(now)

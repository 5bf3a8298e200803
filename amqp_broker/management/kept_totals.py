"""KeptTotals: the counters of a node, in a file of its data folder, so that they go on where they were when it starts
again.

    counted -> KeptWrite, in a thread of the driver -> answered

Invariants:
1. No counter is told before the file has it: a node that was killed begins with no less than what it has told. What it
   counted behind that is not known any more.
2. A file that is damaged, or of a newer version, is no reason not to start: counters begin with 0.
3. Nobody waits for the disk itself: when the machine goes down, the file may be an older one, or none.
"""

from __future__ import annotations

import json
import logging
from collections import deque
from collections.abc import Callable
from operator import add
from typing import Final

from amqp_broker.protocol.json_values import JsonObject, JsonValue
from amqp_broker.turn.completion import Completion
from amqp_broker.turn.file_work import FileWork
from storage.disk import Disk
from storage.errors import StorageError

log = logging.getLogger("amqp_broker")

FILE: Final = "counters"
DRAFT: Final = "counters.new"
#: Of the file.
VERSION: Final = 1
#: More than it can have, octets.
_MOST_BYTES: Final = 1024 * 1024
#: No counter comes this far.
_NO_COUNT: Final = 1 << 63


class KeptWrite(FileWork, Completion[None]):
    """The file, written anew."""

    def __init__(self, disk: Disk, octets: bytes) -> None:
        FileWork.__init__(self)
        Completion.__init__(self)
        self._disk = disk
        self._octets = octets

    def _run(self) -> None:
        disk = self._disk
        if disk.exists(DRAFT):
            disk.remove(DRAFT)
        disk.append(DRAFT, [self._octets])
        disk.rename(DRAFT, FILE)

    def finish(self) -> None:
        """See FileWork."""
        self.complete(None)


class KeptTotals:
    """waiting: what a thread of the driver is to do."""

    def __init__(self, disk: Disk, waiting: deque[FileWork]) -> None:
        self._disk = disk
        self._waiting = waiting
        self._before: JsonObject = {}
        self._has_failed = False

    def open(self) -> None:
        """Read what was kept."""
        try:
            if not self._disk.exists(FILE):
                return
            said = json.loads(self._disk.read(FILE, 0, _MOST_BYTES))
            is_known = said["v"] == VERSION
            counters = said["counters"]
            if not is_known or not isinstance(counters, dict):
                raise ValueError(f"version {said['v']!r}")
            _check(counters)
        except (ValueError, KeyError, TypeError, RecursionError, OSError, StorageError) as error:
            log.warning("%s cannot be read (%s): counters begin with 0", FILE, error)
            return
        self._before = counters

    def go_on(self, counted: JsonObject) -> JsonObject:
        """What was counted since the start, and before it."""
        found: JsonObject = _combined(add, counted, self._before)
        return found

    def keep(self, counters: JsonObject) -> KeptWrite:
        """Write them down; done when they are."""
        octets = json.dumps({"v": VERSION, "counters": counters}).encode("ascii")
        work = KeptWrite(self._disk, octets)
        work.when_done(lambda _: self._kept(work))
        self._waiting.append(work)
        return work

    def _kept(self, work: KeptWrite) -> None:
        """A disk that takes nothing is said once."""
        if work.error is not None and not self._has_failed:
            log.warning("%s cannot be written: %s; counters may be lower after the next start", FILE, work.error)
        self._has_failed = work.error is not None


def _check(said: JsonValue) -> None:
    """Raises ValueError unless it is numbers that can be counted, and lists and objects of them."""
    if isinstance(said, (dict, list)):
        for each in said.values() if isinstance(said, dict) else said:
            _check(each)
    elif not isinstance(said, (int, float)) or isinstance(said, bool) or not 0 <= said < _NO_COUNT:
        raise ValueError(f"{said!r:.40} is no counter")


def highest(now: JsonObject, before: JsonObject) -> JsonObject:
    """Of each counter the higher one."""
    found: JsonObject = _combined(max, now, before)
    return found


def _combined(combine: Callable[[float, float], float], now: JsonValue, before: JsonValue) -> JsonValue:
    """Numbers, and whatever of lists and objects are numbers, two and two; what is known under a name that nobody
    counts now stays."""
    if isinstance(now, dict):
        known = before if isinstance(before, dict) else {}
        rest = {name: value for name, value in known.items() if name not in now}
        return {**{name: _combined(combine, value, known.get(name)) for name, value in now.items()}, **rest}
    if isinstance(now, list):
        values = before if isinstance(before, list) and len(before) == len(now) else [0] * len(now)
        return [_combined(combine, value, other) for value, other in zip(now, values, strict=True)]
    return combine(now, before) if isinstance(before, (int, float)) and not isinstance(before, bool) else now

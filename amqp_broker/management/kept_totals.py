"""KeptTotals: the counters of a node, in a file of its data folder, so that they go on where they were when it starts
again.

    counted -> KeptWrite, in a thread of the driver -> answered
            -> `close`, when the node ends

    {"v": 2, "crc": "8 hex digits", "kept": {"counters": {...}, "fleeting": 0}}     crc: of what stands behind "kept":
    {"v": 1, "counters": {...}}                                                     as the version before wrote it

Invariants:
1. No counter is told before the file has it, unless the disk takes longer than PATIENCE_MS or refuses it: a node that
   was killed begins with no less than what it has told. What it counted behind that is not known any more.
2. A file that is damaged, or of a newer version, is no reason not to start: counters begin with 0.
3. Nobody waits for the disk itself: when the machine goes down, the file may be an older one, or none.
4. One write at a time. What the disk makes of it is said, once, and stops nobody.
5. What was open when a node ended has been closed when the next begins.
"""

from __future__ import annotations

import json
import logging
from collections import deque
from collections.abc import Callable
from operator import add
from typing import Final

from amqp_broker.octets.checksum import crc32
from amqp_broker.protocol.json_values import JsonObject, JsonValue
from amqp_broker.turn.clock import TurnClock
from amqp_broker.turn.completion import Completion
from amqp_broker.turn.file_work import FileWork
from queues.timers import Timers
from storage.disk import Disk
from storage.errors import StorageError

log = logging.getLogger("amqp_broker")

FILE: Final = "counters"
#: Of the file.
VERSION: Final = 2
_WITHOUT_CRC: Final = 1
#: So long who asks for counters waits for the file, milliseconds.
PATIENCE_MS: Final = 150
#: More than it can have, octets.
_MOST_BYTES: Final = 1024 * 1024
#: No counter comes this far.
_NO_COUNT: Final = 1 << 63
#: What counts the ends of what another counts.
_ENDS: Final = {"connection_closed": "connection_created", "channel_closed": "channel_created"}


class KeptWrite(FileWork, Completion[None]):
    """The file, written anew; done when it is, or when nobody waits for it any more."""

    def __init__(self, disk: Disk, octets: bytes, written: Callable[[KeptWrite], None]) -> None:
        FileWork.__init__(self)
        Completion.__init__(self)
        self._disk = disk
        self._octets = octets
        self._written = written

    def _run(self) -> None:
        self._disk.replace(FILE, self._octets)

    def finish(self) -> None:
        """See FileWork."""
        self._written(self)
        self.complete(None)


class KeptTotals:
    """waiting: what a thread of the driver is to do."""

    def __init__(self, disk: Disk, waiting: deque[FileWork], clock: TurnClock, timers: Timers) -> None:
        self._disk = disk
        self._waiting = waiting
        self._clock = clock
        self._timers = timers
        self._before: JsonObject = {}
        self._writing: KeptWrite | None = None
        self._has_failed = False

    def open(self) -> None:
        """Read what was kept."""
        try:
            if not self._disk.exists(FILE):
                return
            counters, fleeting = _read(self._disk.read(FILE, 0, _MOST_BYTES))
        except (ValueError, KeyError, TypeError, RecursionError, OSError, StorageError) as error:
            log.warning("%s cannot be read (%s): counters begin with 0", FILE, error)
            return
        for ended, begun in _ENDS.items():
            if begun in counters:
                counters[ended] = counters[begun]
        if fleeting:
            counters["queue_deleted"] = counters.get("queue_deleted", 0) + fleeting
        self._before = counters

    def go_on(self, counted: JsonObject) -> JsonObject:
        """What was counted since the start, and before it."""
        found: JsonObject = _combined(add, counted, self._before)
        return found

    def keep(self, counters: JsonObject, fleeting: int) -> Completion[None]:
        """Write them down; done when they are, or when the disk has had its time. fleeting: so many queues there are
        that end with the node. While one write is under way there is no other: the next one has what is counted by
        then."""
        if self._writing is not None:
            late: Completion[None] = Completion()
            late.complete(None)
            return late
        work = self._writing = KeptWrite(self._disk, _octets_of(counters, fleeting), self._written)
        timer = self._timers.at(self._clock.now + PATIENCE_MS, lambda now: work.complete(None))
        work.when_done(lambda _: timer.cancel())
        self._waiting.append(work)
        return work

    def close(self, counters: JsonObject, fleeting: int) -> None:
        """The end, when no thread runs any more: what is counted by now is written here."""
        work = KeptWrite(self._disk, _octets_of(counters, fleeting), self._written)
        work.run()
        work.finish()

    def _written(self, work: KeptWrite) -> None:
        """A disk that takes nothing is said once."""
        self._writing = None
        if work.error is not None and not self._has_failed:
            log.warning("%s cannot be written: %s; counters may be lower after the next start", FILE, work.error)
        self._has_failed = work.error is not None


def _octets_of(counters: JsonObject, fleeting: int) -> bytes:
    kept = json.dumps({"counters": counters, "fleeting": fleeting}).encode("ascii")
    return b"%s%s}" % (_head(kept), kept)


def _head(kept: bytes) -> bytes:
    return b'{"v": %d, "crc": "%08x", "kept": ' % (VERSION, crc32(kept))


def _read(octets: bytes) -> tuple[JsonObject, int]:
    """Counters, and how many queues ended with the node. Raises ValueError, KeyError, TypeError, RecursionError."""
    said = json.loads(octets)
    if said["v"] == _WITHOUT_CRC:
        kept = {"counters": said["counters"], "fleeting": 0}
    elif said["v"] == VERSION:
        kept = said["kept"]
        own = octets[len(_head(b"")) : -1]
        if not octets.startswith(_head(own)):
            raise ValueError("its checksum is another")
    else:
        raise ValueError(f"version {said['v']!r}")
    counters, fleeting = kept["counters"], kept["fleeting"]
    if not isinstance(counters, dict) or not isinstance(fleeting, int):
        raise ValueError("it has no counters")
    _check(counters)
    _check(fleeting)
    return counters, fleeting


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


def together(now: JsonObject, base: JsonObject) -> JsonObject:
    """Of each counter the sum."""
    found: JsonObject = _combined(add, now, base)
    return found


def shortfall(now: JsonObject, before: JsonObject) -> JsonObject:
    """By how much each counter of before is higher than it is now, or 0."""
    found: JsonObject = _shortfall(now, before)
    return found


def is_short(now: JsonObject, before: JsonObject) -> bool:
    """Whether any counter is lower than before."""
    return _has_any(_shortfall(now, before))


def _has_any(said: JsonValue) -> bool:
    if isinstance(said, (dict, list)):
        return any(_has_any(each) for each in (said.values() if isinstance(said, dict) else said))
    return bool(said)


def _shortfall(now: JsonValue, before: JsonValue) -> JsonValue:
    if isinstance(before, dict):
        own = now if isinstance(now, dict) else {}
        return {name: _shortfall(own.get(name), value) for name, value in before.items()}
    if isinstance(before, list):
        values = now if isinstance(now, list) and len(now) == len(before) else [0] * len(before)
        return [_shortfall(value, other) for value, other in zip(values, before, strict=True)]
    known = now if isinstance(now, (int, float)) else 0
    return max(0, before - known) if isinstance(before, (int, float)) else 0


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

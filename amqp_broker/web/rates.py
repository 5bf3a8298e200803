"""Rates: what counters do in a second, and samples of them over time.

The node counts; here is remembered what it said before. Of an object the last two readings are kept, which are at
least a second apart; of the totals an hour of readings, every five seconds, in a ring of fixed size.

Invariants:
1. Memory is bounded: by the number of objects that are kept, and by the rings.
2. A counter that fell (the node began anew) has the rate 0, never a negative one.
"""

from __future__ import annotations

import re
import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from amqp_broker.protocol.json_values import JsonObject
from amqp_broker.web.errors import bad_request

SAMPLE_EVERY_S: Final = 5
HISTORY_S: Final = 3600
_LEAST_GAP_MS: Final = 1000
#: The setting statistics_objects, where nobody says another.
MOST_OBJECTS: Final = 50_000
_MOST_SAMPLES: Final = 500
#: Of so many objects an hour is kept: some 400 kB each.
_MOST_WATCHED: Final = 32
_SECONDS: Final = re.compile(r"[0-9]{1,7}")

Counters = Mapping[str, int | float]


@dataclass(slots=True)
class Reading:
    """What counters were at a time, in milliseconds."""

    at: int
    values: Counters


class Readings:
    """The last two readings of each object: what the newest says against the one before. Of the few that were looked at
    last by themselves, an hour of readings. most: of so many objects; what was not read for long makes room."""

    def __init__(self, most: int = MOST_OBJECTS) -> None:
        self._most = most
        self._known: dict[tuple[str, str], tuple[Reading | None, Reading]] = {}
        self._watched: dict[tuple[str, str], History] = {}
        self._guard = threading.Lock()

    def watch(self, kind: str, ident: str, pair: tuple[Reading | None, Reading]) -> list[Reading]:
        """Somebody looks at one object, of which these are the last two readings: all that are kept of it, and the
        newest."""
        with self._guard:
            history = self._watched.pop((kind, ident), None) or History()
            self._watched[kind, ident] = history
            if len(self._watched) > _MOST_WATCHED:
                del self._watched[next(iter(self._watched))]
            known = history.readings()
            for each in pair:
                if each is not None and (not known or each.at > known[-1].at):
                    if not known or each.at - known[-1].at >= SAMPLE_EVERY_S * 1000:
                        history.add(each.at, each.values)
                    known.append(each)
            return known

    def newest(self, kind: str, ident: str) -> Reading | None:
        """The last reading of an object."""
        with self._guard:
            known = self._known.get((kind, ident))
        return known[1] if known is not None else None

    def add(self, kind: str, ident: str, at: int, values: Counters) -> tuple[Reading | None, Reading]:
        """Take a reading; the one before and the newest."""
        key, new = (kind, ident), Reading(at, values)
        with self._guard:
            known = self._known.pop(key, None)
            if known is None:
                pair: tuple[Reading | None, Reading] = (None, new)
            elif at - known[1].at >= _LEAST_GAP_MS:
                pair = (known[1], new)
            elif known[0] is not None:
                pair = (known[0], new if at > known[1].at else known[1])
            else:
                pair = known
            self._known[key] = pair
            if len(self._known) > self._most:
                del self._known[next(iter(self._known))]
            return pair

    def __len__(self) -> int:
        return len(self._known)


class History:
    """Readings of one thing for an hour."""

    def __init__(self) -> None:
        self._ring: deque[Reading] = deque(maxlen=HISTORY_S // SAMPLE_EVERY_S + 1)

    def add(self, at: int, values: Counters) -> None:
        self._ring.append(Reading(at, values))

    def readings(self) -> list[Reading]:
        return list(self._ring)


def rate_of(name: str, before: Reading | None, now: Reading | None) -> float:
    """The change a second of a counter."""
    if before is None or now is None or now.at <= before.at:
        return 0.0
    change = now.values.get(name, 0) - before.values.get(name, 0)
    return max(0.0, change * 1000 / (now.at - before.at))


def slope_of(name: str, before: Reading | None, now: Reading | None) -> float:
    """The change a second of what may rise and fall."""
    if before is None or now is None or now.at <= before.at:
        return 0.0
    return (now.values.get(name, 0) - before.values.get(name, 0)) * 1000 / (now.at - before.at)


@dataclass(frozen=True, slots=True)
class Grid:
    """The times at which samples are asked for: the last `age_s` seconds, every `step_s`."""

    age_s: int
    step_s: int


def read_grid(query: Mapping[str, str], family: str) -> Grid | None:
    """`lengths_age` and `lengths_incr`, and so on by family. Raises ApiError."""
    age, step = query.get(f"{family}_age"), query.get(f"{family}_incr")
    if age is None and step is None:
        return None
    if age is None or step is None or not _SECONDS.fullmatch(age) or not _SECONDS.fullmatch(step):
        raise _invalid_range(family)
    grid = Grid(int(age), int(step))
    if not grid.step_s or grid.age_s // grid.step_s > _MOST_SAMPLES:
        raise _invalid_range(family)
    return grid


def _invalid_range(family: str) -> Exception:
    return bad_request(
        f"invalid_range_parameters: {family}_age and {family}_incr are seconds, and at most {_MOST_SAMPLES} samples"
    )


def details(name: str, readings: list[Reading], grid: Grid | None, *, is_counter: bool = True) -> JsonObject:
    """`X_details`: the rate of the last two readings; with a grid also samples, newest first, and their average."""
    before, now = (readings[-2] if len(readings) > 1 else None), (readings[-1] if readings else None)
    found: JsonObject = {"rate": (rate_of if is_counter else slope_of)(name, before, now)}
    if grid is None or now is None:
        return found
    samples = _samples(name, readings, grid, now.at)
    found["samples"] = samples
    if samples:
        values = [each["sample"] for each in samples]
        seconds = (samples[0]["timestamp"] - samples[-1]["timestamp"]) / 1000
        found["avg"] = sum(values) / len(values)
        found["avg_rate"] = (values[0] - values[-1]) / seconds if seconds else 0.0
    return found


def _samples(name: str, readings: list[Reading], grid: Grid, now: int) -> list[JsonObject]:
    """From the last reading backwards what was read last at each time; none for the time before the first reading."""
    step = grid.step_s * 1000
    found, index = [], len(readings) - 1
    for at in range(now, now - grid.age_s * 1000 - 1, -step):
        while index >= 0 and readings[index].at > at:
            index -= 1
        if index < 0:
            break
        found.append({"sample": readings[index].values.get(name, 0), "timestamp": at})
    return found

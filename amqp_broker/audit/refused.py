"""RefusedAlike: what was refused again and again, in few lines: the first of its kind at once, the others counted.

Invariant: in a period there are at most `MOST_KINDS` lines that stand alone, as many that say how often such a one came
again, and one for all others: whoever is refused all the time fills no disk.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from amqp_broker.audit.actor import Actor
    from queues.timers import Timers

PERIOD_MS: Final = 60_000
MOST_KINDS: Final = 100


class Refusal:
    """What was refused to whom; `where` is a virtual host and a name. Of one kind are those that differ in the port
    only, or in `why`."""

    def __init__(self, actor: Actor, what: str, where: tuple[str, str], why: str) -> None:
        self.actor = actor
        self.what = what
        self.where = where
        self.why = why
        self.again = 0

    @property
    def kind(self) -> tuple[str, ...]:
        """See the class."""
        actor = self.actor
        return (self.what, actor.user, actor.by, actor.host.rpartition(":")[0] or actor.host, *self.where)


class RefusedAlike:
    """write: a refusal, and how often it came in all since the line before."""

    def __init__(self, timers: Timers, now: Callable[[], int], write: Callable[[Refusal, int], None]) -> None:
        self._timers = timers
        self._now = now
        self._write = write
        self._known: dict[tuple[str, ...], Refusal] = {}
        self._last: Refusal | None = None
        self._others = 0

    def record(self, refusal: Refusal) -> None:
        """One more."""
        known = self._known.get(refusal.kind)
        if known is not None:
            known.again += 1
            return
        if len(self._known) >= MOST_KINDS:
            self._others, self._last = self._others + 1, refusal
            return
        if not self._known:
            self._timers.at(self._now() + PERIOD_MS, self._end_period)
        self._known[refusal.kind] = refusal
        self._write(refusal, 1)

    def _end_period(self, now: int) -> None:
        self.write_rest()

    def write_rest(self) -> None:
        """Say what was counted."""
        known, self._known = self._known, {}
        for refusal in known.values():
            if refusal.again:
                self._write(refusal, refusal.again)
        if self._last is not None:
            self._write(self._last, self._others)
        self._last, self._others = None, 0

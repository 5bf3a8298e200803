"""Background: work that costs by the number of messages, queues, bindings or consumers, done in slices.

Nothing of that kind runs to its end in one turn, or everybody else waits for it. It becomes a job: a callable that does
one slice (some 100 microseconds at most) each time it is called and returns whether there is more to do. The jobs that
are there take turns, slice by slice, until the pace says that this turn has done enough; the rest goes on in the next.
Those of readers who are far behind come after all others, with a pace of their own (`add_behind`). Those that only
look, for somebody who may wait, have less of a turn, all together (`patient`): a pace of their own,
for as long as their request is young, and nothing of the turn in which it came, which reading it has lengthened.

Invariants:
1. A slice leaves everything whole: what it has settled, it has also published, in the same turn. A crash between two
   slices is a crash between two turns.
2. A job keeps no position that others can make wrong: it looks anew at each slice (is the queue still there?).
3. A job that waits for something is not here: it comes back with `add` when it has happened. So `work` ends.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

Job = Callable[[int], bool]

#: What a slice does, unless somebody wants smaller ones: some 100 microseconds.
SLICE = 128
#: So many slices of a turn may be done before its end, for those who look whether something has been done; and so many
#: of those that may come first have one at its end before others have theirs.
_MOST_AHEAD = 16
#: So long a request that may wait has the smaller share, milliseconds.
PATIENCE_MS = 300


class Pace(Protocol):
    """How long slices may go on in one turn."""

    def start(self) -> None:
        """The turn's first slice begins."""

    def goes_on(self) -> bool:
        """Whether another slice may follow in this turn."""


class Unhurried:
    """A Pace without an end, for drivers with nobody else to serve."""

    def start(self) -> None:
        """The turn's first slice begins."""

    def goes_on(self) -> bool:
        """There is always another."""
        return True


class Jobs(Protocol):
    """Where a job begins."""

    def add(self, job: Job) -> None:
        """`job(now)` does a slice and returns whether there is more."""


class Patient:
    """Jobs of a Background, all of one request, whose share of a turn is smaller until PATIENCE_MS after the turn in
    which it came: then they are as any others."""

    def __init__(self, background: Background) -> None:
        self._background = background
        self._until: int | None = None

    def add(self, job: Job) -> None:
        """See Jobs."""
        self._background.add(job)
        self._background.patient_jobs[job] = self
        self._background.record_arrival(job)

    def is_over(self, now: int) -> bool:
        """Whether its patience is."""
        if self._until is None:
            self._until = now + PATIENCE_MS
        return now >= self._until


class Background:
    """The jobs of a node, in the order in which they have their slices. jobs: for others to see whether there are any;
    always this object. slice: how much a slice is to do, in units of about a microsecond. patient_jobs: those that may
    wait, each with its request. fresh: those of them that came in the last turn, or in those that it was chained to.
    behind: the jobs of readers who are far behind; always this object."""

    def __init__(self, pace: Pace | None = None) -> None:
        self.jobs: deque[Job] = deque()
        self.slice = SLICE
        self.behind: deque[Job] = deque()
        self._spare_pace: Pace | None = None
        self._pace: Pace = pace or Unhurried()
        self._patience: Pace = Unhurried()
        self.patient_jobs: dict[Job, Patient] = {}
        self._arrived: set[Job] = set()  # of those, since the slices before
        self.fresh: set[Job] = set()
        self._is_chained = False
        self._ahead = _MOST_AHEAD
        #: The newest of the jobs, in their order: who asks for what they bring may have a slice done (`run_newest`),
        #: and they have their first before others. In `work` whatever goes behind them ends that.
        self._bringers: list[Job] = []
        self._is_running = False  # a slice
        self._is_working = False
        self._has_begun_patience = False

    def set_pace(self, pace: Pace) -> None:
        """From now on slices go on as long as this one says."""
        self._pace = pace

    def patient(self) -> Patient:
        """Where the jobs of a request begin that may wait: in the turn after the one in which they came."""
        return Patient(self)

    def record_arrival(self, job: Job) -> None:
        """One that may wait has come."""
        if not self._is_working:
            self._arrived.add(job)

    def set_patience(self, pace: Pace) -> None:
        """How long slices of those that may wait go on in a turn."""
        self._patience = pace

    def chain(self, is_chained: bool) -> None:
        """Whether the next turn follows upon another, before other input is read, and has what that has left of the
        share of those that may wait."""
        self._is_chained = is_chained
        if not is_chained:
            self._ahead = _MOST_AHEAD  # also where nothing is left for `work`

    def add_behind(self, job: Job) -> None:
        """`job(now)` as in `add`, for somebody who is far behind: where others are busy it has a share of the time. It
        is a job as any other as long as nobody knows whether they are."""
        if self._spare_pace is None:
            self.add(job)
        else:
            self.behind.append(job)

    def set_spare_pace(self, pace: Pace) -> None:
        """How long slices of those who are far behind go on in a turn; `work_behind` is called in each."""
        self._spare_pace = pace

    def work_behind(self, now: int) -> None:
        """The slices of those who are far behind, in turns, as long as their pace goes on."""
        behind, pace = self.behind, self._spare_pace
        while behind and pace is not None and pace.goes_on():
            job = behind.popleft()
            if job(now):
                behind.append(job)

    def add(self, job: Job, may_come_first: bool = False) -> None:
        """`job(now)` does a slice and returns whether there is more; its first slice comes at the end of this turn, or
        in `run_newest` if it may: it handles nothing of any connection. Who asks in a later turn for what that slice
        brings finds it, whatever else there is to do, unless very many such jobs came in the same turn before."""
        if may_come_first:
            self.jobs.append(job)
            self._bringers.append(job)
        elif self._is_working:
            self._add_last(job)
        else:
            self.jobs.insert(len(self.jobs) - len(self._bringers), job)

    def _add_last(self, job: Job) -> None:
        """In `work`: all others have a slice before."""
        self.jobs.append(job)
        self._bringers.clear()

    def remove(self, job: Job) -> None:
        """The rest of a job, if there is any, is not done."""
        if job in self._bringers:
            self._bringers.remove(job)
        if job in self.jobs:
            self.jobs.remove(job)
            self.patient_jobs.pop(job, None)

    def work(self, now: int) -> None:
        """The slices of a turn: at least one of each of the newest that may come first, up to a number of them, and one
        of the others."""
        jobs, bringers, pace = self.jobs, self._bringers, self._pace
        self._ahead = _MOST_AHEAD
        first = min(len(bringers), _MOST_AHEAD)
        others = [jobs.pop() for _ in range(len(bringers) - first)]
        jobs.rotate(first)
        jobs.extend(reversed(others))
        bringers.clear()
        least = first + (len(jobs) > first)
        self._is_running = self._is_working = True
        if not self._is_chained:
            self._has_begun_patience = False
            self.fresh.clear()
        if self._arrived:
            self.fresh |= self._arrived
            self._arrived.clear()
        pace.start()
        waiting: list[Job] = []
        try:
            while jobs:
                job = jobs.popleft()
                if len(bringers) > len(jobs):
                    del bringers[0]
                if self.patient_jobs and (request := self.patient_jobs.get(job)) is not None:
                    self._work_patiently(job, request, now, waiting)
                elif job(now):
                    self._add_last(job)
                least -= 1
                if least <= 0 and not pace.goes_on():
                    return
        finally:
            self._is_running = self._is_working = False
            for job in waiting:
                self.add(job)

    def _work_patiently(self, job: Job, request: Patient, now: int, waiting: list[Job]) -> None:
        """A slice of one that may wait, if this turn has any left for those; else it is among those that wait."""
        patience = self._patience
        if request.is_over(now):
            pass
        elif job in self.fresh:
            waiting.append(job)
            return
        elif not self._has_begun_patience:
            self._has_begun_patience = True
            patience.start()
        elif not patience.goes_on():
            waiting.append(job)
            return
        del self.patient_jobs[job]  # its slice may end with its being added again, when it has waited
        if job(now):
            request.add(job)

    def run_newest(self, now: int) -> bool:
        """A slice of the job that came last, if it may come first, before the turn ends: somebody asks for what it may
        bring. Returns whether there was one; not for long in one turn, nor out of a slice."""
        if not self._bringers or self._is_running or not self._ahead:
            return False
        self._ahead -= 1
        self._is_running = True
        job = self.jobs.pop()
        self._bringers.pop()
        try:
            if job(now):
                self.jobs.append(job)
                self._bringers.append(job)
        finally:
            self._is_running = False
        return True

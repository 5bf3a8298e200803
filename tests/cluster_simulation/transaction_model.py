"""TransactionModel: what docs/leases.md promises of txn.*, judged by what was asked and answered, and what came of it.

    T1  what comes from a sink was staged, and comes with its epoch: all that one commit has named, in its order
    T2  an epoch is committed once; whoever commits it again is told so, and nobody is told so without a cause
    T3  what was dropped, by `txn.abort` or another commit, never comes
    T4  epochs of one app come one after the other
    T5  each message comes once; a classic queue whose home is another node may have a blob again for each time that
        the app's home went down or lost its link to that node (docs/leases.md: "can repeat up to one blob in classic
        queues whose home is another node")
    T6  `gone` has a cause; attempts have numbers of their own, so nobody is fenced

Moments are those of transmission.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from tests.cluster_simulation.transmission import Transmission, succeeded_before
from tests.simulation.state import Violation


@dataclass(frozen=True, slots=True)
class Output:
    """A message that is staged, made of the message `source`. sinks: the queues that it is routed to."""

    number: int
    source: int
    sinks: tuple[str, ...]


@dataclass(slots=True, eq=False)
class Attempt:
    """blobs: what was staged, by sequence."""

    epoch: int
    partition: int
    number: int
    blobs: dict[int, Sequence[Output]] = field(default_factory=dict)
    stages: list[Transmission] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class AppHistory:
    """What was asked of one app."""

    name: str
    attempts: dict[tuple[int, int, int], Attempt] = field(default_factory=dict)
    commits: list[Transmission] = field(default_factory=list)
    aborts: list[Transmission] = field(default_factory=list)
    #: By epoch: the commit that was told that it has published it.
    winners: dict[int, Transmission] = field(default_factory=dict)

    def named(self, commit: Transmission) -> list[list[Output]]:
        """The blobs that a commit publishes, in order."""
        attempts = {int(partition): number for partition, number in commit.fields["attempts"].items()}
        blobs: list[list[Output]] = []
        for partition, number in sorted(attempts.items()):
            attempt = self.attempts.get((commit.fields["epoch"], partition, number))
            blobs += [list(attempt.blobs[each]) for each in sorted(attempt.blobs)] if attempt is not None else []
        return blobs


class TransactionModel:
    """See the module's docstring."""

    def __init__(self) -> None:
        self.apps: dict[str, AppHistory] = {}
        self.counts: Counter[str] = Counter()

    def app(self, name: str) -> AppHistory:
        """What was asked of an app."""
        found = self.apps.get(name)
        if found is None:
            found = self.apps[name] = AppHistory(name)
        return found

    # -- what is asked and answered ------------------------------------------------------------------------------------

    def staging(self, app: str, key: tuple[int, int, int], sequence: int, outputs: Sequence[Output]) -> None:
        """A task is going to stage these as a blob of an attempt: (epoch, partition, number)."""
        attempts = self.app(app).attempts
        attempts.setdefault(key, Attempt(*key)).blobs[sequence] = outputs

    def sent(self, transmission: Transmission) -> None:
        """A request is on its way, for the first time or again."""
        fields = transmission.fields
        if transmission.verb == "txn.stat":
            return
        app = self.app(fields["app"])
        if transmission.verb == "txn.stage":
            app.attempts[fields["epoch"], fields["partition"], fields["attempt"]].stages.append(transmission)
        else:
            (app.commits if transmission.verb == "txn.commit" else app.aborts).append(transmission)

    def answered(self, transmission: Transmission) -> None:
        """A request was answered, and not with `busy`. Raises Violation."""
        answer = transmission.answer
        assert answer is not None
        if answer.code not in ("ok", "gone"):
            raise Violation(f"{transmission} is answered {answer.code}: {answer.fields}")
        if transmission.verb == "txn.stage":
            self._staged(transmission)
        elif transmission.verb == "txn.commit":
            self._committed(transmission)
        elif not answer.is_ok:
            raise Violation(f"{transmission} is answered {answer.code}: {answer.fields}")

    def _is_committed(self, app: AppHistory, epoch: int, moment: int) -> bool:
        """Whether an epoch, or a later one, was committed for sure before a moment."""
        return any(each.fields["epoch"] >= epoch for each in succeeded_before(app.commits, moment))

    def _may_be_committed(self, app: AppHistory, epoch: int, but: Transmission | None = None) -> bool:
        return any(each.fields["epoch"] >= epoch and each is not but for each in app.commits)

    def _staged(self, transmission: Transmission) -> None:
        """T2 and T6."""
        answer, fields = transmission.answer, transmission.fields
        assert answer is not None
        app, epoch = self.app(fields["app"]), fields["epoch"]
        if answer.code == "gone":
            if not fields["sequence"] or not any(each.fields["epoch"] == epoch for each in app.aborts):
                raise Violation(f"{transmission} is answered {answer.fields}, and nobody has aborted it")
            self.counts["stages of what was aborted"] += 1
            return
        outputs = app.attempts[epoch, fields["partition"], fields["attempt"]].blobs[fields["sequence"]]
        if answer.fields["staged"] != len(outputs):
            raise Violation(f"{transmission} has {len(outputs)} messages, and is answered {answer.fields}")
        if answer.fields.get("again"):
            if not self._may_be_committed(app, epoch):
                raise Violation(f"{transmission} is committed already, and nobody has asked for that")
            self.counts["stages of what is committed"] += 1
        elif self._is_committed(app, epoch, transmission.sent_at):
            raise Violation(f"{transmission} is kept, and the epoch was committed")

    def _committed(self, transmission: Transmission) -> None:
        """T2, T3 and T6."""
        answer, fields = transmission.answer, transmission.fields
        assert answer is not None
        app, epoch = self.app(fields["app"]), fields["epoch"]
        if answer.code == "gone":
            if not any(each.fields["epoch"] == epoch for each in app.aborts):
                raise Violation(f"{transmission} is answered {answer.fields}, and nobody has aborted it")
            self.counts["commits of what was aborted"] += 1
            return
        if answer.fields.get("again"):
            if not self._may_be_committed(app, epoch, transmission):
                raise Violation(f"{transmission} was committed before, and nobody has asked for that")
            self.counts["committed again"] += 1
            return
        if self._is_committed(app, epoch, transmission.sent_at) or epoch in app.winners:
            raise Violation(f"{transmission} is published, and the epoch was committed before")
        self._check_dropped(app, transmission)
        count = sum(map(len, app.named(transmission)))
        if (answer.fields["published"], answer.fields["unroutable"]) != (count, 0):
            raise Violation(f"{transmission} has {count} messages, and is answered {answer.fields}")
        app.winners[epoch] = transmission
        self.counts["committed"] += 1

    def _check_dropped(self, app: AppHistory, commit: Transmission) -> None:
        """T3: nothing that was all staged before an abort was asked for, and that was answered before this was."""
        epoch = commit.fields["epoch"]
        for abort in succeeded_before(app.aborts, commit.sent_at):
            for partition, number in commit.fields["attempts"].items():
                attempt = app.attempts.get((epoch, int(partition), number))
                if abort.fields["epoch"] != epoch or attempt is None or not attempt.stages:
                    continue
                if all(each.ended_at < abort.sent_at for each in attempt.stages):
                    raise Violation(f"{commit} publishes attempt {number}, which was aborted")

    # -- the end -------------------------------------------------------------------------------------------------------

    def at_the_end(self, arrivals: Mapping[str, Sequence[int]], repeats: Mapping[tuple[str, str], int]) -> Counter[int]:
        """Everything has been taken from the sinks, in this order. repeats: (app, sink): how many blobs may have come
        there twice. Returns how often each source is in a committed epoch. Raises Violation."""
        origins: dict[int, tuple[AppHistory, int]] = {}
        for app in self.apps.values():
            for attempt in app.attempts.values():
                for outputs in attempt.blobs.values():
                    origins.update({output.number: (app, attempt.epoch) for output in outputs})
        seen: dict[tuple[str, int], set[tuple[str, int]]] = {}
        by_app: dict[tuple[str, str], list[int]] = {}
        for sink, numbers in arrivals.items():
            for number in numbers:
                if number not in origins:
                    raise Violation(f"message {number} comes from '{sink}', and nobody has staged it")
                app, epoch = origins[number]
                seen.setdefault((app.name, epoch), set()).add((sink, number))
                by_app.setdefault((app.name, sink), []).append(number)
        sources: Counter[int] = Counter()
        expected: dict[tuple[str, str], list[list[int]]] = {}
        for app in self.apps.values():
            epochs = {epoch for name, epoch in seen if name == app.name}
            epochs.update(each.fields["epoch"] for each in app.commits if each.has_succeeded)
            for epoch in sorted(epochs):
                blobs = self._published(app, epoch, seen.get((app.name, epoch), set()))
                sources.update(output.source for blob in blobs for output in blob)
                for blob in blobs:
                    for sink in arrivals:
                        numbers = [output.number for output in blob if sink in output.sinks]
                        expected.setdefault((app.name, sink), []).append(numbers)
        for (name, sink), wanted in expected.items():
            self._check_order(name, sink, by_app.get((name, sink), []), wanted, repeats.get((name, sink), 0))
        return sources

    def _published(self, app: AppHistory, epoch: int, seen: set[tuple[str, int]]) -> list[list[Output]]:
        """The blobs that are an epoch's: T1 to T3."""
        winner = app.winners.get(epoch)
        commits = [winner] if winner is not None else [each for each in app.commits if each.fields["epoch"] == epoch]
        for commit in commits:
            blobs = app.named(commit)
            if {(sink, output.number) for blob in blobs for output in blob for sink in output.sinks} == seen:
                self.counts["epochs published"] += 1
                return blobs
        asked = [str(each) for each in commits]
        raise Violation(f"app '{app.name}', epoch {epoch}: there came {sorted(seen)}, and that was not asked: {asked}")

    def _check_order(self, app: str, sink: str, found: list[int], blobs: list[list[int]], repeats: int) -> None:
        """T4 and T5."""
        wanted = [number for blob in blobs for number in blob]
        if found == wanted:
            self.counts["published in order"] += len(found)
            return
        times = Counter(found)
        more = [blob for blob in blobs if any(times[number] > 1 for number in blob)]
        extra = sum(max(times[number] for number in blob) - 1 for blob in more)
        if extra > repeats:
            raise Violation(f"app '{app}': {extra} blobs came again from '{sink}', {repeats} may have: {more}")
        if not extra:
            wrong = next((pair for pair in pairwise(found) if wanted.index(pair[0]) > wanted.index(pair[1])), None)
            raise Violation(f"app '{app}': from '{sink}' {wrong} came in another order than they were committed in")
        self.counts["blobs that came again"] += extra

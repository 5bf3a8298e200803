"""SharedEntries: what the other workers of a node have of a user's connections, and of a virtual host's.

    question  [[user, virtual host], ...]; the virtual host "": the user's channels
    answer    [counts, ...], in that order (entries.py: Counts)

Many users may ask at once: each question is for all that have come up since there was room for one, so that few are
open at a time and none has to be left out.

Who does not answer has none: a worker that has ended has lost them, and one whose loop stands still is not waited for
longer than for any question. All workers of a node are of one version.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final

from amqp_broker.connection.entries import NOBODY, Counts
from amqp_broker.management.access import Asker
from amqp_broker.settings.workers import are_beside
from amqp_broker.turn.completion import Completion
from amqp_broker.turn.task import Steps, Task

if TYPE_CHECKING:
    from amqp_broker.management.node_counts import NodeCounts
    from amqp_broker.management.peer_questions import PeerQuestions
    from amqp_broker.management.request import Request

_VERB: Final = "entries"
#: So many questions are open at a time, for so many users each.
_MOST_OPEN: Final = 8
_MOST_PAIRS: Final = 256
#: So many of them are looked at in one slice.
_SLICE: Final = 32


class _Pair(Completion[Counts]):
    """A user and a virtual host of whom somebody waits to hear."""

    def __init__(self, user: str, vhost: str) -> None:
        super().__init__()
        self.names = (user, vhost)


class SharedEntries:
    """See the module's docstring."""

    def __init__(self, counts: NodeCounts, peers: PeerQuestions) -> None:
        self._entries = counts.entries
        self._background = counts.broker.background
        self._peers = peers
        self._nobody = Asker(counts.broker.metadata, "", ())
        self._pending: deque[_Pair] = deque()
        self._open = 0
        if counts.config.has_workers:
            self._entries.ask_with(self._ask, self._background)
            peers.serve({_VERB: self._serve})

    def _ask(self, user: str, vhost: str) -> _Pair:
        pair = _Pair(user, vhost)
        self._pending.append(pair)
        self._send()
        return pair

    def _send(self) -> None:
        if self._open < _MOST_OPEN and self._pending:
            self._open += 1
            pairs = [self._pending.popleft() for _ in range(min(_MOST_PAIRS, len(self._pending)))]
            Task(self._background, self._sum(pairs)).when_done(partial(self._hear, pairs))

    def _sum(self, pairs: list[_Pair]) -> Steps:
        """Its result: what the others have, for each of them."""
        peers = self._peers
        beside = [name for name in peers.others() if are_beside(name, peers.own_node)]
        asked = {"pairs": [list(pair.names) for pair in pairs]}
        answers = yield from peers.ask_all(beside, _VERB, asked, self._nobody)
        sums = [NOBODY] * len(pairs)
        for answer in answers.values():
            if answer is not None:
                counts = answer.fields["counts"]
                sums = [known.plus(Counts(*each)) for known, each in zip(sums, counts, strict=True)]
        return sums

    def _hear(self, pairs: list[_Pair], sums: list[Counts] | None) -> None:
        """None: a defect, which is logged."""
        self._open -= 1
        for number, pair in enumerate(pairs):
            pair.complete(NOBODY if sums is None else sums[number])
        self._send()

    def _serve(self, request: Request) -> Steps:
        counts = []
        for number, (user, vhost) in enumerate(request.fields["pairs"], 1):
            counts.append(list(self._entries.counts(user, vhost)))
            if number % _SLICE == 0:
                yield None
        return {"counts": counts}, ""

"""SharedEntries: what the other workers of a node have of a user's connections, and of a virtual host's.

Who does not answer has none: a worker that has ended has lost them, and one whose loop stands still is not waited for
longer than for any question. All workers of a node are of one version.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from amqp_broker.connection.entries import NOBODY, Counts
from amqp_broker.management.access import Asker
from amqp_broker.settings.workers import are_beside
from amqp_broker.turn.task import Steps, Task

if TYPE_CHECKING:
    from amqp_broker.management.node_counts import NodeCounts
    from amqp_broker.management.peer_questions import PeerQuestions
    from amqp_broker.management.request import Request

_VERB: Final = "entries"


class SharedEntries:
    """See the module's docstring."""

    def __init__(self, counts: NodeCounts, peers: PeerQuestions) -> None:
        self._entries = counts.entries
        self._background = counts.broker.background
        self._peers = peers
        self._nobody = Asker(counts.broker.metadata, "", ())
        if counts.config.has_workers:
            self._entries.ask_with(self._ask)
            peers.serve({_VERB: self._serve})

    def _ask(self, user: str, vhost: str) -> Task:
        return Task(self._background, self._sum(user, vhost))

    def _sum(self, user: str, vhost: str) -> Steps:
        peers = self._peers
        beside = [name for name in peers.others() if are_beside(name, peers.own_node)]
        answers = yield from peers.ask_all(beside, _VERB, {"user": user, "vhost": vhost}, self._nobody)
        found = NOBODY
        for answer in answers.values():
            if answer is not None:
                found = found.plus(Counts(*answer.fields["counts"]))
        return found

    def _serve(self, request: Request) -> Steps:
        return {"counts": list(self._entries.counts(request.text("user"), request.text("vhost")))}, ""
        yield

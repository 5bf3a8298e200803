"""StatisticsVerb: `statistics`: what the asked process counts, and what each of a node of several does."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from amqp_broker.management.request import Request
from amqp_broker.management.statistics import count_node
from amqp_broker.settings.workers import node_of_worker, worker_number
from amqp_broker.turn.task import Steps

if TYPE_CHECKING:
    from amqp_broker.management.node_counts import NodeCounts
    from amqp_broker.management.peer_questions import PeerQuestions


class StatisticsVerb:
    """See the module's docstring."""

    def __init__(self, counts: NodeCounts, peers: PeerQuestions) -> None:
        self._counts = counts
        self._peers = peers
        self.verbs: dict[str, Callable[[Request], Steps]] = {
            "statistics": self._statistics,
        }
        peers.serve({"statistics": self._serve})

    def _statistics(self, request: Request) -> Steps:
        """`statistics`, and of a node of several workers `workers`, in order: each with its number in `worker`, and
        only that if it does not answer."""
        own = yield from count_node(self._counts)
        if not self._counts.config.has_workers:
            return {"statistics": own}
        peers = self._peers
        name = peers.own_node
        host = node_of_worker(name)
        beside = [each for each in peers.others() if node_of_worker(each) == host]
        answers = yield from peers.ask_all(beside, "statistics", {}, request.asker)
        said = {each: {} if answer is None else answer.fields for each, answer in answers.items()} | {name: own}
        workers = [{"worker": worker_number(each), **said[each]} for each in sorted(said, key=worker_number)]
        return {"statistics": own, "workers": workers}

    def _serve(self, request: Request) -> Steps:
        found = yield from count_node(self._counts)
        return found, ""

"""TransientQueues: those that go with their node are deleted a few at a time, before it is said that they are gone.

    delete -> what the log has already is applied -> queue.delete of a few -> applied here -> of the next few -> ...
           -> node.started, or node.gone

The last of these takes along all that the node has, within one entry of the log: each member spends one turn on that,
whatever the number. So whoever is about to propose it deletes the queues first, in entries of their own, and it finds
few or none left. What it promises does not depend on this: a proposer that ends meanwhile leaves the rest to the next
one, and to the command.
"""

from __future__ import annotations

from collections.abc import Callable

from amqp_broker.metadata import commands
from amqp_broker.metadata.commands import Command
from amqp_broker.metadata.metadata import Metadata
from amqp_broker.metadata.stream import Proposal, Then

#: So many queues are on their way to be deleted: some batches of the stream, each of which is an entry of its own. The
#: next ones wait until these are applied.
AHEAD = 80

Propose = Callable[[Command, Then | None], Proposal]


def _always() -> bool:
    return True


class _Round:
    """Of one node. below: ids of queues that are there at its beginning, 0 before that. newest: what it has proposed
    last."""

    def __init__(
        self, node: str, last: Command, then: Then | None, goes_on: Callable[[], bool], newest: Proposal
    ) -> None:
        self.node = node
        self.last = last
        self.then = then
        self.goes_on = goes_on
        self.below = 0
        self.newest = newest


class TransientQueues:
    """propose: as Replication's. Of each node one round goes on at a time."""

    def __init__(self, metadata: Metadata, propose: Propose) -> None:
        self._metadata = metadata
        self._propose = propose
        self._rounds: dict[str, _Round] = {}

    def delete(
        self, node: str, last: Command, then: Then | None = None, goes_on: Callable[[], bool] = _always
    ) -> None:
        """Delete what the node had, and propose the last command behind that, whose result `then` is told. goes_on:
        asked between the pieces; where it says no, the rest stays, and the last command is not proposed."""
        if node not in self._rounds:
            # A command that changes nothing: when it is applied, so is all from which the node's queues are known.
            barrier = self._propose(commands.reserve_queue_ids(1), None)
            self._rounds[node] = _Round(node, last, then, goes_on, barrier)

    def applied(self, number: int) -> None:
        """This node has applied its own commands up to this number."""
        for each in list(self._rounds.values()):
            if each.newest.number <= number:
                self._go_on(each)

    def _go_on(self, each: _Round) -> None:
        goes_on = each.goes_on()
        each.below = each.below or self._metadata.next_queue_id
        queues = self._metadata.some_transients(each.node, AHEAD, each.below) if goes_on else []
        for queue in queues:
            each.newest = self._propose(commands.delete_queue(queue.vhost, queue.name, queue.queue_id), None)
        if not queues:
            del self._rounds[each.node]
            if goes_on:
                self._propose(each.last, each.then)

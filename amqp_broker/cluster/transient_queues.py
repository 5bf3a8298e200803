"""TransientQueues: those that go with their node are deleted a few at a time, before it is said that they are gone.

`node.started` and `node.gone` take along all that their node had, within one entry of the log: each member spends one
turn on that, whatever the number. So whoever is about to propose one of them deletes the queues first, in entries of
their own, and the command finds few or none left. What it promises does not depend on this: a proposer that ends
meanwhile leaves the rest to the next one, and to the command.
"""

from __future__ import annotations

from collections.abc import Callable

from amqp_broker.metadata import commands
from amqp_broker.metadata.commands import Command
from amqp_broker.metadata.metadata import Metadata
from amqp_broker.metadata.stream import Proposal, Then

#: So many queues are on their way to be deleted: some batches of the stream, each of which is an entry of its own. The
#: next ones wait until the members have applied these.
AHEAD = 80


def _always() -> bool:
    return True


class TransientQueues:
    """propose: as Replication's. Of each node one round goes on at a time."""

    def __init__(self, metadata: Metadata, propose: Callable[[Command, Then | None], Proposal]) -> None:
        self._metadata = metadata
        self._propose = propose
        self._going: dict[str, None] = {}

    def delete(
        self, node: str, last: Command, then: Then | None = None, goes_on: Callable[[], bool] = _always
    ) -> None:
        """Delete what the node had, and propose the last command behind that, whose result `then` is told. goes_on:
        asked between the pieces; where it says no, the rest stays, and the last command is not proposed."""
        if node not in self._going:
            self._going[node] = None
            self._go_on(node, last, then, goes_on)

    def _go_on(self, node: str, last: Command, then: Then | None, goes_on: Callable[[], bool]) -> None:
        queues = self._metadata.some_transients(node, AHEAD) if goes_on() else []
        for queue in queues[:-1]:
            self._propose(commands.delete_queue(queue.vhost, queue.name, queue.queue_id), None)
        if queues:
            queue = queues[-1]
            self._propose(
                commands.delete_queue(queue.vhost, queue.name, queue.queue_id),
                lambda result: self._go_on(node, last, then, goes_on),
            )
            return
        del self._going[node]
        if goes_on():
            self._propose(last, then)

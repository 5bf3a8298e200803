"""TransientQueues: those that go with their node are deleted a few at a time, before it is said that they are gone.

    delete -> what the log has already is applied -> queue.delete of a few -> applied here -> of the next few -> ...
           -> node.started, or node.gone

The last of these takes along all that the node has, within one entry of the log: each member spends one turn on that,
whatever the number. So whoever is about to propose it deletes the queues first, in entries of their own, and it finds
few or none left. What it promises does not depend on this: a proposer that ends meanwhile leaves the rest to the next
one, and to the command.

An auto-delete exchange goes with its last binding, and where queues are deleted, who has them deleted sees to that: by
what it has of them at run time (vhosts/projection.py). A node that starts has nothing yet, so that here the metadata
are asked: which of them led to the queues, and whether they lead anywhere still.
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
#: No more queues are deleted with them when so many exchanges are known that led to those that are.
_MOST_SOURCES = 256
#: A command that changes nothing.
_NOTHING = commands.reserve_queue_ids(1)

Propose = Callable[[Command, Then | None], Proposal]


def _always() -> bool:
    return True


class _Round:
    """Of one node. is_starting: it is this one. below: ids of queues that are there at its beginning, 0 before that.
    newest: what it has proposed last. sources: auto-delete exchanges, virtual host and name, that have lost a binding,
    and maybe the last one, where nobody else sees to that."""

    def __init__(
        self, node: str, last: Command, then: Then | None, goes_on: Callable[[], bool], is_starting: bool,
        newest: Proposal,
    ) -> None:  # fmt: skip
        self.node = node
        self.last = last
        self.then = then
        self.goes_on = goes_on
        self.is_starting = is_starting
        self.below = 0
        self.newest = newest
        self.sources: dict[tuple[str, str], None] = {}

    def note(self, vhost: str, exchanges: list[str]) -> None:
        """They lose a binding."""
        self.sources.update(dict.fromkeys([(vhost, name) for name in exchanges]))


class TransientQueues:
    """propose: as Replication's. Of each node one round goes on at a time."""

    def __init__(self, metadata: Metadata, propose: Propose) -> None:
        self._metadata = metadata
        self._propose = propose
        self._rounds: dict[str, _Round] = {}

    def delete(
        self,
        node: str,
        last: Command,
        then: Then | None = None,
        *,
        goes_on: Callable[[], bool] = _always,
        is_starting: bool = False,
    ) -> None:
        """Delete what the node had, and propose the last command behind that, whose result `then` is told. goes_on:
        asked between the pieces; where it says no, the rest stays, and the last command is not proposed. is_starting:
        it is this node, which has no exchanges yet at run time."""
        if node not in self._rounds:
            # When it is applied, so is all from which the node's queues are known.
            self._rounds[node] = _Round(node, last, then, goes_on, is_starting, self._propose(_NOTHING, None))

    def applied(self, number: int) -> None:
        """This node has applied its own commands up to this number."""
        for each in list(self._rounds.values()):
            if each.newest.number <= number:
                self._go_on(each)

    def _go_on(self, each: _Round) -> None:
        goes_on = each.goes_on()
        each.below = each.below or self._metadata.next_queue_id
        if not goes_on or not (self._delete_some(each) or self._delete_abandoned(each)):
            del self._rounds[each.node]
            if goes_on:
                self._propose(each.last, each.then)

    def _delete_some(self, each: _Round) -> bool:
        """The next queues. Returns whether there were any."""
        queues, looked = self._metadata.some_transients(each.node, AHEAD, each.below), len(each.sources)
        for queue in queues:
            if each.is_starting and len(each.sources) - looked < _MOST_SOURCES:
                each.note(queue.vhost, self._metadata.may_go_with_queue(queue.vhost, queue.name))
            elif each.is_starting:
                break
            each.newest = self._propose(commands.delete_queue(queue.vhost, queue.name, queue.queue_id), None)
        return bool(queues)

    def _delete_abandoned(self, each: _Round) -> bool:
        """The next exchanges that lead nowhere any more; what led to these is looked at behind them. Returns whether
        there were any that might."""
        if not each.sources:
            return False
        metadata, before = self._metadata, each.newest
        some = [each.sources.popitem()[0] for _ in range(min(AHEAD, len(each.sources)))]
        for vhost, name in some:
            exchange = metadata.exchange(vhost, name)
            if exchange is not None and exchange.auto_delete and not metadata.is_source(vhost, name):
                each.note(vhost, metadata.may_go_with_exchange(vhost, name))
                each.newest = self._propose(commands.delete_exchange(vhost, name), None)
        if each.newest is before:
            each.newest = self._propose(_NOTHING, None)
        return True

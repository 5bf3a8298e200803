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

Exchanges that are not durable belong to no node: they are there as long as one of them is. A node that is all there is
to agree deletes them where it starts as a whole (`with_exchanges`); in a cluster they stay until somebody deletes them.
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
#: So many exchanges and virtual hosts are looked at in one turn.
_LOOKED_AT = 4096
#: A command that changes nothing.
_NOTHING = commands.reserve_queue_ids(1)

Propose = Callable[[Command, Then | None], Proposal]


def _always() -> bool:
    return True


class _Round:
    """Of one node. is_starting: it is this one. below: ids of queues that are there at its beginning, 0 before that.
    newest: what it has proposed last. sources: auto-delete exchanges, virtual host and name, that have lost a binding,
    and maybe the last one, where nobody else sees to that. exchanges: virtual host and name of some that are to go;
    with_exchanges: there may be more, in the virtual hosts `vhosts`, in the last of these behind `place`."""

    def __init__(
        self, node: str, last: Command, then: Then | None, goes_on: Callable[[], bool], is_starting: bool,
        with_exchanges: bool, newest: Proposal,
    ) -> None:  # fmt: skip
        self.node = node
        self.last = last
        self.then = then
        self.goes_on = goes_on
        self.is_starting = is_starting
        self.below = 0
        self.newest = newest
        self.sources: dict[tuple[str, str], None] = {}
        self.exchanges: list[tuple[str, str]] = []
        self.with_exchanges = with_exchanges
        self.vhosts: list[str] = []
        self.place = 0

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
        with_exchanges: bool = False,
    ) -> None:
        """Delete what the node had, and propose the last command behind that, whose result `then` is told. goes_on:
        asked between the pieces; where it says no, the rest stays, and the last command is not proposed. is_starting:
        it is this node, which has no exchanges yet at run time. with_exchanges: and it is all there is, so that
        exchanges that are not durable go, too."""
        if node not in self._rounds:
            # When it is applied, so is all from which the node's queues are known.
            newest = self._propose(_NOTHING, None)
            self._rounds[node] = _Round(node, last, then, goes_on, is_starting, with_exchanges, newest)

    def applied(self, number: int) -> None:
        """This node has applied its own commands up to this number."""
        for each in list(self._rounds.values()):
            if each.newest.number <= number:
                self._go_on(each)

    def _go_on(self, each: _Round) -> None:
        goes_on = each.goes_on()
        if not each.below:
            each.below = self._metadata.next_queue_id
            each.vhosts = [vhost.name for vhost in self._metadata.vhosts()] if each.with_exchanges else []
        if not goes_on or not (
            self._delete_some(each) or self._delete_exchanges(each) or self._delete_abandoned(each)
        ):
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

    def _delete_exchanges(self, each: _Round) -> bool:
        """The next exchanges that are not durable. Returns whether there were any, or may be more."""
        if not each.exchanges:
            self._look_for_exchanges(each)
        metadata, before = self._metadata, each.newest
        for vhost, name in each.exchanges[-AHEAD:]:
            each.note(vhost, metadata.may_go_with_exchange(vhost, name))
            each.newest = self._propose(commands.delete_exchange(vhost, name), None)
        del each.exchanges[-AHEAD:]
        if each.vhosts and each.newest is before:
            each.newest = self._propose(_NOTHING, None)
        return each.newest is not before

    def _look_for_exchanges(self, each: _Round) -> None:
        """A slice of all exchanges."""
        left = _LOOKED_AT
        while each.vhosts and left > 0:
            vhost = each.vhosts[-1]
            each.place, found = self._metadata.exchanges_after(vhost, each.place, left)
            each.exchanges += [(vhost, exchange.name) for exchange in found if not exchange.durable]
            left -= 1 + len(found)
            if left >= 0:  # there were no more
                each.vhosts.pop()
                each.place = 0

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

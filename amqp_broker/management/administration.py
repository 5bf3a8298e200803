"""Administration: metadata commands for whoever administers the broker (system.py), and for definitions.

AMQP's own declarations go through vhosts/declarations.py, which checks what a client may do. What a command does at run
time is in vhosts/projection.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_broker.management.refused import not_found
from amqp_broker.metadata import commands
from amqp_broker.metadata.commands import Command
from amqp_broker.metadata.stream import Proposal
from amqp_broker.protocol.fields import decode_table
from amqp_broker.queue_types.register import lives_in_groups
from amqp_broker.turn.task import Steps, Task
from amqp_broker.vhosts.declarations import is_client_local

if TYPE_CHECKING:
    from amqp_broker.cluster.replication import Replication
    from amqp_broker.management.request import Request
    from amqp_broker.routing.vhost import VHost
    from amqp_broker.vhosts.broker import Broker


class Administration:
    """Proposes commands; the caller has checked that they make sense. Finds what requests name."""

    def __init__(self, broker: Broker, replication: Replication) -> None:
        self._broker = broker
        self._metadata = broker.metadata
        self._vhosts = broker.vhosts
        self._replication = replication
        self._placement = broker.placement

    def execute(self, command: Command) -> Proposal:
        """Propose one command. Returns what has to be applied before it is reported done. A queue that is to
        live on one node, and is said to live nowhere, lives on this node: at the worker where it would be if a client
        declared it."""
        if command["op"] == "queue.declare" and not lives_in_groups(command["type"]) and not command.get("home"):
            is_own = is_client_local(decode_table(commands.decode_arguments(command["arguments_raw"])))
            command = {**command, "home": self._placement.home_of_new(is_own, may_start=True)}
        return self._replication.propose(command)

    def carry_out(self, *asked: Command) -> Steps:
        """Done when they are applied, and true at run time."""
        proposals = [self.execute(command) for command in asked]
        yield proposals[-1]
        for proposal in proposals:
            if isinstance(proposal.result, Task):
                yield proposal.result
        return {}

    def settled(self) -> Steps:
        """Wait until all is applied that this node has proposed: what is asked of the metadata then is not about to be
        changed from here."""
        while (last := self._broker.unsettled_proposal()) is not None:
            yield last

    # -- what a request names ------------------------------------------------------------------------------------------

    def vhost(self, request: Request, key: str = "vhost") -> VHost:
        """Raises Refused, ValueError."""
        name = request.text(key)
        vhost = self._vhosts.get(name)
        if vhost is None:
            raise not_found("vhost", name)
        return vhost

    def changed_vhost(self, request: Request) -> str:
        """The name of one in which the user may change things."""
        name = self.vhost(request).name
        request.asker.check_vhost(name, changes=True)
        return name

    def user(self, request: Request, key: str = "user") -> str:
        """The name of one. Raises Refused, ValueError."""
        name = request.text(key)
        if self._metadata.user(name) is None:
            raise not_found("user", name)
        return name

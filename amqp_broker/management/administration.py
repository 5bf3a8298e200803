"""Administration: metadata commands for whoever administers the broker (system.py), and for definitions.

AMQP's own declarations go through vhosts/declarations.py, which checks what a client may do. What a command does at run
time is in vhosts/projection.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_broker.metadata.commands import Command
from amqp_broker.metadata.stream import Proposal
from amqp_broker.queue_types.register import lives_in_groups

if TYPE_CHECKING:
    from amqp_broker.cluster.replication import Replication


class Administration:
    """Proposes commands. The caller has checked that they make sense."""

    def __init__(self, replication: Replication) -> None:
        self._replication = replication

    def execute(self, command: Command) -> Proposal:
        """Propose one command. Returns what has to be applied before it is reported done. A queue that is to
        live on one node, and is said to live nowhere, lives on this node."""
        if command["op"] == "queue.declare" and not lives_in_groups(command["type"]):
            command = {**command, "home": command.get("home") or self._replication.own_node}
        return self._replication.propose(command)

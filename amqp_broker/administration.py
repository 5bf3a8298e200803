"""Administration: metadata commands carried out on a running node: written, applied, and made true at run time.

AMQP's own declarations go through declarations.py, which checks what a client may do; this is for whoever administers
the broker (system.py) and for definitions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_broker.cluster.commands import Command, decode_arguments
from amqp_broker.declared import QueueDeclaration
from amqp_broker.protocol.constants import ReplyCode
from amqp_broker.protocol.fields import decode_table
from exchanges.bindings import Destination

if TYPE_CHECKING:
    from amqp_broker.node import Node


class Administration:
    """Carries out commands. The caller has checked that they make sense."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def execute(self, command: Command) -> int:
        """Carry out one command. Returns the ticket that has to be synced before it is reported done."""
        broker = self._node.broker
        subject = command["op"].partition(".")[0]
        if command["op"] == "vhost.put":
            fields = {key: value for key, value in command.items() if key not in ("op", "vhost")}
            return broker.put_vhost(command["vhost"], **fields)
        if command["op"] == "vhost.delete":
            return self._delete_vhost(command["vhost"])
        if subject in ("exchange", "queue", "binding"):
            self._change(command)
        ticket = broker.propose(command)
        if subject in ("user", "permission", "topic_permission"):
            broker.access_changed()
            if command["op"] == "user.delete":
                self._close_connections(user=command["user"])
        elif subject in ("policy", "operator_policy"):
            broker.apply_policies(broker.vhosts[command["vhost"]])
        return ticket

    def _delete_vhost(self, name: str) -> int:
        self._close_connections(vhost=name)
        return self._node.broker.delete_vhost(name)

    def _close_connections(self, vhost: str | None = None, user: str | None = None) -> None:
        for connection in list(self._node.connections.values()):
            session = connection.session
            if session is None or connection.vhost is None:
                continue
            if session.vhost == vhost:
                self._node.control.close(connection, ReplyCode.CONNECTION_FORCED, f"vhost '{vhost}' is deleted")
            elif session.user == user:
                self._node.control.close(connection, ReplyCode.CONNECTION_FORCED, f"user '{user}' is deleted")

    def _change(self, command: Command) -> None:
        """The run-time side of a command on an exchange, a queue or a binding. Raises ValueError."""
        broker = self._node.broker
        vhost = broker.vhosts[command["vhost"]]
        op = command["op"]
        if op == "exchange.declare":
            if vhost.router.get(command["name"]) is None:
                arguments = decode_table(decode_arguments(command["arguments_raw"]))
                broker.add_exchange(
                    vhost,
                    command["name"],
                    command["type"],
                    True,
                    command["auto_delete"],
                    command["internal"],
                    arguments,
                )
        elif op == "queue.declare":
            if command["name"] not in vhost.queues:
                arguments = decode_table(decode_arguments(command["arguments_raw"]))
                declaration = QueueDeclaration(
                    command["name"], True, command["auto_delete"], None, arguments, vhost.name
                )
                broker.add_queue(vhost, declaration, command["queue_id"])
        elif op in ("binding.add", "binding.remove"):
            destination = Destination(command["destination_kind"], command["destination"])
            arguments = decode_table(decode_arguments(command["arguments_raw"]))
            change = vhost.router.bind if op == "binding.add" else vhost.router.unbind
            change(command["source"], destination, command["binding_key"], arguments)
            vhost.changed()
        elif op == "exchange.delete":
            broker.declarations.remove_exchange(vhost, command["name"])
        elif op == "queue.delete" and command["name"] in vhost.queues:
            broker.declarations.remove_queue(vhost, vhost.queues[command["name"]])

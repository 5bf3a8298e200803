"""Projection: makes what the metadata say true at run time: virtual hosts, exchanges, queues, bindings, policies.

It is told of every command that was applied, on every node in the same order; runtime objects that the metadata know
are made here only. What a node removes by itself (an expired queue, an abandoned exchange) it removes at once and
proposes; the command then finds nothing left to do.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from amqp_broker.metadata.commands import Command, decode_arguments
from amqp_broker.metadata.partitions import partition_name
from amqp_broker.protocol.fields import decode_table
from amqp_broker.queue_types.register import UnsupportedQueueType
from amqp_broker.turn.task import Steps, Task
from amqp_broker.vhosts.rehomed import take_place
from exchanges.bindings import EXCHANGE, Destination
from queues.arguments import ArgumentError, WrongArgument

if TYPE_CHECKING:
    from amqp_broker.metadata.entities import QueueRecord
    from amqp_broker.metadata.metadata import Metadata
    from amqp_broker.routing.vhost import VHost
    from amqp_broker.vhosts.broker import Broker
    from amqp_broker.vhosts.declarations import Declarations

log = logging.getLogger("amqp_broker.cluster")


class Projection:
    """is_live: the virtual hosts were built (Broker.start); before that, there is nothing to be kept true.

    close_vhost: the steps that end the connections to a virtual host; close_user: ends those of the user of that name.
    """

    def __init__(
        self,
        broker: Broker,
        metadata: Metadata,
        vhosts: dict[str, VHost],
        declarations: Declarations,
        close_vhost: Callable[[VHost], Steps],
        close_user: Callable[[str], None],
    ) -> None:
        self._broker = broker
        self._metadata = metadata
        self._vhosts = vhosts
        self._declarations = declarations
        self._close_vhost = close_vhost
        self._close_user = close_user
        self.is_live = False

    def go_live(self) -> None:
        """The virtual hosts were built: they are kept true from now on."""
        self.is_live = True

    def applied(self, command: Command, changed: bool, is_own: bool) -> object:
        """A command was applied. is_own: it came from this node, in this run. Returns what its proposer is told: for
        most whether anything changed; for what is made true in slices, the Task of that."""
        subject, _, verb = command["op"].partition(".")
        dropped = self._metadata.take_dropped()
        if not self.is_live or not changed:
            return changed
        try:
            if subject == "vhost":
                return self._vhost(verb, command["vhost"], is_own) or changed
            elif subject in ("user", "permission", "topic_permission"):
                self._broker.access_changed(command["user"], command.get("vhost"))
                if command["op"] == "user.delete":
                    self._close_user(command["user"])
            elif subject in ("policy", "operator_policy"):
                vhost = self._vhosts.get(command["vhost"])
                if vhost is not None:
                    return self._broker.apply_policies(vhost)
            elif subject == "partitions":
                if command["vhost"] in self._vhosts:
                    self._broker.add_partitions(self._vhosts[command["vhost"]], command["name"])
            elif subject in ("exchange", "queue", "binding"):
                self._declared(subject, verb, command, is_own)
            elif subject in ("node", "member"):
                self._drop(dropped, is_own)
            elif subject == "level":
                self._apply_all_policies()  # some of what they say the level before did not know
        except (ArgumentError, UnsupportedQueueType, WrongArgument, ValueError) as error:
            # It was checked by who proposed it: maybe a newer version. The others are not to stop because of it.
            log.error("%s is in the metadata and cannot be carried out here: %s", command, error)
        return changed

    def _apply_all_policies(self) -> None:
        for vhost in self._vhosts.values():
            self._broker.apply_policies(vhost)

    def replaced(self) -> None:
        """Everything may differ."""
        if not self.is_live:
            return
        known = {record.name for record in self._metadata.vhosts()}
        for name in [name for name in self._vhosts if name not in known]:
            self._vhost("delete", name, is_own=False)
        self._drop_missing()
        for record in self._metadata.vhosts():
            self._complete(record.name)
        for vhost in self._vhosts.values():
            vhost.changed()  # users and permissions may have, too

    # -- virtual hosts -------------------------------------------------------------------------------------------------

    def _vhost(self, verb: str, name: str, is_own: bool) -> Task | None:
        broker = self._broker
        if verb == "put" and name not in self._vhosts:
            broker.build_vhost(name)
        elif verb == "delete" and name in self._vhosts:
            return broker.forget_vhost(name, is_own, self._close_vhost)
        return None

    # -- what is declared ----------------------------------------------------------------------------------------------

    def _declared(self, subject: str, verb: str, command: Command, is_own: bool) -> None:
        broker = self._broker
        vhost = self._vhosts.get(command["vhost"])
        if vhost is None:
            return
        if subject == "binding":
            self._bind(vhost, verb, command, is_own)
        elif verb == "declare":
            name = command["name"]
            if subject == "exchange":
                record = self._metadata.exchange(vhost.name, name)
                if record is not None and vhost.router.get(name) is None:
                    broker.add_exchange(
                        vhost, name, record.type, record.durable, record.auto_delete, record.internal,
                        decode_table(record.arguments_raw),
                    )  # fmt: skip
            else:
                queue_record = self._metadata.queue(vhost.name, name)
                if queue_record is not None:
                    broker.add_recorded_queue(vhost, queue_record)
        elif verb == "rehome":
            moved = self._metadata.queue(vhost.name, command["name"])
            if moved is not None:
                take_place(broker, vhost, moved, command["queue_id"])
        elif subject == "exchange":
            self._clean_up(vhost, broker.forget_exchange(vhost, command["name"]), is_own)
        else:
            self._clean_up(vhost, broker.forget_recorded_queue(vhost, command["name"], command["queue_id"]), is_own)
            for number, queue_id in enumerate(command.get("partition_ids", ())):
                part = partition_name(command["name"], number)
                self._clean_up(vhost, broker.forget_recorded_queue(vhost, part, queue_id), is_own)

    def _bind(self, vhost: VHost, verb: str, command: Command, is_own: bool) -> None:
        destination = Destination(command["destination_kind"], command["destination"])
        arguments = decode_table(decode_arguments(command["arguments_raw"]))
        source, key = command["source"], command["binding_key"]
        if vhost.router.get(source) is None:
            return
        if verb == "add":
            # What was removed here meanwhile has a command of its own on its way, and takes the binding along.
            if self._is_there(vhost, destination):
                vhost.router.bind(source, destination, key, arguments)
        elif vhost.router.unbind(source, destination, key, arguments):
            self._clean_up(vhost, [source], is_own)

    def _is_there(self, vhost: VHost, destination: Destination) -> bool:
        """Whether what the metadata have under this name is there at run time, too."""
        if destination.kind == EXCHANGE:
            return vhost.router.get(destination.name) is not None
        record = self._metadata.queue(vhost.name, destination.name)
        return record is not None and vhost.queues.has(record)

    def _clean_up(self, vhost: VHost, sources: list[str], is_own: bool) -> None:
        """Exchanges that lost their last binding: the node that removed it proposes their end."""
        if is_own:
            self._declarations.remove_abandoned(vhost, sources)

    def _drop(self, queues: list[QueueRecord], is_own: bool) -> None:
        """They went with the node that they lived on: all at once, as for the other nodes, and for those who declare
        one of the same name next."""
        for queue in queues:
            vhost = self._vhosts.get(queue.vhost)
            if vhost is not None:
                self._clean_up(vhost, self._broker.forget_recorded_queue(vhost, queue.name, queue.queue_id), is_own)

    def _drop_missing(self) -> None:
        """What is there at run time and not in the metadata any more, or is there as another."""
        broker = self._broker
        for vhost in list(self._vhosts.values()):
            for entry in [vhost.queues.entry(name) for name in vhost.queues]:
                assert entry is not None  # it is a name of the table
                record = self._metadata.queue(vhost.name, entry.name)
                if not broker.is_recorded(entry) or (record is not None and record.queue_id == entry.queue_id):
                    continue
                made = vhost.queues.made(entry.name)
                if record is not None and made is not None and made.writes.is_held:
                    take_place(broker, vhost, record, entry.queue_id)  # it was about to move, and has
                else:
                    broker.forget_recorded_queue(vhost, entry.name, entry.queue_id)
            for exchange in vhost.router.entries():
                if exchange.durable and self._metadata.exchange(vhost.name, exchange.name) is None:
                    broker.forget_exchange(vhost, exchange.name)

    def _complete(self, name: str) -> None:
        """What the metadata have of a virtual host, and is not there."""
        broker = self._broker
        vhost = self._vhosts.get(name)
        if vhost is None:
            broker.build_vhost(name)
            return
        for record in self._metadata.exchanges(name):
            if vhost.router.get(record.name) is None:
                broker.add_exchange(
                    vhost, record.name, record.type, record.durable, record.auto_delete, record.internal,
                    decode_table(record.arguments_raw),
                )  # fmt: skip
        for queue_record in self._metadata.queues(name):
            broker.add_recorded_queue(vhost, queue_record)
        wanted = self._metadata.bindings(name)
        known = {
            (each.source, each.destination_kind, each.destination, each.binding_key, each.arguments_raw)
            for each in wanted
        }
        for source, binding in vhost.router.bindings():
            entry = vhost.router.get(source)
            raw = getattr(binding.arguments, "raw", b"")
            ends = (source, binding.destination.kind, binding.destination.name, binding.binding_key, raw)
            if ends not in known and entry is not None and broker.is_recorded_binding(vhost, source, binding):
                vhost.router.unbind(source, binding.destination, binding.binding_key, binding.arguments)
        for each in wanted:
            vhost.router.bind(
                each.source,
                Destination(each.destination_kind, each.destination),
                each.binding_key,
                decode_table(each.arguments_raw),
            )
        broker.apply_policies(vhost)

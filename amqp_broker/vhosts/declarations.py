"""Declarations: declare, delete, bind, unbind and purge inside one virtual host, with RabbitMQ's rules and texts.

The order of checks is part of what clients know: permission, reserved names, existence, exclusive lock, equivalence.

What others have to know, or has to survive a restart, is a command. To make something is asked for with `Wanted`: the
caller proposes its command and asks again when that is applied, and then it is there (or is somebody else's, and
differs). What is removed goes at once, and its Proposal is returned: the client is answered when that is applied.
"""

from __future__ import annotations

import base64
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from amqp_broker.auth.permissions import Action
from amqp_broker.errors import (
    ChannelException,
    ConnectionException,
    inequivalent,
    locked,
    not_found,
    precondition_failed,
)
from amqp_broker.metadata import commands
from amqp_broker.metadata.entities import BindingRecord
from amqp_broker.protocol.constants import ReplyCode
from amqp_broker.protocol.fields import Table, decode_table
from amqp_broker.queue_types.contract.declaration import (
    QueueDeclaration,
    check_equivalent_argument,
    check_equivalent_flag,
    check_equivalent_queue,
    kind_name,
)
from amqp_broker.queue_types.contract.own_words import OwnWords
from amqp_broker.queue_types.contract.queue_type import Declared
from amqp_broker.queue_types.register import QUEUE_TYPES, asked_type
from amqp_broker.routing.reply_to import REPLY_PREFIX, REPLY_TO
from amqp_broker.turn.task import Awaited, Steps, Task
from amqp_broker.vhosts.names import plain_name
from amqp_broker.vhosts.partitioning import partition
from exchanges.bindings import EXCHANGE, QUEUE, Destination
from exchanges.delayed import DelayedExchange
from exchanges.registry import EXCHANGE_TYPES, PREDECLARED, create_exchange
from exchanges.router import ExchangeEntry
from queues.arguments import ArgumentError, WrongArgument
from queues.stream.source import source_of

if TYPE_CHECKING:
    from amqp_broker.flow.declarer import Declarer
    from amqp_broker.metadata.stream import Proposal
    from amqp_broker.protocol import methods
    from amqp_broker.routing.vhost import VHost
    from amqp_broker.vhosts.broker import Broker
    from queues.queue import Queue

_RESERVED = "amq."
_PREDECLARED = {each.name for each in PREDECLARED}

#: A text names so many queues at most.
_NAMED = 5
#: So many queues are deleted in one slice.
_QUEUES_AT_ONCE = 16
#: So many exchanges are deleted in one slice.
_EXCHANGES_AT_ONCE = 64


class Wanted(NamedTuple):
    """This command has to be applied first."""

    command: commands.Command


class Declarations:
    """The verbs on exchanges, queues and bindings, for AMQP and for whoever administers the broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._metadata = broker.metadata
        self._reply_consumers = broker.reply_consumers
        self._clock = broker.clock
        self._condemned: set[Queue] = set()

    # -- queues --------------------------------------------------------------------------------------------------

    def _look_up(self, vhost: VHost, name: str) -> Queue | None:
        """The queue of that name; None where there is none, or one that is condemned, which goes now."""
        queue = vhost.queues.get(name)
        if queue is None or queue not in self._condemned:
            return queue
        self.remove_queue(vhost, queue)
        return None

    def find_queue(self, declarer: Declarer, name: str) -> Queue:
        """The queue of that name, if this declarer may touch it. Raises ChannelException (404, 405)."""
        vhost = declarer.vhost
        queue = self._look_up(vhost, name)
        if queue is None:
            raise not_found("queue", name, vhost.name)
        owner = queue.declaration.owner
        if owner is not None and owner is not declarer:
            raise locked(name, vhost.name)
        return queue

    def declare_queue(self, declarer: Declarer, method: methods.QueueDeclare) -> tuple[str, Queue | Wanted | None]:
        """queue.declare. Returns the name, and the queue (None for the reply pseudo-queue) or what is wanted first.
        Raises ChannelException."""
        vhost, session = declarer.vhost, declarer.session
        name = plain_name(method.queue)
        if name == REPLY_TO or name.startswith(REPLY_PREFIX):
            if name != REPLY_TO and not self._reply_consumers.may_exist(name):
                raise not_found("queue", name, vhost.name)
            return name, None
        if method.passive:
            session.check_any("queue", name)
            asked = self.find_queue(declarer, name)
            asked.mark_used(self._clock.now)
            return name, asked
        is_durable = method.durable and not method.exclusive
        present = self._look_up(vhost, name) if name else None
        if present is not None:
            session.check(Action.CONFIGURE, "queue", name)
            self._check_same_queue(declarer, present, method, is_durable)
            present.mark_used(self._clock.now)
            self._broker.count_declared()
            return name, present
        if not name:
            name = "amq.gen-" + base64.urlsafe_b64encode(self._broker.random_bytes(16)).decode().rstrip("=")
        elif name.startswith(_RESERVED):
            raise ChannelException(ReplyCode.ACCESS_REFUSED, f"queue name '{name}' contains reserved prefix 'amq.*'")
        session.check(Action.CONFIGURE, "queue", name)
        return self._add_queue(declarer, name, self._check_arguments(declarer, name, method), method, is_durable)

    def _check_same_queue(
        self, declarer: Declarer, queue: Queue, method: methods.QueueDeclare, is_durable: bool
    ) -> None:
        declaration = queue.declaration
        owner = declaration.owner
        if (owner is not None and owner is not declarer) or (owner is not None) != method.exclusive:
            raise locked(queue.name, declarer.vhost.name)
        is_lasting = is_durable and not method.auto_delete
        default = self._broker.default_queue_type(declarer.vhost.name, is_lasting)
        queue_type = QUEUE_TYPES[declaration.type]
        said = queue_type.as_declared(method.arguments, declaration.arguments)
        check_equivalent_queue(
            declaration, is_durable, method.auto_delete, said, default, queue_type.own_arguments
        )

    def _check_arguments(self, declarer: Declarer, name: str, method: methods.QueueDeclare) -> str:
        """Values of the arguments, and the permissions that dead-lettering needs. Returns the type of the queue."""
        vhost, session = declarer.vhost, declarer.session
        is_lasting = method.durable and not method.exclusive and not method.auto_delete
        try:
            kind = asked_type(method.arguments, self._broker.default_queue_type(vhost.name, is_lasting))
            declared = Declared(method.queue, vhost.name, method.durable, method.exclusive, method.auto_delete)
            QUEUE_TYPES[kind].check(declared)
            settings = QUEUE_TYPES[kind].read(method.arguments)
        except OwnWords as error:
            raise precondition_failed(error.text) from None
        except WrongArgument as error:
            raise precondition_failed(
                f"invalid arg '{error.key}' for queue '{name}' in vhost '{vhost.name}' of queue type {error.queue_type}"
            ) from None
        except ArgumentError as error:
            if error.is_name:
                raise precondition_failed(
                    f"invalid type '{kind_name(method.arguments, error.key)}' for arg '{error.key}' in queue '{name}' "
                    f"in vhost '{vhost.name}'"
                ) from None
            raise precondition_failed(
                f"invalid arg '{error.key}' for queue '{name}' in vhost '{vhost.name}': {error.reason}"
            ) from None
        source = QUEUE_TYPES[kind].made_of(method.arguments)
        if source is not None:
            self._check_source(declarer, name, source)
        if settings.dead_letter_exchange is not None:
            session.check(Action.READ, "queue", name)
            session.check(Action.WRITE, "exchange", settings.dead_letter_exchange)
        return kind

    def _check_source(self, declarer: Declarer, name: str, source: str) -> None:
        """A queue is to be made of another one, which has to be a stream, and readable."""
        vhost = declarer.vhost
        declarer.session.check(Action.READ, "queue", source)
        stream = self._look_up(vhost, source)
        if stream is not None and (which := stream.which_partition()):
            raise precondition_failed(
                f"cannot declare queue '{name}' in vhost '{vhost.name}': x-stream-source names '{source}', which has "
                f"{which}"
            )
        found = source_of(stream) if stream is not None else None
        if found is None:
            raise precondition_failed(
                f"cannot declare queue '{name}' in vhost '{vhost.name}': x-stream-source names '{source}', and there "
                f"is no stream of this name: declare that first"
            )
        if found.is_compacted():
            raise precondition_failed(
                f"cannot declare queue '{name}' in vhost '{vhost.name}': x-stream-source names '{source}', which is "
                f"compacted, by each node for itself, so that no queue over it is the same on all: consume the stream"
            )

    def _add_queue(
        self, declarer: Declarer, name: str, kind: str, method: methods.QueueDeclare, is_durable: bool
    ) -> tuple[str, Queue | Wanted]:
        broker, vhost = self._broker, declarer.vhost
        partitions = QUEUE_TYPES[kind].partitions(method.arguments)
        self._check_queue_limits(vhost, name, 1 + partitions)
        self._check_level(vhost, name, kind, method.arguments)
        broker.count_created()
        if partitions:
            return name, Wanted(partition(broker, vhost, name, kind, method.arguments))
        if is_durable or broker.is_clustered:
            queue_type = broker.types[kind]
            is_own = method.exclusive or method.auto_delete or not method.queue or is_client_local(method.arguments)
            home = "" if queue_type.lives_in_groups else broker.placement.home_of_new(is_own)
            if not broker.metadata.may_be_home(home):
                text = f"node '{home}' is no member of the cluster any more: connect to another one"
                raise ConnectionException(ReplyCode.CONNECTION_FORCED, text)
            if method.exclusive:
                broker.owners[vhost.name, name] = declarer
            lowest = broker.metadata.next_queue_id
            command = commands.declare_queue(
                vhost.name,
                name,
                queue_type.next_queue_id(lowest, vhost.name, name, method.arguments),
                type_name=kind,
                auto_delete=method.auto_delete,
                arguments_raw=method.arguments.raw,
                durable=is_durable,
                exclusive=method.exclusive,
                home=home,
            )
            return name, Wanted(command)
        owner = declarer if method.exclusive else None
        declaration = QueueDeclaration(name, False, method.auto_delete, owner, method.arguments, vhost.name, kind)
        queue = broker.add_queue(vhost, declaration)
        broker.count_declared()
        if method.exclusive:
            declarer.own(queue)
        return name, queue

    def _check_level(self, vhost: VHost, name: str, kind: str, arguments: Table) -> None:
        level, since = self._broker.level, QUEUE_TYPES[kind].since_with(arguments)
        if level < since:
            such = "such queues" if level >= QUEUE_TYPES[kind].since else f"queues of type {kind}"
            raise precondition_failed(
                f"cannot declare queue '{name}' in vhost '{vhost.name}': {such} can be had when all "
                f"members of the cluster speak level {since}, and it is at level {level}: upgrade the others first"
            )

    def _check_queue_limits(self, vhost: VHost, name: str, more: int) -> None:
        broker = self._broker
        if broker.queue_count + more > broker.config.max_queues:
            raise precondition_failed(
                f"cannot declare a queue: the node's limit of {broker.config.max_queues} queues (max_queues) is reached"
            )
        record = broker.metadata.vhost(vhost.name)
        limit = record.limits.get("max-queues", -1) if record is not None else -1
        if 0 <= limit < len(vhost.queues) + more:
            raise precondition_failed(
                f"cannot declare queue '{name}': "
                f"queue limit in vhost '{vhost.name}' ({limit}) is reached"
            )

    def delete_queue(
        self, declarer: Declarer, name: str, if_unused: bool, if_empty: bool
    ) -> tuple[int, Proposal | None]:
        """queue.delete. Returns how many messages were ready, and what has to be applied before the answer. A missing
        queue is no error."""
        vhost = declarer.vhost
        declarer.session.check(Action.CONFIGURE, "queue", name)
        if self._look_up(vhost, name) is None:
            return 0, self._broker.unsettled_proposal()
        queue = self.find_queue(declarer, name)
        whole = queue.declaration.part_of
        if whole and whole in vhost.queues:
            raise precondition_failed(
                f"queue '{name}' in vhost '{vhost.name}' is a partition of '{whole}', and goes with it: delete that one"
            )
        if if_unused and queue.consumer_count() and not queue.keeps_messages:
            raise precondition_failed(f"queue '{name}' in vhost '{vhost.name}' in use")
        if if_empty and queue.message_count() + queue.delayed_count() and not queue.keeps_messages:
            raise precondition_failed(f"queue '{name}' in vhost '{vhost.name}' not empty")
        followers = queue.made_of_it()
        if followers:
            names = ", ".join(f"'{each}'" for each in followers[:_NAMED])
            more = f" and {len(followers) - _NAMED} more" if len(followers) > _NAMED else ""
            raise precondition_failed(
                f"cannot delete queue '{name}' in vhost '{vhost.name}': it has the messages of {names}{more}: delete "
                f"these queues first"
            )
        return self.remove_queue(vhost, queue)

    def check_delete(self, declarer: Declarer, name: str) -> None:
        """Whether this declarer may delete the queue, if there is one. Raises ChannelException."""
        declarer.session.check(Action.CONFIGURE, "queue", name)
        if self._look_up(declarer.vhost, name) is not None:
            self.find_queue(declarer, name)

    def remove_queue(self, vhost: VHost, queue: Queue) -> tuple[int, Proposal | None]:
        """Delete a queue for whatever reason. Returns how many messages were ready, and what makes it true for good."""
        broker = self._broker
        self._condemned.discard(queue)
        parts = queue.partitions()
        removed = vhost.router.remove_queue(queue.name)
        count = broker.forget_queue(vhost, queue)
        for part in parts:
            removed += vhost.router.remove_queue(part.name)
            broker.forget_queue(vhost, part)
        broker.count_deleted(queue)
        proposal = None
        if broker.is_recorded(queue):
            ids = [part.queue_id for part in parts]
            proposal = broker.propose(commands.delete_queue(vhost.name, queue.name, queue.queue_id, ids))
        return count, self.remove_abandoned(vhost, removed) or proposal

    def remove_queues(self, vhost: VHost, queues: list[Queue]) -> Awaited | None:
        """Delete queues whose connection or last consumer is gone: very many in slices. What is left of them meanwhile
        is gone for all that look for it here. Returns what is done when other nodes and workers know it too; None: now,
        as they never knew the queues."""
        if len(queues) > _QUEUES_AT_ONCE:
            self._condemned.update(queues)
            return Task(self._broker.background, self._remove_condemned(vhost, queues))
        proposal = None
        for queue in queues:
            proposal = self.remove_queue(vhost, queue)[1] or proposal
        return proposal

    def _remove_condemned(self, vhost: VHost, queues: list[Queue]) -> Steps:
        left, proposal = deque(queues), None
        queues.clear()  # each is let go of in its slice
        while left:
            for _ in range(min(_QUEUES_AT_ONCE, len(left))):
                queue = left.popleft()
                if queue in self._condemned:
                    self._condemned.discard(queue)
                    is_there = vhost.queues.made(queue.name) is queue
                    if is_there and self._broker.has(vhost):
                        proposal = self.remove_queue(vhost, queue)[1] or proposal
            yield None
        if proposal is not None and not proposal.is_done:
            yield proposal

    def remove_abandoned(self, vhost: VHost, sources: list[str]) -> Proposal | None:
        """Those of the exchanges go that are auto-delete and have lost their last binding: very many in slices. Returns
        the last of the proposals that are made at once."""
        pending = deque(name for name in sources if vhost.router.is_abandoned(name))
        proposal = self._remove_some_abandoned(vhost, pending)
        if pending:
            Task(self._broker.background, self._remove_all_abandoned(vhost, pending))
        return proposal

    def _remove_all_abandoned(self, vhost: VHost, pending: deque[str]) -> Steps:
        while pending and self._broker.has(vhost):
            self._remove_some_abandoned(vhost, pending)
            yield None

    def _remove_some_abandoned(self, vhost: VHost, pending: deque[str]) -> Proposal | None:
        """The first of them, and those that are abandoned then are added. Returns the last of the proposals."""
        proposal = None
        for _ in range(_EXCHANGES_AT_ONCE):
            if not pending:
                break
            name = pending.popleft()
            if vhost.router.is_abandoned(name):
                last, more = self._remove_one(vhost, name)
                proposal = last or proposal
                pending += more
        return proposal

    def find_purged(self, declarer: Declarer, name: str) -> Queue:
        """The queue that queue.purge means. Raises ChannelException."""
        declarer.session.check(Action.READ, "queue", name)
        return self.find_queue(declarer, name)

    # -- exchanges -----------------------------------------------------------------------------------------------

    def declare_exchange(self, declarer: Declarer, method: methods.ExchangeDeclare) -> Wanted | None:
        """exchange.declare. Returns what is wanted before the answer. Raises ChannelException."""
        broker, vhost, session = self._broker, declarer.vhost, declarer.session
        name = plain_name(method.exchange)
        if not name:
            raise _default_exchange()
        if method.passive:
            session.check_any("exchange", name)
            if vhost.router.get(name) is None:
                raise not_found("exchange", name, vhost.name)
            return None
        session.check(Action.CONFIGURE, "exchange", name)
        if method.type not in EXCHANGE_TYPES:
            raise precondition_failed(f"invalid exchange type '{method.type}'")
        entry = vhost.router.get(name)
        if entry is not None:
            self._check_same_exchange(vhost, entry, method)
            return None
        if name.startswith(_RESERVED):
            raise ChannelException(ReplyCode.ACCESS_REFUSED, f"exchange name '{name}' contains reserved prefix 'amq.*'")
        self._check_alternate(declarer, name, method.arguments)
        most = broker.config.max_exchanges
        if sum(each.router.declared_count for each in broker.vhosts.values()) >= most:
            raise precondition_failed(
                f"cannot declare an exchange: the node's limit of {most} exchanges (max_exchanges) is reached"
            )
        try:
            if method.durable or broker.is_clustered:
                create_exchange(method.type, method.arguments)
                return Wanted(
                    commands.declare_exchange(
                        vhost.name,
                        name,
                        method.type,
                        auto_delete=method.auto_delete,
                        internal=method.internal,
                        arguments_raw=method.arguments.raw,
                        durable=method.durable,
                        numbered=method.durable and method.type == DelayedExchange.type_name,
                    )
                )
            broker.add_exchange(
                vhost, name, method.type, method.durable, method.auto_delete, method.internal, method.arguments
            )
        except ValueError as error:
            raise precondition_failed(f"exchange '{name}' in vhost '{vhost.name}': {error}") from None
        return None

    def _check_alternate(self, declarer: Declarer, name: str, arguments: Table) -> None:
        alternate = arguments.get("alternate-exchange")
        if alternate is None:
            return
        if not isinstance(alternate, str):
            raise precondition_failed(
                f"invalid type '{kind_name(arguments, 'alternate-exchange')}' for arg 'alternate-exchange' in exchange "
                f"'{name}' in vhost '{declarer.vhost.name}'"
            )
        declarer.session.check(Action.READ, "exchange", name)
        declarer.session.check(Action.WRITE, "exchange", alternate)

    def _check_same_exchange(self, vhost: VHost, entry: ExchangeEntry, method: methods.ExchangeDeclare) -> None:
        name = entry.name
        if method.type != entry.exchange.type_name:
            raise inequivalent(
                "type", "exchange", name, vhost.name, f"'{method.type}'", f"'{entry.exchange.type_name}'"
            )
        check_equivalent_flag("durable", "exchange", name, vhost.name, method.durable, entry.durable)
        check_equivalent_flag("auto_delete", "exchange", name, vhost.name, method.auto_delete, entry.auto_delete)
        check_equivalent_flag("internal", "exchange", name, vhost.name, method.internal, entry.internal)
        arguments = entry.arguments if isinstance(entry.arguments, Table) else Table({}, b"")
        check_equivalent_argument("alternate-exchange", "exchange", name, vhost.name, method.arguments, arguments)

    def delete_exchange(self, declarer: Declarer, name: str, if_unused: bool) -> Proposal | None:
        """exchange.delete. Returns what has to be applied before the answer. A missing exchange is no error."""
        vhost = declarer.vhost
        if not name:
            raise _default_exchange()
        declarer.session.check(Action.CONFIGURE, "exchange", name)
        if name in _PREDECLARED or name.startswith(_RESERVED):
            raise ChannelException(
                ReplyCode.ACCESS_REFUSED, f"deletion of system exchange '{name}' in vhost '{vhost.name}' not allowed"
            )
        entry = vhost.router.get(name)
        if entry is None:
            return self._broker.unsettled_proposal()
        if if_unused and not entry.exchange.is_unused:
            raise precondition_failed(f"exchange '{name}' in vhost '{vhost.name}' in use")
        return self.remove_exchange(vhost, name)

    def remove_exchange(self, vhost: VHost, name: str) -> Proposal | None:
        """Delete an exchange for whatever reason. Returns what makes it true for good."""
        proposal, sources = self._remove_one(vhost, name)
        return self.remove_abandoned(vhost, sources) or proposal

    def _remove_one(self, vhost: VHost, name: str) -> tuple[Proposal | None, list[str]]:
        """An exchange goes, and no other with it. Returns what makes it true for good, and which were bound to it."""
        broker = self._broker
        if vhost.router.get(name) is None:
            return None, []
        sources = broker.forget_exchange(vhost, name)
        if broker.metadata.exchange(vhost.name, name) is None:
            return None, sources
        return broker.propose(commands.delete_exchange(vhost.name, name)), sources

    # -- bindings ------------------------------------------------------------------------------------------------

    def bind(
        self, declarer: Declarer, destination: Destination, source: str, key: str, arguments: Table
    ) -> Wanted | None:
        """queue.bind and exchange.bind. Returns what is wanted before the answer."""
        broker, vhost = self._broker, declarer.vhost
        self._check_binding(declarer, destination, source, key, True)
        entry = vhost.router.get(source)
        assert entry is not None
        if destination.kind == EXCHANGE and vhost.router.get(destination.name) is None:
            raise not_found("exchange", destination.name, vhost.name)
        if entry.exchange.has_binding(destination, key, arguments):
            return None
        most = broker.config.max_bindings
        if sum(each.router.binding_count for each in broker.vhosts.values()) >= most:
            raise precondition_failed(f"cannot bind: the node's limit of {most} bindings (max_bindings) is reached")
        try:
            if self._has_records(vhost, entry, destination):
                entry.exchange.check_binding(key, arguments)
                record = BindingRecord(source, destination.kind, destination.name, key, arguments.raw)
                return Wanted(commands.add_binding(vhost.name, record))
            vhost.router.bind(source, destination, key, arguments)
        except ValueError as error:
            raise precondition_failed(str(error)) from None
        return None

    def unbind(
        self, declarer: Declarer, destination: Destination, source: str, key: str, arguments: Table
    ) -> Proposal | None:
        """queue.unbind and exchange.unbind. Returns what has to be applied before the answer. What is not there is no
        error."""
        vhost = declarer.vhost
        self._check_binding(declarer, destination, source, key, False)
        if vhost.router.get(source) is None or (
            destination.kind == EXCHANGE and vhost.router.get(destination.name) is None
        ):
            return None
        record = self._find_record(vhost, destination, source, key, arguments)
        if not vhost.router.unbind(source, destination, key, arguments):
            return None
        proposal = None
        if record is not None:
            proposal = self._broker.propose(commands.remove_binding(vhost.name, record))
        if vhost.router.is_abandoned(source):
            return self.remove_exchange(vhost, source) or proposal
        return proposal

    def _find_record(
        self, vhost: VHost, destination: Destination, source: str, key: str, arguments: Table
    ) -> BindingRecord | None:
        """The durable binding that equals this one, whose octets may differ."""
        for record in self._metadata.bindings_to(vhost.name, destination.kind, destination.name):
            if (record.source, record.binding_key) == (source, key) and (
                record.arguments_raw == arguments.raw or dict(decode_table(record.arguments_raw)) == dict(arguments)
            ):
                return record
        return None

    def _check_binding(
        self, declarer: Declarer, destination: Destination, source: str, key: str, is_required: bool
    ) -> None:
        """Permissions and existence; a missing source is an error only where it `is_required`."""
        session, vhost = declarer.session, declarer.vhost
        if not source or (destination.kind == EXCHANGE and not destination.name):
            raise _default_exchange()
        if destination.kind == QUEUE and destination.name.startswith(REPLY_TO):
            raise ChannelException(ReplyCode.ACCESS_REFUSED, f"queue '{destination.name}' cannot be bound")
        session.check(Action.WRITE, destination.kind, destination.name)
        session.check(Action.READ, "exchange", source)
        entry = vhost.router.get(source)
        if entry is None and is_required:
            raise not_found("exchange", source, vhost.name)
        if destination.kind == QUEUE:
            self.find_queue(declarer, destination.name)
        is_topic = entry is not None and entry.exchange.type_name == "topic"
        if is_topic and not session.allows_topic(Action.READ, source, key):
            raise ChannelException(
                ReplyCode.ACCESS_REFUSED,
                f"read access to topic '{key}' in exchange '{source}' in vhost '{vhost.name}' "
                f"refused for user '{session.user}'",
            )

    def _has_records(self, vhost: VHost, entry: ExchangeEntry, destination: Destination) -> bool:
        """Whether the metadata know both ends of a binding, and so have to know it too."""
        metadata = self._metadata
        if metadata.exchange(vhost.name, entry.name) is None:
            return False
        if destination.kind == QUEUE:
            record = metadata.queue(vhost.name, destination.name)
            return record is not None and vhost.queues.has(record)
        return metadata.exchange(vhost.name, destination.name) is not None


def _default_exchange() -> ChannelException:
    return ChannelException(ReplyCode.ACCESS_REFUSED, "operation not permitted on the default exchange")


def is_client_local(arguments: Table) -> bool:
    """Whether a classic queue is to live where it is declared."""
    return arguments.get("x-queue-master-locator") == "client-local"

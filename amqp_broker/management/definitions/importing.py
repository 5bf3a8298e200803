"""Imports RabbitMQ's definitions: from their JSON to the commands that bring the metadata there.

As in RabbitMQ, users, vhosts, permissions, parameters and policies are set to what the file says;
exchanges, queues and bindings that are there stay as they are; nothing is deleted. What cannot be taken
over without loss of meaning is an error, and then nothing is imported; what needs no import (predeclared
and transient things) is noted.

A plan is made item by item, in steps that end where the broker may do something else; passwords in clear come first, as
work for another thread.

Invariants:
1. The commands, applied in order to the metadata they were made for, all change something: importing
   again is empty.
2. Every error names its place in the file.
3. There is no command before all items were read: where one is wrong, nothing is imported.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple, overload

from amqp_broker.auth import passwords
from amqp_broker.auth.passwords import NewPassword
from amqp_broker.auth.patterns import PatternError
from amqp_broker.auth.permissions import check_pattern
from amqp_broker.auth.service_account import check_user_name
from amqp_broker.links.levels import DELETION_PROTECTION
from amqp_broker.management.definitions.exporting import LIMITS_PARAMETER, OPERATOR_POLICY, SCRYPT_ALGORITHM
from amqp_broker.management.definitions.reading import DefinitionsError, Entry
from amqp_broker.metadata import commands
from amqp_broker.metadata.cluster_identity import CLUSTER_NAME, INTERNAL, check_cluster_name
from amqp_broker.metadata.commands import Command
from amqp_broker.metadata.entities import DEFAULT_TYPE, BindingRecord, ExchangeRecord, QueueRecord
from amqp_broker.metadata.metadata import Metadata
from amqp_broker.metadata.partitions import can_be_named, partition_name
from amqp_broker.protocol.constants import MAX_SHORT_STRING
from amqp_broker.protocol.fields import decode_table
from amqp_broker.queue_types.contract.queue_type import WrongProperty
from amqp_broker.queue_types.quorum.cursor_arguments import SOURCE
from amqp_broker.queue_types.register import QUEUE_TYPES, asked_type, lives_in_groups, type_named
from amqp_broker.queue_types.stream.arguments import COMPACT, PARTITIONS
from amqp_broker.turn.letting_go import SLICE, let_go
from amqp_broker.vhosts.policies import PolicyError, check_policy, effective_policies, keys_without_effect
from exchanges.bindings import EXCHANGE, QUEUE, Identity, identity
from exchanges.delayed import DelayedExchange
from exchanges.exchange import Exchange
from exchanges.registry import create_exchange
from queues.arguments import ArgumentError, WrongArgument
from queues.stream.shares import MOST_PARTITIONS

if TYPE_CHECKING:
    from amqp_broker.protocol.fields import Table
    from amqp_broker.protocol.json_values import JsonObject
    from amqp_broker.vhosts.broker import Broker

VHOST_LIMITS: Final = ("max-connections", "max-queues")
USER_LIMITS: Final = ("max-connections", "max-channels")
ADMINISTRATOR: Final = "administrator"
_RESERVED_PREFIX: Final = "amq."
_NOT_DURABLE: Final = "is not durable; whoever needs it declares it"
_INSIDE_VHOSTS: Final = ("exchanges", "policies", "parameters", "queues", "bindings")
#: The field of a virtual host, and why it may have to wait.
PROTECTED: Final = "protected_from_deletion"
NOT_PROTECTED_YET: Final = (
    "a virtual host cannot be protected from deletion before all members of the cluster are of this version: upgrade "
    "them, and ask again"
)
DEFAULT_ALGORITHM: Final = "rabbit_password_hashing_sha256"

End = tuple[str, str, str]
"""Vhost, kind and name of one end of a binding."""


class Items(Sequence[Entry]):
    """The entries of a category, made as they are asked for."""

    def __init__(self, category: str, items: list[object]) -> None:
        self._category = category
        self._items = items

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, index: int) -> Entry: ...
    @overload
    def __getitem__(self, index: slice) -> list[Entry]: ...

    def __getitem__(self, index: int | slice) -> Entry | list[Entry]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        return Entry(f"{self._category}[{index}]", self._items[index])


@dataclass(frozen=True, slots=True)
class ImportPlan:
    """The commands of an import, and what was left out and why, for the log."""

    commands: list[Command] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class Bounds(NamedTuple):
    """What the node that imports allows: its groups of queues, which are numbered from 0 on; how many partitions a
    stream may have, and how many more queues there may be. groups_of_size: those of its groups that are on so many
    nodes, or come next to it; 0: all."""

    queue_groups: int = 1
    max_partitions: int = MOST_PARTITIONS
    room: int = sys.maxsize
    groups_of_size: Callable[[int], Sequence[int]] = lambda size: (0,)


#: Of a node of which nothing is known.
ANY: Final = Bounds()


def bounds_of(broker: Broker) -> Bounds:
    """Of a node."""
    groups, config = broker.groups, broker.config
    return Bounds(
        len(groups.all),
        config.max_stream_partitions,
        config.max_queues - broker.queue_count,
        lambda size: [each - 1 for each in (groups.groups_of_size(size) if groups.has_lists else groups.all)],
    )


#: What a step of an import may need first: that this work is run, anywhere.
Steps = Iterator[NewPassword | None]


def import_commands(
    definitions: object,
    metadata: Metadata,
    random_bytes: passwords.RandomBytes,
    *,
    vhost: str | None = None,
    bounds: Bounds = ANY,
) -> list[Command]:
    """The commands of `plan_import` alone."""
    return plan_import(definitions, metadata, random_bytes, vhost=vhost, bounds=bounds).commands


def _in_order(items: Items) -> Iterator[Entry]:
    """The entries as they stand, but queues that are made of others behind those."""
    later = []
    for entry in items:
        arguments = entry.get("arguments")
        if isinstance(arguments, dict) and SOURCE in arguments:
            later.append(entry)
        else:
            yield entry
    yield from later


def plan_import(
    definitions: object,
    metadata: Metadata,
    random_bytes: passwords.RandomBytes,
    *,
    vhost: str | None = None,
    bounds: Bounds = ANY,
) -> ImportPlan:
    """The plan of an Importer, made at once, passwords included. Raises DefinitionsError (a ValueError)."""
    importer = Importer(definitions, metadata, random_bytes, vhost=vhost, bounds=bounds)
    for work in importer.steps():
        if work is not None:
            work.run()
    return importer.plan


class Importer:
    """Plans what brings `metadata` to what `definitions` (decoded JSON) say; `metadata` itself stays as it is.

    With `vhost`, everything that lives in a vhost goes into that one, whatever vhost it names, and the rest is left
    out. `random_bytes` gives salts for users with a password in clear. bounds: of the node that they are for. Each
    command is applied to a draft of the metadata: what changes nothing there is not needed.
    """

    def __init__(
        self,
        definitions: object,
        metadata: Metadata,
        random_bytes: passwords.RandomBytes,
        *,
        vhost: str | None = None,
        bounds: Bounds = ANY,
    ) -> None:
        self.plan = ImportPlan()
        self._definitions = definitions
        self._before = metadata
        self._state = Metadata()
        self._random_bytes = random_bytes
        self._vhost = vhost
        self._bounds = bounds
        self._placed = 0
        self._room = bounds.room
        self._new_passwords: dict[str, NewPassword] = {}
        self._left_out: set[End] = set()
        self._identities: dict[End, set[tuple[str, Identity]]] = {}
        self._exchanges: dict[tuple[str, str], Exchange] = {}

    @property
    def state(self) -> Metadata:
        """What the metadata would be, when the plan is made."""
        return self._state

    def steps(self) -> Steps:
        """Make the plan. Each step is one item; what it gives has to be run before the next. Raises DefinitionsError (a
        ValueError)."""
        whole = Entry("definitions", self._definitions)
        if self._vhost is None:
            for entry in self._items(whole, "users"):
                yield from self._hash_password(entry)
        for _ in self._before.drafting(self._state):
            yield None
        steps: Mapping[str, Callable[[Entry], Steps | None]] = {
            "users": self._user,
            "vhosts": self._put_vhost,
            "permissions": self._permission,
            "topic_permissions": self._topic_permission,
            "exchanges": self._exchange,
            "global_parameters": self._global_parameter,
            "policies": self._policy,
            "parameters": self._parameter,
            "queues": self._queue,
            "bindings": self._binding,
        }
        for category, step in steps.items():
            items = self._items(whole, category)
            if items and self._vhost is not None and category not in _INSIDE_VHOSTS:
                self.plan.notes.append(
                    f"{category}: left out, as only virtual host '{self._vhost}' is imported"
                )
                continue
            for entry in _in_order(items):
                yield from step(entry) or ()
                yield None
        self._check_administrators()

    def let_go(self) -> Iterator[None]:
        """Forget it all, in slices, when nothing of it is needed any more, the plan's commands included."""
        yield from let_go(self.plan.commands)
        for held in (self._new_passwords, self._left_out, self._exchanges):
            yield from let_go(held)
        yield from let_go(self._identities, levels=2)
        yield from self._state.let_go()

    def _check_administrators(self) -> None:
        """Somebody has to be able to administer the broker, if somebody is now."""
        before, after = ([ADMINISTRATOR in user.tags for user in each.users()] for each in (self._before, self._state))
        if any(before) and not any(after):
            raise DefinitionsError("users", "nobody would have the tag administrator any more; give it to somebody")

    @staticmethod
    def _items(whole: Entry, category: str) -> Items:
        """The entries of a category."""
        items = whole.get(category)
        if items is None:
            items = []
        if not isinstance(items, list):
            raise DefinitionsError(category, f"{type(items).__name__} found, a list is needed")
        return Items(category, items)

    def _do(self, command: Command) -> None:
        """Raises ValueError for a value that no command can hold."""
        if self._state.apply(command):
            self.plan.commands.append(command)

    def _note(self, entry: Entry, text: str) -> None:
        self.plan.notes.append(f"{entry.path}: {text}")

    def _vhost_of(self, entry: Entry) -> str:
        name = entry.text("vhost") if self._vhost is None else self._vhost
        if self._state.vhost(name) is None:
            entry.error("vhost", f"there is no virtual host '{name}'; add it to vhosts or create it before")
        return name

    def _user_of(self, entry: Entry) -> str:
        name = entry.text("user")
        if self._state.user(name) is None:
            entry.error("user", f"there is no user '{name}'; add it to users or create it before")
        return name

    # Users, vhosts and what users may do

    def _user(self, entry: Entry) -> None:
        name = entry.name("name")
        try:
            check_user_name(name)
        except ValueError as error:
            entry.error("name", str(error))
        self._do(commands.put_user(name, self._password_hash(entry), entry.tags("tags")))
        if "limits" in entry:
            self._do(commands.limit_user(name, entry.limits("limits", USER_LIMITS)))

    def _hash_password(self, entry: Entry) -> Steps:
        """A password in clear: of a user who has it already, the hash stays."""
        if "password" not in entry:
            return
        if "password_hash" in entry:
            entry.error("password", "there is a password_hash besides; leave one of them out")
        known = self._before.user(entry.name("name"))
        stored = known.password_hash if known is not None else ""
        self._new_passwords[entry.path] = work = NewPassword(entry.text("password"), self._random_bytes, stored)
        yield work

    def _password_hash(self, entry: Entry) -> str:
        if entry.path in self._new_passwords:
            return self._new_passwords[entry.path].stored
        encoded = entry.text("password_hash", "")
        algorithm = entry.text("hashing_algorithm", DEFAULT_ALGORITHM)
        try:
            return read_password_hash(algorithm, encoded)
        except ValueError as error:
            entry.error("password_hash", str(error))

    def _put_vhost(self, entry: Entry) -> None:
        name = entry.name("name")
        # Some releases write these beside the name, some in an object below, some in both places.
        about = Entry(f"{entry.path}.metadata", entry.mapping("metadata"))
        described = [place for place in (entry, about) if "description" in place]
        tagged = [place for place in (entry, about) if "tags" in place]
        typed = [
            place for place in (entry, about) if place.get("default_queue_type") not in (None, "undefined")
        ]
        default_type = typed[0].text("default_queue_type") if typed else DEFAULT_TYPE
        if default_type not in QUEUE_TYPES:
            typed[0].error(
                "default_queue_type", f"'{default_type}' must be one of {', '.join(QUEUE_TYPES)}"
            )
        self._do(
            commands.put_vhost(
                name,
                description=described[0].text("description") if described else "",
                tags=tagged[0].tags("tags") if tagged else [],
                default_queue_type=default_type,
                tracing=entry.flag("tracing", False),
            )
        )
        if entry.get("limits"):
            self._do(commands.limit_vhost(name, entry.limits("limits", VHOST_LIMITS)))
        protected = [place for place in (entry, about) if PROTECTED in place]
        if protected:
            self._protect_vhost(entry, name, protected[0].flag(PROTECTED, False))

    def _protect_vhost(self, entry: Entry, name: str, is_protected: bool) -> None:
        if is_protected and self._state.level < DELETION_PROTECTION:
            self._note(entry, NOT_PROTECTED_YET)
            return
        self._do(commands.protect_vhost(name, is_protected))

    def _pattern(self, entry: Entry, key: str) -> str:
        pattern = entry.text(key)
        try:
            check_pattern(pattern)
        except PatternError as error:
            entry.error(key, str(error))
        return pattern

    def _permission(self, entry: Entry) -> None:
        user, vhost = self._user_of(entry), self._vhost_of(entry)
        patterns = [self._pattern(entry, key) for key in ("configure", "write", "read")]
        self._do(commands.set_permission(user, vhost, *patterns))

    def _topic_permission(self, entry: Entry) -> None:
        user, vhost = self._user_of(entry), self._vhost_of(entry)
        exchange = entry.name("exchange", may_be_empty=True)
        patterns = [self._pattern(entry, key) for key in ("write", "read")]
        self._do(commands.set_topic_permission(user, vhost, exchange, *patterns))

    # Policies and parameters

    def _policy(self, entry: Entry, place: Entry | None = None, *, operator: bool = False) -> None:
        """`entry` names the policy; its content is in `place`, or in `entry` as well."""
        content = place or entry
        vhost, name = self._vhost_of(entry), entry.text("name")
        policy: JsonObject = {
            "pattern": content.get("pattern"),
            "apply_to": content.text("apply-to", "all"),
            "priority": content.get("priority") if "priority" in content else 0,
            "definition": content.mapping("definition"),
        }
        try:
            check_policy(**policy, operator=operator)
        except PolicyError as error:
            content.error(error.part, error.text)
        for text in keys_without_effect(policy["definition"], policy["apply_to"]):
            self._note(content, text)
        self._do(commands.set_policy(vhost, name, operator=operator, **policy))

    def _parameter(self, entry: Entry) -> None:
        component, name = entry.text("component"), entry.text("name")
        if component == OPERATOR_POLICY:
            self._policy(entry, Entry(f"{entry.path}.value", entry.mapping("value")), operator=True)
        elif component == LIMITS_PARAMETER:
            limits = entry.limits("value", VHOST_LIMITS)
            self._do(commands.limit_vhost(self._vhost_of(entry), limits))
        else:
            self._do(commands.set_parameter(self._vhost_of(entry), component, name, entry.json("value")))

    def _global_parameter(self, entry: Entry) -> None:
        name = entry.text("name")
        if name.startswith(INTERNAL):
            self._note(entry, f"'{name}' belongs to the cluster that it came from")
            return
        if name == CLUSTER_NAME:
            try:
                check_cluster_name(entry.json("value"))
            except ValueError as error:
                entry.error("value", str(error))
        self._do(commands.set_global_parameter(name, entry.json("value")))

    # Exchanges, queues and bindings

    def _exchange(self, entry: Entry) -> None:
        vhost, name = self._vhost_of(entry), entry.name("name", may_be_empty=True)
        known = self._state.exchange(vhost, name)
        if known is not None and known.is_predeclared:
            return
        if not entry.flag("durable", True):
            self._leave_out(entry, (vhost, EXCHANGE, name), _NOT_DURABLE)
            return
        if name.startswith(_RESERVED_PREFIX):
            self._leave_out(entry, (vhost, EXCHANGE, name), "belongs to the broker that it came from")
            return
        arguments, type_name = entry.arguments(), entry.text("type")
        try:
            create_exchange(type_name, arguments)
        except ValueError as error:
            raise DefinitionsError(entry.path, str(error)) from None
        command = commands.declare_exchange(
            vhost,
            name,
            type_name,
            auto_delete=entry.flag("auto_delete", False),
            internal=entry.flag("internal", False),
            arguments_raw=arguments.raw,
            numbered=type_name == DelayedExchange.type_name,
        )
        self._do(command)

    def _queue(self, entry: Entry) -> None:
        vhost, name = self._vhost_of(entry), entry.name("name")
        if not entry.flag("durable", True):
            self._leave_out(entry, (vhost, QUEUE, name), _NOT_DURABLE)
            return
        if self._state.queue(vhost, name) is not None:
            return
        arguments, auto_delete = entry.arguments(), entry.flag("auto_delete", False)
        type_name = self._queue_type(entry, vhost, arguments, auto_delete)
        try:
            QUEUE_TYPES[type_name].read(arguments)
            QUEUE_TYPES[type_name].check_imported(auto_delete)
        except ArgumentError as error:
            entry.error(f"arguments.{error.key}", error.reason)
        except WrongArgument as error:
            entry.error(f"arguments.{error.key}", f"{type_name} queues have no such argument")
        except WrongProperty as error:
            entry.error(error.key, error.reason)
        self._check_level(entry, type_name, arguments)
        partitions = QUEUE_TYPES[type_name].partitions(arguments)
        self._check_queue_limit(entry, vhost, 1 + partitions)
        if partitions:
            self._partition(entry, vhost, type_name, arguments, partitions)
            return
        lowest, source = self._state.next_queue_id, self._source_of(entry, vhost, type_name, arguments)
        command = commands.declare_queue(
            vhost,
            name,
            self._next_queue_id(type_name, lowest, self._size(vhost, name, type_name, arguments), source),
            type_name=type_name,
            auto_delete=auto_delete,
            arguments_raw=arguments.raw,
        )
        self._do(command)

    def _check_level(self, entry: Entry, type_name: str, arguments: Mapping[str, object]) -> None:
        since, level = QUEUE_TYPES[type_name].since_with(arguments), self._state.level
        if since > level:
            entry.error("arguments", f"such queues need a cluster at level {since}, and it is at level {level}: "
                        "upgrade all members first")  # fmt: skip

    def _queue_type(self, entry: Entry, vhost: str, arguments: Mapping[str, object], auto_delete: bool) -> str:
        """By the argument, by the field, or else what a queue is that is declared without a type."""
        record = self._state.vhost(vhost)
        default = DEFAULT_TYPE if record is None or auto_delete else record.default_queue_type
        try:
            type_name = asked_type(arguments, entry.text("type", default))
        except ArgumentError:
            type_name = str(arguments["x-queue-type"])
        level = self._state.level
        if type_name in QUEUE_TYPES and QUEUE_TYPES[type_name].since <= level:
            return type_name
        if type_name in QUEUE_TYPES:
            since = QUEUE_TYPES[type_name].since
            entry.error("type", f"'{type_name}' queues need a cluster at level {since}, and it is at level {level}: "
                        "upgrade all members first")  # fmt: skip
        key = "arguments.x-queue-type" if "x-queue-type" in arguments else "type"
        entry.error(key, f"'{type_name}' queues cannot be had; one of {', '.join(QUEUE_TYPES)} can")

    def _partition(self, entry: Entry, vhost: str, type_name: str, arguments: Table, count: int) -> None:
        """A queue that consists of others, which come with it."""
        name = entry.name("name")
        most = self._bounds.max_partitions
        if count > most:
            entry.error(f"arguments.{PARTITIONS}", f"{count}: this node's limit is {most} (max_stream_partitions)")
        if not can_be_named(name, count):
            entry.error("name", f"those of its partitions would be longer than {MAX_SHORT_STRING} octets: take another")
        for number in range(count):
            if self._state.queue(vhost, partition_name(name, number)) is not None:
                taken = partition_name(name, number)
                entry.error("name", f"there is a queue '{taken}' already, which is to be a partition of it")
        size = self._size(vhost, name, type_name, arguments)
        ids = [self._next_queue_id(type_name, self._state.next_queue_id, size)]
        for _ in range(count):
            ids.append(self._next_queue_id(type_name, ids[-1] + 1, size))
        rest = QUEUE_TYPES[type_name].with_partitions(arguments, 0).raw
        self._do(commands.partition_stream(vhost, name, ids[0], type_name, arguments.raw, 0, ids[1:], rest))

    def _size(self, vhost: str, name: str, type_name: str, arguments: Mapping[str, object]) -> int:
        """On how many nodes a queue is to be; policies of the file are there before queues."""
        queue_type = QUEUE_TYPES[type_name]
        policy, _ = effective_policies(self._state, vhost, queue_type.policy_kind, name)
        return queue_type.size_of(arguments, policy)

    def _source_of(
        self, entry: Entry, vhost: str, type_name: str, arguments: Mapping[str, object]
    ) -> QueueRecord | None:
        """The stream that a queue is made of."""
        name = QUEUE_TYPES[type_name].made_of(arguments)
        source = self._state.queue(vhost, name) if name is not None else None
        if name is not None and (source is None or not type_named(source.type).is_source):
            entry.error(f"arguments.{SOURCE}", f"there is no stream '{name}': it has to be in the definitions too")
        if source is None:
            return None
        said = decode_table(source.arguments_raw)
        if parts := QUEUE_TYPES[source.type].partitions(said):
            first, last = (partition_name(source.name, number) for number in (0, parts - 1))
            entry.error(f"arguments.{SOURCE}", f"'{name}' has {parts} partitions: say which, '{first}' to '{last}'")
        if said.get(COMPACT) is True:
            entry.error(f"arguments.{SOURCE}", f"stream '{name}' is compacted: there are no queues over such ones")
        return source

    def _next_queue_id(self, type_name: str, lowest: int, size: int, source: QueueRecord | None = None) -> int:
        """The lowest id that a queue may get; of queues in groups, each in the group behind the last one's, but one
        that is made of another one in the same. size: of the group."""
        bounds = self._bounds
        if source is not None:
            return lowest + (source.queue_id - lowest) % bounds.queue_groups
        if not lives_in_groups(type_name):
            return lowest
        self._placed += 1
        groups = bounds.groups_of_size(size)
        return lowest + (groups[self._placed % len(groups)] - lowest) % bounds.queue_groups

    def _check_queue_limit(self, entry: Entry, vhost: str, more: int) -> None:
        """As in RabbitMQ: a limit that was set before counts, one that the file itself brings does not. That of the
        node always does."""
        self._room -= more
        if self._room < 0:
            raise DefinitionsError(
                entry.path,
                f"the node has room for {self._bounds.room} more queues, and the definitions have more: raise its "
                "max_queues, or import fewer",
            )
        record = self._before.vhost(vhost)
        limit = record.limits.get("max-queues", -1) if record else -1
        if 0 <= limit < self._state.queue_count(vhost) + more:
            raise DefinitionsError(
                entry.path, f"virtual host '{vhost}' may hold {limit} queues and does; raise its max-queues"
            )

    def _leave_out(self, entry: Entry, end: End, reason: str) -> None:
        self._left_out.add(end)
        self._note(entry, f"{end[1]} '{end[2]}' was left out: it {reason}")

    def _binding(self, entry: Entry) -> Steps:
        vhost = self._vhost_of(entry)
        source, kind = entry.name("source", may_be_empty=True), entry.text("destination_type")
        if kind not in (QUEUE, EXCHANGE):
            entry.error("destination_type", f"'{kind}' must be {QUEUE} or {EXCHANGE}")
        destination = entry.name("destination", may_be_empty=kind == EXCHANGE)
        if {(vhost, EXCHANGE, source), (vhost, kind, destination)} & self._left_out:
            self._note(entry, "the binding was left out, as one of its ends was")
            return
        key = entry.text("routing_key", "")
        if not source:
            if (kind, key) != (QUEUE, destination):
                entry.error("source", "nothing can be bound to the default exchange")
            return
        record = self._state.exchange(vhost, source)
        if record is None:
            entry.error("source", f"there is no exchange '{source}' in virtual host '{vhost}'")
        ends = self._state.queue if kind == QUEUE else self._state.exchange
        if ends(vhost, destination) is None:
            entry.error("destination", f"there is no {kind} '{destination}' in virtual host '{vhost}'")
        arguments = entry.arguments()
        try:
            self._exchange_of(record).check_binding(key, arguments)
        except ValueError as error:
            raise DefinitionsError(entry.path, str(error)) from None
        binding = BindingRecord(source, kind, destination, key, arguments.raw)
        if self._before.has_binding(vhost, binding):
            return
        if arguments:
            end = (vhost, kind, destination)
            if end not in self._identities:
                yield from self._learn_identities(end)
            told = (source, identity(key, arguments))
            if told in self._identities[end]:
                return
            self._identities[end].add(told)
        self._do(commands.add_binding(vhost, binding))

    def _exchange_of(self, record: ExchangeRecord) -> Exchange:
        """An exchange of this kind, which says what can be bound to it."""
        key = (record.vhost, record.name)
        exchange = self._exchanges.get(key)
        if exchange is None:
            exchange = self._exchanges[key] = create_exchange(record.type, decode_table(record.arguments_raw))
        return exchange

    def _learn_identities(self, end: End) -> Steps:
        """What bindings to one end are told apart by: key, and arguments by their value."""
        known = self._identities[end] = set()
        for number, found in enumerate(self._before.bindings_to(*end), 1):
            if found.arguments_raw:
                known.add((found.source, _identity_of(found)))
            if found.arguments_raw or number % SLICE == 0:
                yield None


def _identity_of(binding: BindingRecord) -> Identity:
    raw = binding.arguments_raw
    return identity(binding.binding_key, decode_table(raw, max_bytes=len(raw)))


def read_password_hash(algorithm: str, encoded: str) -> str:
    """The text to store for a password_hash of definitions. Raises ValueError."""
    if algorithm == SCRYPT_ALGORITHM:
        passwords.check_hash(encoded)
        return encoded
    return passwords.from_rabbit(algorithm, encoded)

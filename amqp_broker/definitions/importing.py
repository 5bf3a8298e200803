"""Imports RabbitMQ's definitions: from their JSON to the commands that bring the metadata there.

As in RabbitMQ, users, vhosts, permissions, parameters and policies are set to what the file says;
exchanges, queues and bindings that are there stay as they are; nothing is deleted. What cannot be taken
over without loss of meaning is an error, and then nothing is imported; what needs no import (predeclared
and transient things) is noted.

Invariants:
1. The commands, applied in order to the metadata they were made for, all change something: importing
   again is empty.
2. Every error names its place in the file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from amqp_broker.auth import passwords
from amqp_broker.auth.patterns import PatternError
from amqp_broker.auth.permissions import check_pattern
from amqp_broker.cluster import commands
from amqp_broker.cluster.commands import Command
from amqp_broker.cluster.entities import BindingRecord
from amqp_broker.cluster.metadata import Metadata
from amqp_broker.definitions.exporting import OPERATOR_POLICY, SCRYPT_ALGORITHM, VHOST_LIMITS
from amqp_broker.definitions.reading import DefinitionsError, Entry
from amqp_broker.policies import PolicyError, check_policy
from amqp_broker.protocol.fields import decode_table
from exchanges.bindings import EXCHANGE, QUEUE, Identity, identity
from exchanges.delayed import DelayedExchange
from exchanges.registry import create_exchange
from queues.arguments import SUPPORTED_TYPES, ArgumentError, parse_arguments

_VHOST_LIMIT_NAMES: Final = ("max-connections", "max-queues")
_USER_LIMIT_NAMES: Final = ("max-connections", "max-channels")
_RESERVED_PREFIX: Final = "amq."
_NOT_DURABLE: Final = "is not durable; whoever needs it declares it"
_INSIDE_VHOSTS: Final = ("exchanges", "policies", "parameters", "queues", "bindings")
_DEFAULT_ALGORITHM: Final = "rabbit_password_hashing_sha256"

End = tuple[str, str, str]
"""Vhost, kind and name of one end of a binding."""


@dataclass(frozen=True, slots=True)
class ImportPlan:
    """The commands of an import, and what was left out and why, for the log."""

    commands: list[Command] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def import_commands(
    definitions: object,
    metadata: Metadata,
    random_bytes: passwords.RandomBytes,
    *,
    vhost: str | None = None,
) -> list[Command]:
    """The commands of `plan_import` alone."""
    return plan_import(definitions, metadata, random_bytes, vhost=vhost).commands


def plan_import(
    definitions: object,
    metadata: Metadata,
    random_bytes: passwords.RandomBytes,
    *,
    vhost: str | None = None,
) -> ImportPlan:
    """What brings `metadata` to what `definitions` (decoded JSON) say; `metadata` itself stays as it is.

    With `vhost`, everything that lives in a vhost goes into that one, whatever vhost it names, and the
    rest is left out. `random_bytes` gives salts for users with a password in clear. Raises
    DefinitionsError (a ValueError).
    """
    return _Importer(metadata, random_bytes, vhost).run(Entry("definitions", definitions))


class _Importer:
    """Applies each command to a copy of the metadata: what changes nothing there is not needed."""

    def __init__(self, metadata: Metadata, random_bytes: passwords.RandomBytes, vhost: str | None) -> None:
        self._before = metadata
        self._state = metadata.copy()
        self._random_bytes = random_bytes
        self._vhost = vhost
        self._plan = ImportPlan()
        self._left_out: set[End] = set()
        self._identities: dict[str, set[tuple[str, str, str, Identity]]] = {}

    def run(self, whole: Entry) -> ImportPlan:
        steps: Mapping[str, Callable[[Entry], None]] = {
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
            items = whole.get(category)
            if items is None:
                continue
            if not isinstance(items, list):
                raise DefinitionsError(category, f"{type(items).__name__} found, a list is needed")
            if items and self._vhost is not None and category not in _INSIDE_VHOSTS:
                self._plan.notes.append(
                    f"{category}: left out, as only virtual host '{self._vhost}' is imported"
                )
                continue
            for index, item in enumerate(items):
                step(Entry(f"{category}[{index}]", item))
        return self._plan

    def _do(self, command: Command) -> None:
        if self._state.apply(command):
            self._plan.commands.append(command)

    def _note(self, entry: Entry, text: str) -> None:
        self._plan.notes.append(f"{entry.path}: {text}")

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
        self._do(commands.put_user(name, self._password_hash(entry, name), entry.tags("tags")))
        if "limits" in entry:
            self._do(commands.limit_user(name, entry.limits("limits", _USER_LIMIT_NAMES)))

    def _password_hash(self, entry: Entry, name: str) -> str:
        if "password" in entry:
            if "password_hash" in entry:
                entry.error("password", "there is a password_hash besides; leave one of them out")
            password = entry.text("password")
            known = self._state.user(name)
            if known is not None and passwords.verify_password(password, known.password_hash):
                return known.password_hash
            return passwords.hash_password(password, self._random_bytes)
        encoded = entry.text("password_hash", "")
        algorithm = entry.text("hashing_algorithm", _DEFAULT_ALGORITHM)
        try:
            if algorithm == SCRYPT_ALGORITHM:
                passwords.check_hash(encoded)
                return encoded
            return passwords.from_rabbit(algorithm, encoded)
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
        default_type = typed[0].text("default_queue_type") if typed else "classic"
        if default_type not in SUPPORTED_TYPES:
            typed[0].error(
                "default_queue_type", f"'{default_type}' must be one of {', '.join(SUPPORTED_TYPES)}"
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
            self._do(commands.limit_vhost(name, entry.limits("limits", _VHOST_LIMIT_NAMES)))

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
        policy: dict[str, Any] = {
            "pattern": content.get("pattern"),
            "apply_to": content.text("apply-to", "all"),
            "priority": content.get("priority") if "priority" in content else 0,
            "definition": content.mapping("definition"),
        }
        try:
            check_policy(**policy, operator=operator)
        except PolicyError as error:
            content.error(error.part, error.text)
        self._do(commands.set_policy(vhost, name, operator=operator, **policy))

    def _parameter(self, entry: Entry) -> None:
        component, name = entry.text("component"), entry.text("name")
        if component == OPERATOR_POLICY:
            self._policy(entry, Entry(f"{entry.path}.value", entry.mapping("value")), operator=True)
        elif component == VHOST_LIMITS:
            limits = entry.limits("value", _VHOST_LIMIT_NAMES)
            self._do(commands.limit_vhost(self._vhost_of(entry), limits))
        else:
            self._do(commands.set_parameter(self._vhost_of(entry), component, name, entry.get("value")))

    def _global_parameter(self, entry: Entry) -> None:
        name = entry.text("name")
        if name.startswith("internal"):
            self._note(entry, f"'{name}' belongs to the cluster that it came from")
        else:
            self._do(commands.set_global_parameter(name, entry.get("value")))

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
        if name.startswith(_RESERVED_PREFIX):
            self._leave_out(entry, (vhost, QUEUE, name), "was named by the broker, for one connection")
            return
        if self._state.queue(vhost, name) is not None:
            return
        arguments = entry.arguments()
        type_name = self._queue_type(entry, arguments)
        try:
            parse_arguments(arguments)
        except ArgumentError as error:
            entry.error(f"arguments.{error.key}", error.reason)
        self._check_queue_limit(entry, vhost)
        command = commands.declare_queue(
            vhost,
            name,
            self._state.next_queue_id,
            type_name=type_name,
            auto_delete=entry.flag("auto_delete", False),
            arguments_raw=arguments.raw,
        )
        self._do(command)

    def _queue_type(self, entry: Entry, arguments: Mapping[str, object]) -> str:
        by_argument = arguments.get("x-queue-type")
        type_name = by_argument if isinstance(by_argument, str) else entry.text("type", "classic")
        if type_name in SUPPORTED_TYPES:
            return type_name
        key = "type" if by_argument is None else "arguments.x-queue-type"
        entry.error(key, f"'{type_name}' queues cannot be had; one of {', '.join(SUPPORTED_TYPES)} can")

    def _check_queue_limit(self, entry: Entry, vhost: str) -> None:
        """As in RabbitMQ: a limit that was set before counts, one that the file itself brings does not."""
        record = self._before.vhost(vhost)
        limit = record.limits.get("max-queues", -1) if record else -1
        if 0 <= limit <= self._state.queue_count(vhost):
            raise DefinitionsError(
                entry.path, f"virtual host '{vhost}' may hold {limit} queues and does; raise its max-queues"
            )

    def _leave_out(self, entry: Entry, end: End, reason: str) -> None:
        self._left_out.add(end)
        self._note(entry, f"{end[1]} '{end[2]}' was left out: it {reason}")

    def _binding(self, entry: Entry) -> None:
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
        if self._state.exchange(vhost, source) is None:
            entry.error("source", f"there is no exchange '{source}' in virtual host '{vhost}'")
        ends = self._state.queue if kind == QUEUE else self._state.exchange
        if ends(vhost, destination) is None:
            entry.error("destination", f"there is no {kind} '{destination}' in virtual host '{vhost}'")
        arguments = entry.arguments()
        if not arguments or self._is_new(vhost, source, kind, destination, identity(key, arguments)):
            self._do(
                commands.add_binding(vhost, BindingRecord(source, kind, destination, key, arguments.raw))
            )

    def _is_new(self, vhost: str, source: str, kind: str, destination: str, told: Identity) -> bool:
        """Whether no binding between the two has an equal key and arguments of equal value (and notes it)."""
        known = self._identities.get(vhost)
        if known is None:
            known = self._identities[vhost] = {
                (found.source, found.destination_kind, found.destination, _identity_of(found))
                for found in self._state.bindings(vhost)
                if found.arguments_raw
            }
        facts = (source, kind, destination, told)
        is_new = facts not in known
        known.add(facts)
        return is_new


def _identity_of(binding: BindingRecord) -> Identity:
    raw = binding.arguments_raw
    return identity(binding.binding_key, decode_table(raw, max_bytes=len(raw)))

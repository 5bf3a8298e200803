"""Queues, of all types, wherever their messages are."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, cast

from amqp_broker.channel.consumer import ChannelConsumer
from amqp_broker.management.objects.channels import connection_details
from amqp_broker.management.objects.kind import Cursor, Kind, Prepared, Scope
from amqp_broker.management.objects.values import as_object
from amqp_broker.management.objects.vhost_things import VhostThings
from amqp_broker.protocol.errors import MalformedInput
from amqp_broker.protocol.fields import encode_timestamp
from amqp_broker.protocol.json_values import JsonObject, JsonValue
from amqp_broker.protocol.properties import read_property
from amqp_broker.queue_types.register import QUEUE_TYPES, type_of
from amqp_broker.queue_types.remote.counts import RemoteCounts
from amqp_broker.turn.task import Steps
from amqp_broker.vhosts.policies import matching_policies
from queues.arguments import merged_definition
from queues.queue import Queue
from queues.sizes import QueueSizes
from queues.sums import QueueSums

if TYPE_CHECKING:
    from amqp_broker.flow.client import Client
    from amqp_broker.management.node_counts import NodeCounts
    from amqp_broker.management.objects.oldest_deliveries import OldestDeliveries
    from amqp_broker.metadata.entities import Policy
    from amqp_broker.octets.sorted_keys import SortedKeys
    from amqp_broker.routing.vhost import VHost

#: The column that is looked for before the others, and for all queues together.
OLDEST_UNACKED = "oldest_unacked_age_ms"
#: So many consumers of a queue are shown with it; so many of them are described in one slice.
_CONSUMERS = 200
_SLICE = 16


class Seen:
    """A queue, what was counted of it, and, once a column asks for them, what its type says of it and its sizes: None
    where its messages are not known here. held_since: when the delivery was made that somebody has held for longest,
    None where nobody holds any, or this node does not know."""

    def __init__(self, queue: Queue, held_since: int | None) -> None:
        self.queue = queue
        self.held_since = held_since
        self.sums = QueueSums()
        queue.add_counters(self.sums)
        self._sizes: QueueSizes | None = None
        self._figures: JsonObject | None = None

    @property
    def figures(self) -> JsonObject:
        """See QueueType."""
        if self._figures is None:
            self._figures = type_of(self.queue).figures(self.queue)
        return self._figures

    @property
    def sizes(self) -> QueueSizes | None:
        """See QueueSizes."""
        if self._sizes is None:
            self._sizes = self.queue.sizes()
        return self._sizes


def _of_queue(column: Callable[[Queue], JsonValue]) -> Callable[[Seen], JsonValue]:
    return lambda seen: column(seen.queue)


def _figure(name: str) -> Callable[[Seen], JsonValue]:
    return lambda seen: seen.figures.get(name)


def _published(name: str) -> Callable[[Seen], JsonValue]:
    """What is known of queues whose rules are run here."""
    return lambda seen: getattr(seen.sums, name) if seen.sums.publishing else None


def _delivered(name: str) -> Callable[[Seen], JsonValue]:
    """What is known of queues that deliver from here."""
    return lambda seen: getattr(seen.sums, name) if seen.sums.delivering else None


def _sized(column: Callable[[QueueSizes], int]) -> Callable[[Seen], JsonValue]:
    return lambda seen: column(seen.sizes) if seen.sizes is not None else None


#: What its messages take: exact of few, and taken from few of many (QueueSizes), but for those that are counted.
SIZES: dict[str, Callable[[Seen], JsonValue]] = {
    "message_bytes": _sized(lambda of: of.ready_bytes + of.unacked_bytes),
    "message_bytes_ready": _sized(lambda of: of.ready_bytes),
    "message_bytes_unacknowledged": _sized(lambda of: of.unacked_bytes),
    "message_bytes_ram": _sized(lambda of: of.ready_bytes + of.unacked_bytes - of.bytes_paged_out),
    "message_bytes_persistent": _sized(lambda of: of.bytes_persistent),
    "message_bytes_paged_out": _sized(lambda of: of.bytes_paged_out),
    "messages_ram": _sized(lambda of: of.ready + of.unacked - of.paged_out),
    "messages_ready_ram": _sized(lambda of: of.ready - of.paged_out),
    "messages_unacknowledged_ram": _sized(lambda of: of.unacked),
    "messages_persistent": _sized(lambda of: of.persistent + of.unacked_persistent),
    "messages_paged_out": _sized(lambda of: of.paged_out),
    "memory": _sized(lambda of: of.memory),
}


def _own_columns() -> dict[str, Callable[[Seen], JsonValue]]:
    """What types of queues say of their own; None of the others."""
    names = dict.fromkeys(name for queue_type in QUEUE_TYPES.values() for name in queue_type.own_columns)
    return {name: _figure(name) for name in names}


#: What never falls, for the life of a queue and of the node that counts; None where this node does not know it.
COUNTERS: dict[str, Callable[[Seen], JsonValue]] = {
    "publish": _published("published"),
    "deliver": _delivered("delivered"),
    "deliver_no_ack": _delivered("auto_acked"),
    "get": lambda seen: seen.sums.got,
    "get_no_ack": lambda seen: seen.sums.got_no_ack,
    "get_empty": lambda seen: seen.sums.got_nothing,
    "redeliver": _delivered("redelivered"),
    "ack": _delivered("acked"),
    "expired": _published("expired"),
    "rejected": _published("rejected"),
    "maxlen_dropped": _published("too_many"),
    "delivery_limit_dropped": _published("returned_too_often"),
}


class Queues(VhostThings[Queue, Seen]):
    """consumers: the kind that its details are of."""

    name = "queues"
    singular = "queue"
    def __init__(
        self, counts: NodeCounts, consumers: Kind[ChannelConsumer, ChannelConsumer], oldest: OldestDeliveries
    ) -> None:
        super().__init__(counts)
        self._consumers = consumers
        self._oldest = oldest
        self._membership = counts.membership
        self._policies: dict[tuple[str, str, str], tuple[int, tuple[Policy | None, Policy | None]]] = {}
        columns: dict[str, Callable[[Queue], JsonValue]] = {
            "name": lambda one: one.name,
            "vhost": lambda one: one.declaration.vhost,
            "type": lambda one: one.declaration.type,
            "durable": lambda one: bool(one.is_durable),
            "auto_delete": lambda one: one.declaration.is_auto_delete,
            "exclusive": self._is_exclusive,
            "arguments": lambda one: as_object(one.declaration.arguments),
            "state": self._state,
            "node": self._node,
            "policy": lambda one: self._policy(one, 0),
            "operator_policy": lambda one: self._policy(one, 1),
            "effective_policy_definition": self._effective,
            "consumers": lambda one: one.consumer_count(),
            "consumer_capacity": lambda one: one.would_deliver(),
            "messages": lambda one: one.message_count() + one.unacked_count() + one.delayed_count(),
            "messages_ready": lambda one: one.message_count(),
            "messages_unacknowledged": lambda one: one.unacked_count(),
            "messages_delayed": lambda one: one.delayed_count(),
            "leased": lambda one: one.leased_count(),
            "idle_since": self._idle_since,
            "single_active_consumer_tag": lambda one: one.active_tag(),
            "exclusive_consumer_tag": _exclusive_tag,
            "owner_pid_details": _owner,
            "leader": self._leader,
            "members": self._members,
            "online": self._online,
            "delivery_limit": _delivery_limit,
            "oldest_message_age_ms": self._oldest_age,
            "partition_of": lambda one: one.declaration.part_of or None,
            "head_message_timestamp": _head_timestamp,
        }
        self.columns = {
            **{name: _of_queue(column) for name, column in columns.items()},
            OLDEST_UNACKED: self._oldest_unacked_age,
            "messages_dlx": _figure("dead_letters"),
            **_own_columns(),
            **SIZES,
            **COUNTERS,
        }

    # -- which ---------------------------------------------------------------------------------------------------------

    def names(self, vhost: VHost) -> SortedKeys[str]:
        """See VhostThings."""
        return vhost.queue_names

    def one(self, vhost: VHost, name: str) -> Queue | None:
        """See VhostThings."""
        return vhost.queues.look(name)

    def is_there(self, thing: Queue) -> bool:
        """See Kind. What is not made here does not hear that it is deleted."""
        return not thing.is_deleted and self.broker.knows(thing)

    def look(self, thing: Queue, prepared: Prepared) -> Seen:
        """See Kind."""
        since = cast("Mapping[Queue, int] | None", prepared)
        return Seen(thing, since.get(thing) if since is not None else None)

    def home_of(self, thing: Queue) -> str:
        """See Kind."""
        return thing.described_at()

    def prepare(self, things: Sequence[Queue], columns: Collection[str]) -> Steps:
        """See Kind: of what consists of others, and of which some are elsewhere, these are counted. Its result: since
        when something of a queue is held."""
        parted = [thing for thing in things if thing.partitions() and thing.elsewhere()]
        if parted:
            counts = RemoteCounts(self.broker.timers, self.clock.now)
            for number, thing in enumerate(parted):
                counts.ask(thing)
                if number % _SLICE == 0:
                    yield None
            yield counts.asked()
        if OLDEST_UNACKED not in columns:
            return None
        return (yield from self._oldest.of([thing for thing in things if not self.home_of(thing)]))

    def key_of(self, thing: Queue) -> list[str]:
        """See Kind."""
        return [thing.declaration.vhost, thing.name]

    def keyed(self, key: Cursor) -> Queue | None:
        """See Kind."""
        vhosts = self.broker.vhosts
        return vhosts[key[0]].queues.look(key[1]) if key[0] in vhosts else None

    def details(self, scope: Scope, thing: Queue) -> Steps:
        """See Kind: its consumers on this node."""
        found = [each for each in islice(thing.attached(), _CONSUMERS) if isinstance(each, ChannelConsumer)]
        rows = []
        for number, consumer in enumerate(found):
            rows.append(self._consumers.row(consumer))
            if number % _SLICE == 0:
                yield None
        return {"consumer_details": rows, "incoming": [], "deliveries": []}

    # -- columns -------------------------------------------------------------------------------------------------------

    def _is_exclusive(self, queue: Queue) -> bool:
        return queue.declaration.owner is not None

    def _state(self, queue: Queue) -> str:
        return "running" if queue.is_reachable() else "down"

    def _node(self, queue: Queue) -> str:
        return queue.home or self._leader(queue) or self.broker.own_node

    def _leader(self, queue: Queue) -> str | None:
        replicas = queue.replicas()
        return None if replicas is None else replicas.leader

    def _members(self, queue: Queue) -> list[str] | None:
        replicas = queue.replicas()
        return None if replicas is None else sorted(replicas.members)

    def _online(self, queue: Queue) -> list[str] | None:
        members = self._members(queue)
        if members is None:
            return None
        linked = self._membership.is_linked
        return [name for name in members if name == self.broker.own_node or linked(name)]

    def _matching(self, queue: Queue) -> tuple[Policy | None, Policy | None]:
        """The policies that apply to a queue: found again when some policy has changed."""
        declaration = queue.declaration
        governed = declaration.governed_as
        key, metadata = (declaration.vhost, declaration.type, governed), self.metadata
        known = self._policies.get(key)
        if known is not None and known[0] == metadata.policy_generation:
            return known[1]
        found = matching_policies(metadata, declaration.vhost, type_of(queue).policy_kind, governed)
        if len(self._policies) >= 10_000:
            self._policies.clear()
        self._policies[key] = (metadata.policy_generation, found)
        return found

    def _policy(self, queue: Queue, which: int) -> str:
        found = self._matching(queue)[which]
        return found.name if found is not None else ""

    def _effective(self, queue: Queue) -> JsonObject:
        policy, operator = self._matching(queue)
        return merged_definition(policy and policy.definition, operator and operator.definition)

    def _idle_since(self, queue: Queue) -> int | None:
        """Milliseconds since the epoch; None while it holds something or has consumers."""
        messages = queue.message_count() + queue.unacked_count() + queue.delayed_count()
        return None if messages or queue.consumer_count() else queue.last_used

    def _oldest_unacked_age(self, seen: Seen) -> int | None:
        return None if seen.held_since is None else max(0, self.clock.now - seen.held_since)

    def _oldest_age(self, queue: Queue) -> int | None:
        arrived = min((at for at, _ in queue.first_messages() if at), default=0)
        return max(0, self.clock.now - arrived) if arrived else None


def _head_timestamp(queue: Queue) -> int | None:
    """What the message that is delivered next says in its property, seconds since the epoch."""
    for _, properties in reversed(queue.first_messages()):
        try:
            said = read_property(properties, "timestamp")
        except MalformedInput:
            return None
        return encode_timestamp(said) if isinstance(said, datetime | int) else None
    return None


def _exclusive_tag(queue: Queue) -> str | None:
    first = next(iter(queue.attached()), None)
    return getattr(first, "tag", None) if getattr(first, "is_exclusive", False) else None


def _owner(queue: Queue) -> JsonObject | None:
    owner = queue.declaration.owner
    return connection_details(cast("Client", owner)) if hasattr(owner, "peer") else None


def _delivery_limit(queue: Queue) -> int | None:
    return queue.settings.delivery_limit

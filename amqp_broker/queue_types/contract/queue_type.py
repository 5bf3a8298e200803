"""QueueType: all that a broker knows of a type of queue. One package a type, one line in register.py.

What needs no node is said by the class: its name, which policies reach its queues, its arguments, and what a queue of
it cannot be. An object of it, one a node, makes and removes the queues of that node.

    declared:  check -> read -> next_queue_id -> (the metadata have it) -> create -> restore
    removed:   delete -> (the metadata have it no more) -> forget

It knows no virtual hosts and no routes: TypeHost is what a node gives it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol

from amqp_broker.links.levels import FIRST
from queues.arguments import QueueArguments

if TYPE_CHECKING:
    from amqp_broker.metadata.entities import QueueRecord
    from amqp_broker.protocol.fields import Table
    from amqp_broker.protocol.json_values import JsonObject, JsonValue
    from amqp_broker.queue_types.contract.declaration import QueueDeclaration
    from amqp_broker.queue_types.contract.policy_keys import Definition, PolicyKey
    from amqp_broker.settings.config import Config
    from queues.background import Background
    from queues.classic import ClassicQueue
    from queues.letters import Post
    from queues.queue import Queue
    from queues.recovery import Recovery
    from queues.store import MessageStore
    from queues.timers import Timers


class Declared(NamedTuple):
    """A queue that somebody wants to declare. name: "" where the broker is to make one."""

    name: str
    vhost: str
    is_durable: bool
    is_exclusive: bool
    is_auto_delete: bool


class WrongProperty(ValueError):
    """What definitions say of a queue, and its type cannot be. `key` names it, `reason` says what is wrong with it."""

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(f"{key}: {reason}")
        self.key = key
        self.reason = reason


class LeaseWatch(Protocol):
    """Releases lease groups whose owners do not call any more."""

    def watch_all(self, queue: Queue) -> None:
        """The queue was restored, or what is in force for it has changed."""

    def forget_all(self, queue: Queue) -> None:
        """The queue is about to be deleted."""


class TypeHost(Protocol):
    """What a node gives to a queue type, whichever. One that needs more says so where it is written (ClassicHost,
    GroupedHost, StreamHost). recovery: what the node's journal has; empty once all queues are there. staged: queues
    that were brought here before the metadata have them here, by the ids that these will give them."""

    config: Config
    store: MessageStore
    timers: Timers
    background: Background
    recovery: Recovery
    staged: dict[int, ClassicQueue]
    lease_expiry: LeaseWatch

    @property
    def dead_letters(self) -> Post:
        """Publishes what queues give up."""

    @property
    def own_node(self) -> str:
        """The node's name."""

    @property
    def level(self) -> int:
        """Which forms may be written (links/levels.py)."""

    def policies_of(self, vhost: str, policy_kind: str, name: str) -> tuple[Definition, Definition]:
        """The policy and the operator policy that apply to a queue."""

    def find_queue(self, vhost: str, name: str) -> Queue | None:
        """The queue of this name, if there is one."""

    def remove_queue(self, queue: Queue) -> None:
        """Delete a queue for good: nobody needs it any more."""

    def wait_for_disk(self) -> None:
        """What is proposed from now on is not committed before what was written to the journal is on this disk."""


class QueueType:
    """A type of queue.

    name: in x-queue-type, in the metadata and in statistics. policy_kind: in `apply-to` of policies. policy_keys: what
    policies can set; one that sets something else does not apply. arguments: what a declaration can say, each with a
    value that a form may begin with, or None. own_arguments: by which a declaration is compared, besides those of
    declaration.py. own_columns: those of its `figures` that lists of queues have as columns. lives_in_groups: its
    queues are in the logs of the groups of all nodes; otherwise each lives on one node, its home. since: the level of
    the cluster (links/levels.py) from which on they can be declared. may_move: one can come to live at another home.
    is_source: one is read by offsets, and queues may be made of it. keeps_dead_letters: what it gives up stays with it
    until it is in its new place. inspected_as: what `amqp-broker inspect` calls its queues.
    """

    name: ClassVar[str]
    policy_kind: ClassVar[str]
    policy_keys: ClassVar[Mapping[str, PolicyKey]]
    arguments: ClassVar[Mapping[str, JsonValue]] = {}
    own_arguments: ClassVar[tuple[str, ...]] = ()
    own_columns: ClassVar[tuple[str, ...]] = ()
    lives_in_groups: ClassVar[bool] = False
    since: ClassVar[int] = FIRST
    may_move: ClassVar[bool] = False
    is_source: ClassVar[bool] = False
    keeps_dead_letters: ClassVar[bool] = False
    inspected_as: ClassVar[str]

    def __init__(self, host: TypeHost) -> None:
        self._host = host

    # -- what can be declared ------------------------------------------------------------------------------------------

    @classmethod
    def check(cls, declared: Declared) -> None:
        """Whether there can be such a queue. Raises ChannelException with its own texts."""

    @classmethod
    def check_imported(cls, is_auto_delete: bool) -> None:
        """Whether definitions can have such a queue, which is durable. Raises WrongProperty."""

    @classmethod
    def read(cls, arguments: Mapping[str, object]) -> QueueArguments:
        """What the arguments mean. Raises ArgumentError (OwnWords), WrongArgument."""
        raise NotImplementedError

    @classmethod
    def since_with(cls, arguments: Mapping[str, object]) -> int:
        """The level from which on a queue can be declared with these arguments, which were `read`."""
        return cls.since

    @classmethod
    def partitions(cls, arguments: Mapping[str, object]) -> int:
        """How many queues are declared with one that has these arguments, which were `read`: its partitions."""
        return 0

    @classmethod
    def with_partitions(cls, arguments: Table, count: int) -> Table:
        """The arguments with which one has so many; 0: those of a partition. Of types that know of partitions."""
        raise NotImplementedError

    @classmethod
    def as_declared(cls, arguments: Table, present: Table) -> Table:
        """What somebody says who declares a queue of this type again, to be compared with what it has now: something
        that has changed since may be said as it was."""
        return arguments

    @classmethod
    def size_of(cls, arguments: Mapping[str, object], policy: Definition) -> int:
        """On how many nodes a queue that is declared so is to be, if it lives in a group; 0: nothing is said."""
        return 0

    @classmethod
    def made_of(cls, arguments: Mapping[str, object]) -> str | None:
        """The name of the stream that has the messages of a queue that is declared so; None where it has its own.
        Raises ArgumentError."""
        return None

    def next_queue_id(self, lowest: int, vhost: str, name: str, arguments: Mapping[str, object]) -> int:
        """The id of a queue that is declared here, from `lowest` on."""
        return lowest

    # -- the queues of this node ---------------------------------------------------------------------------------------

    def is_elsewhere(self, home: str) -> bool:
        """Whether nothing is needed here of a queue with this home until somebody uses it. `create` does not fail
        then."""
        return False

    def create(self, declaration: QueueDeclaration, queue_id: int, home: str, now: int) -> Queue:
        """Make a queue. home: the node where it lives, "" for this one and for queues in groups. Raises ArgumentError,
        WrongArgument."""
        raise NotImplementedError

    def restore(self, queue: Queue, now: int) -> None:
        """The queue is in its virtual host: it gets what recovery has found of it."""

    def leaving(self, queue: Queue) -> ClassicQueue | None:
        """The queue, if it lives here and may come to live elsewhere. Of types that `may_move`, as the next two."""
        return None

    def rest(self, queue: Queue) -> None:
        """It does not expire while it moves: `policies_changed` ends that."""

    def stage(self, declaration: QueueDeclaration, queue_id: int) -> ClassicQueue:
        """Make a queue that is in no virtual host, and delivers and gives up nothing, until the metadata have it here:
        then `create` finds it among those that are staged."""
        raise NotImplementedError

    def policies_changed(self, queue: Queue, now: int) -> None:
        """A policy of its virtual host was changed."""

    def delete(self, queue: Queue) -> int:
        """Take it out of the run-time side. Returns how many messages were ready. What the metadata know of it keeps
        what it has on the disk, until `forget`: should a crash undo the deletion, it is needed."""
        return int(queue.delete())

    def forget(self, queue_id: int) -> None:
        """The metadata do not have this id any more, of whatever type its queue was: if it was of this one, what it has
        on the disk goes."""

    # -- start ---------------------------------------------------------------------------------------------------------

    def recovered_ids(self, records: Iterable[QueueRecord]) -> list[int]:
        """Those of these queues whose messages are in this node's journal, under their ids."""
        return []

    def finish_recovery(self) -> None:
        """All queues are there: what recovery has found of others."""

    # -- statistics ----------------------------------------------------------------------------------------------------

    @classmethod
    def figures(cls, queue: Queue) -> JsonObject:
        """What statistics show of a queue besides what they show of every one."""
        return {}

"""Broker: what the connections of a node share: the metadata, the virtual hosts made from it, users, and the store.

A change that others have to know, or that has to outlive a restart, is a command: `propose` puts it into this node's
stream to the metadata group (cluster/); when it is committed every node applies it, and vhosts/projection.py changes
the run-time side with the verbs of this module. At a start the run-time side is built from the recovered metadata.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, cast

from amqp_broker.auth.hashing import Hashing
from amqp_broker.auth.passwords import NewPassword, VerifiedPasswords, quick_hash
from amqp_broker.links.levels import FIRST_ONE_STAYS
from amqp_broker.metadata import commands
from amqp_broker.metadata.cluster_identity import CLUSTER_ID, cluster_id, new_cluster_id
from amqp_broker.metadata.entities import DEFAULT_TYPE, QueueRecord
from amqp_broker.metadata.metadata import Metadata
from amqp_broker.metadata.queue_ids import DELAY_IDS, TRANSIENT_IDS, delay_id
from amqp_broker.metadata.stored_groups import METADATA_GROUP
from amqp_broker.metadata.stream import Proposal
from amqp_broker.octets.sorted_keys import SortedKeys
from amqp_broker.protocol.fields import Table, decode_table
from amqp_broker.queue_types.contract.declaration import QueueDeclaration
from amqp_broker.queue_types.contract.policy_keys import Definition
from amqp_broker.queue_types.contract.queue_type import LeaseWatch, QueueType
from amqp_broker.queue_types.register import make_types, type_named
from amqp_broker.resources.page_check import PageCheck, page_checks
from amqp_broker.routing.dead_letters import DeadLetters
from amqp_broker.routing.delays import DelayedMessages
from amqp_broker.routing.discards import Discards
from amqp_broker.routing.queue_table import QueueTable
from amqp_broker.routing.reply_to import ReplyConsumers
from amqp_broker.routing.taps import NodeTaps
from amqp_broker.routing.unroutable import UnroutableRing
from amqp_broker.routing.vhost import VHost
from amqp_broker.settings.config import PUBLIC_PASSWORD, Config
from amqp_broker.turn.clock import TurnClock
from amqp_broker.turn.task import Steps, Task
from amqp_broker.vhosts.declarations import Declarations
from amqp_broker.vhosts.held_queues import HeldQueues
from amqp_broker.vhosts.placement import Placement
from amqp_broker.vhosts.policies import effective_policies
from exchanges.bindings import QUEUE, Binding, Destination
from exchanges.registry import DEFAULT_EXCHANGE, create_exchange
from queues.background import Background
from queues.classic import ClassicQueue
from queues.queue import Queue
from queues.recovery import Recovery
from queues.store import MessageStore
from queues.sums import QueueSums
from queues.timers import Timers
from raft.journal_records import FIRST_RAFT_KIND
from storage.errors import StorageError

if TYPE_CHECKING:
    from amqp_broker.cluster.replication import Replication
    from amqp_broker.metadata.entities import ExchangeRecord
    from amqp_broker.queue_types.groups.group import QueueGroup
    from amqp_broker.queue_types.groups.groups import QuorumGroups
    from amqp_broker.queue_types.remote.home_link import HomeLink
    from amqp_broker.queue_types.remote.remote_queues import RemoteQueues
    from amqp_broker.queue_types.stream.page_exchange import PageExchange
    from amqp_broker.queue_types.stream.read_exchange import ReadExchange
    from amqp_broker.routing.queue_table import Known
    from exchanges.router import ExchangeEntry
    from queues.declaration import Owner
    from queues.recovery import RecoveredQueue
    from raft.host import RaftHost
    from storage.journal import Journal

log = logging.getLogger("amqp_broker")

#: Of so many names at a time queues and exchanges look for their policies: a list of all would be made in one go.
_LOOKING = 128


class _RemoteOwner:
    """The owner of an exclusive queue whose connection is another node's."""

    def is_in(self, vhost: object) -> bool:
        return False

    def own(self, queue: Queue) -> None:
        raise AssertionError(f"{queue.name} is another node's: only that lets it be owned")

    def disown(self, queue: Queue) -> None:
        """Its own node does that."""


REMOTE_OWNER = _RemoteOwner()


class StagedApps(Protocol):
    """What transactions have staged and committed (leases/apps.py)."""

    def recover(self, notes: dict[int, tuple[int, bytes]], now: int) -> list[int]: ...

    def restore(self, recovered: dict[int, RecoveredQueue], now: int) -> None: ...

    def forget_vhost(self, vhost: str) -> None: ...

    def staged_messages(self) -> int: ...


def _declaration_of(record: QueueRecord, owner: Owner | None) -> QueueDeclaration:
    return QueueDeclaration(
        record.name, record.durable, record.auto_delete, owner, decode_table(record.arguments_raw), record.vhost,
        record.type, record.part_of,
    )  # fmt: skip


class Broker:
    """Everything of a node that is not a connection. recovery: what the journal had at the start, until everything is
    built. types: of queues, by name; to them the broker is the TypeHost. vhost_names: in their order. unroutable,
    returned (those of them that were mandatory): messages. queues_declared, queues_created: by clients of this node;
    queues_deleted: durable ones by this node, for whatever reason, and of those that end with it (fleeting_queues: how
    many there are) all, so that over all nodes each counts once, the partitions of a stream with it; gone: what was
    counted of queues that are no more, by their types."""

    def __init__(
        self,
        config: Config,
        journal: Journal,
        store: MessageStore,
        timers: Timers,
        background: Background,
        clock: TurnClock,
        random_bytes: Callable[[int], bytes],
    ) -> None:
        self.config = config
        self._journal = journal
        self.store = store
        self._page_store = store.page_store
        self.timers = timers
        self.background = background
        self.clock = clock
        self.random_bytes = random_bytes
        self.metadata = Metadata(background.add)
        self.passwords = VerifiedPasswords(random_bytes)
        self.vhosts: dict[str, VHost] = {}
        self.vhost_names: SortedKeys[str] = SortedKeys()
        self.reply_consumers = ReplyConsumers(random_bytes)
        self.discards = Discards(timers)
        self.dead_letters = DeadLetters(
            self.vhosts, self.discards, clock, config.max_death_history_bytes,
            lambda: self.replication.is_alone and not self.replication.has_workers,
        )
        self.queue_count = 0
        self._next_transient_id = TRANSIENT_IDS
        self.unroutable = self.returned = 0
        self.unroutable_ring = UnroutableRing(config.unroutable_kept)
        self.taps = NodeTaps(self.vhosts, store, timers, clock)
        self.gone: dict[str, QueueSums] = {}
        self.queues_declared = self.queues_created = self.queues_deleted = 0
        self._fleeting: set[int] = set()
        self.page_checks: list[PageCheck] = []
        self.recovery = Recovery(store.pager)
        # What exchanges hold back that are gone here, and in the metadata still; by virtual host and name.
        self._ending: dict[tuple[str, str], tuple[int, ...]] = {}
        #: Connections whose exclusive queues are being declared, by virtual host and name.
        self.owners: dict[tuple[str, str], Owner] = {}
        self.hashing = Hashing()
        self.declarations = Declarations(self)
        self.held = HeldQueues(journal, background, clock)
        #: Queues that are being brought here, by the ids that they will have (rehoming/).
        self.staged: dict[int, ClassicQueue] = {}
        # What `join` and `serve` bring: they are built on this object.
        self._raft: RaftHost
        self.replication: Replication
        self.groups: QuorumGroups
        self.page_exchange: PageExchange
        self.read_exchange: ReadExchange
        self.placement: Placement
        self.remote_queues: RemoteQueues
        self.apps: StagedApps
        self.lease_expiry: LeaseWatch
        self.types: dict[str, QueueType] = make_types(self)

    def join(
        self, raft: RaftHost, replication: Replication, groups: QuorumGroups, page_exchange: PageExchange,
        read_exchange: ReadExchange,
    ) -> None:  # fmt: skip
        """How its changes get to the other nodes. Before anything is proposed or recovered."""
        self._raft, self.replication, self.groups = raft, replication, groups
        self.page_exchange, self.read_exchange = page_exchange, read_exchange
        self.placement = Placement(self.config, replication, self.metadata, self.random_bytes)

    def serve(self, homes: RemoteQueues, apps: StagedApps, lease_expiry: LeaseWatch) -> None:
        """The queues of other nodes, and what is leased of its own. Before `start`."""
        self.remote_queues, self.apps, self.lease_expiry = homes, apps, lease_expiry

    def count_created(self) -> None:
        """A client of this node has made a queue."""
        self.queues_created += 1

    def count_declared(self) -> None:
        """A client of this node has declared a queue that is there, or is there at once."""
        self.queues_declared += 1

    def has(self, vhost: VHost) -> bool:
        """Whether a virtual host is there still, and not another one of its name."""
        return self.vhosts.get(vhost.name) is vhost

    def record_unroutable(self, vhost: str, raw: bytes, user: str, peer: object, is_returned: bool) -> None:
        """A message went to no queue (UnroutableRing.add). is_returned: its publisher is told."""
        self.unroutable += 1
        self.returned += is_returned
        self.unroutable_ring.add(self.clock.now, vhost, raw, user, peer, is_returned)

    def take_page_checks(self) -> list[PageCheck]:
        """The stored pages that were not read at the start. Once each."""
        checks, self.page_checks = self.page_checks, []
        return checks

    # -- changes that others know ----------------------------------------------------------------------------------

    def propose(self, command: commands.Command, then: Callable[[object], None] | None = None) -> Proposal:
        """Have a metadata command applied on all nodes; `then(changed)` is called when it is, and what it did is true
        at run time. Raises ValueError when it has no known form."""
        return self.replication.propose(command, then)

    def unsettled_proposal(self) -> Proposal | None:
        """For an answer that relies on what this node has removed before, maybe for another client: the newest proposal
        that is not applied yet."""
        return self.replication.newest_proposal()

    @property
    def is_clustered(self) -> bool:
        """Whether others, nodes or workers of this one, have to know of what does not outlive a restart, too."""
        return self.replication.is_clustered or self.replication.has_workers

    @property
    def fleeting_queues(self) -> int:
        """So many queues there are that end with this node."""
        return len(self._fleeting)

    def is_recorded(self, queue: Known) -> bool:
        """Whether the metadata know a queue: all that are durable, and in a cluster every one."""
        return bool(queue.queue_id < DELAY_IDS)

    def is_recorded_binding(self, vhost: VHost, source: str, binding: Binding) -> bool:
        """Whether the metadata know a binding: both of its ends."""
        entry = vhost.router.get(source)
        if entry is None or self.metadata.exchange(vhost.name, source) is None:
            return False
        destination = binding.destination
        if destination.kind == QUEUE:
            return self.metadata.queue(vhost.name, destination.name) is not None
        return self.metadata.exchange(vhost.name, destination.name) is not None

    # -- start ---------------------------------------------------------------------------------------------------

    def recover(self, now: int) -> None:
        """Read the journal. Raises StorageError."""
        journal, raft = self._journal, self._raft
        for segment, kind, payload in journal.recover(self.config.recover):
            if kind >= FIRST_RAFT_KIND:
                raft.feed_recovered(segment, kind, bytes(payload))
            else:
                self.recovery.take(segment, kind, bytes(payload))
        self.store.synced(journal.position)
        if journal.torn_tail is not None:
            log.warning("cut a torn tail: %s", journal.torn_tail)
        for part in journal.set_aside:
            log.warning("set a damaged part aside: %s", part)
        if journal.set_aside and METADATA_GROUP not in raft.recovered_groups:
            log.warning("nothing is left of the metadata: virtual hosts, users and queues are those of a first start")

    def start(self, now: int) -> None:
        """The metadata are those of the cluster: build everything, with the messages that the journal has. Raises
        StorageError."""
        recovery = self.recovery
        records = [queue for vhost in self.metadata.vhosts() for queue in self.metadata.queues(vhost.name)]
        self._check_types(records)
        ids = [
            queue_id
            for queue_type in self.types.values()
            for queue_id in queue_type.recovered_ids([each for each in records if each.type == queue_type.name])
        ]
        for vhost in self.metadata.vhosts():
            ids += [delay_id(vhost.name, each.name, each.number) for each in self._delayed(vhost.name)]
        ids += self.apps.recover(recovery.notes, now)
        if self.config.recover:
            for line in recovery.set_bad_pages_aside([*ids, *recovery.leases]):
                log.warning("set a damaged page aside: %s", line)
        seen = list(recovery.queues)
        recovery.finish(ids, self.config.recover)
        held = [queue_id for group in self.groups for queue_id in group.machine.queue_ids()]
        ids += recovery.leases
        ids += [queue_id for queue_id, letters in recovery.last_letters.items() if letters.items]
        if self.config.recover:
            self._keep_what_is_unknown(ids, held, seen)
        else:
            self._drop_orphans({*ids, *held}, seen)
        for record in self.metadata.vhosts():
            self.build_vhost(record.name)
        self.apps.restore(recovery.queues, now)
        for queue_type in self.types.values():
            queue_type.finish_recovery()
        if not self.config.recover:
            self.page_checks = page_checks(self._page_store, recovery)
        recovery.forget()

    def _check_types(self, records: list[QueueRecord]) -> None:
        """Of a queue whose type is not known nothing may be lost: it was declared with another version. Raises
        StorageError."""
        for record in records:
            if record.type not in self.types:
                raise StorageError(
                    f"queue '{record.name}' in vhost '{record.vhost}' is of type '{record.type}', and this version "
                    f"knows {', '.join(self.types)}: start the version with which it was declared, and delete it there"
                )

    def _drop_orphans(self, known: set[int], seen: list[int]) -> None:
        """Remove page files that nobody knows any more. That a queue of the journal is gone may have been heard of just
        now, and not be on this disk: its files go when it is."""
        page_store = self._page_store
        of_journal = {queue_id for queue_id in seen if queue_id < TRANSIENT_IDS}
        gone = [each for each in page_store.stored_queues() if each in of_journal and each not in known]
        page_store.drop_orphans(known, gone)
        for queue_id in gone:
            self.store.drop_pages(queue_id)

    def _keep_what_is_unknown(self, ids: list[int], held: list[int], seen: list[int]) -> None:
        """After damage: what belongs to queues of which nothing is known any more is set aside. Their ids are never
        given again, or their messages would turn up in new queues."""
        journal, page_store = self._journal, self._page_store
        unknown = [queue_id for queue_id in held if self.metadata.queue_by_id(queue_id) is None]
        seen += [*held, *page_store.stored_queues()]
        if not journal.set_aside and not self._raft.losses:
            page_store.drop_orphans({*ids, *held})
        else:
            for queue_id in page_store.stored_queues():
                if queue_id >= TRANSIENT_IDS:
                    page_store.drop_queue(queue_id)
            copies = journal.copy_aside()
            log.warning("what was left of the journal was copied: %s to %s", copies[0], copies[-1])
            for path in page_store.set_orphans_aside({*ids, *held}, unknown):
                log.warning("set pages aside that belong to no queue that is known: %s", path)
        self.propose(commands.reserve_queue_ids(max((each for each in seen if each < DELAY_IDS), default=0) + 1))

    def _delayed(self, vhost: str) -> list[ExchangeRecord]:
        return [each for each in self.metadata.exchanges(vhost) if each.type == "x-delayed-message"]

    def populate(self) -> Task:
        """The first start: one virtual host, one administrator. Who is there already keeps the password."""
        return Task(self.background, self._populate())

    def _populate(self) -> Steps:
        config = self.config
        if config.default_user and self.metadata.user(config.default_user) is None:
            password = config.default_password
            # Where members last, they would store it too.
            is_brief = config.data_dir_is_temporary and not config.cluster_listen
            if is_brief or password == PUBLIC_PASSWORD:
                stored = quick_hash(password, self.random_bytes)
            else:
                stored = yield self.hashing.hash(NewPassword(password, self.random_bytes))
            self.passwords.remember(password, stored)
            self.propose(commands.put_user(config.default_user, stored, ["administrator"]))
        self.give_cluster_id()
        self.propose(commands.put_vhost(config.default_vhost))
        if config.default_user:
            self.propose(commands.set_permission(config.default_user, config.default_vhost, ".*", ".*", ".*"))

    def give_cluster_id(self) -> None:
        """It has an id from now on, unless it has one. In a cluster others may have led, and proposed one that is not
        applied here: the first that is applied stays. Before all members know such commands there is none."""
        is_alone = self.replication.is_alone
        if not cluster_id(self.metadata) and (is_alone or self.metadata.level >= FIRST_ONE_STAYS):
            self.propose(commands.set_global_parameter(CLUSTER_ID, new_cluster_id(self.random_bytes), not is_alone))

    # -- virtual hosts ---------------------------------------------------------------------------------------------

    def build_vhost(self, name: str) -> VHost:
        """Make a virtual host as the metadata have it, its queues with the messages that were recovered."""
        now = self.clock.now
        queues = QueueTable(self._make_used)
        vhost = VHost(name, self.store, self.config.max_cached_routes, self.background.add, queues)
        self.vhosts[name] = vhost
        self.vhost_names.add(name)
        metadata = self.metadata
        for record in metadata.exchanges(name):
            if not record.is_predeclared:
                self.add_exchange(
                    vhost, record.name, record.type, record.durable, record.auto_delete, record.internal,
                    decode_table(record.arguments_raw),
                )  # fmt: skip
        # In the order in which they were declared: one that is made of another one finds it.
        for queue_record in metadata.queues(name):
            self.add_recorded_queue(vhost, queue_record)
        for binding in metadata.bindings(name):
            vhost.router.bind(
                binding.source,
                Destination(binding.destination_kind, binding.destination),
                binding.binding_key,
                decode_table(binding.arguments_raw),
            )
        recovered = self.recovery.queues
        for delayed in vhost.delayed.values():
            delayed.restore(recovered.get(delayed.queue_id), now)
        vhost.changed()
        return vhost

    def forget_vhost(self, name: str, is_own: bool, close: Callable[[VHost], Steps]) -> Task:
        """Take a virtual host with all that is in it out of the run-time side. It is gone at once, for whoever looks
        for it; its connections are closed, and then what its exchanges and queues hold is given back, all of that in
        slices. Done when all is. is_own: this node wanted it, and counts its queues."""
        vhost = self.vhosts.pop(name)
        self.vhost_names.discard(name)
        self.apps.forget_vhost(name)
        vhost.delete()
        return Task(self.background, self._give_back(vhost, is_own, close(vhost)))

    def _give_back(self, vhost: VHost, is_own: bool, closing: Steps) -> Steps:
        yield from closing
        for delayed in list(vhost.delayed.values()):
            delayed.delete()
            yield None
        names = deque(vhost.queues)
        while names:
            entry = vhost.queues.entry(names.popleft())
            if entry is not None:
                self._give_back_queue(vhost, entry, is_own)
            yield None
        vhost.router.tell_nobody()

    def _give_back_queue(self, vhost: VHost, entry: Known, is_own: bool) -> None:
        if isinstance(entry, QueueRecord):
            self.forget_unused(vhost, entry)
            self.queues_deleted += is_own and entry.durable and not entry.part_of
            return
        queue = cast("Queue", entry)
        queue.itself().vhost_deleted()
        self.forget_queue(vhost, queue)
        if is_own and not queue.declaration.part_of:
            self.count_deleted(queue)
        self._type_of(queue).forget(queue.queue_id)

    def access_changed(self, user: str, name: str | None) -> None:
        """A user, or what one may do in a virtual host (None: in all), changed: what publishers remember of routes
        includes permissions."""
        for each in self.vhosts if name is None else (name,):
            vhost = self.vhosts.get(each)
            if vhost is not None:
                vhost.access_changed(user)

    # -- exchanges and queues at run time ----------------------------------------------------------------------------

    def add_exchange(
        self, vhost: VHost, name: str, kind: str, durable: bool, auto_delete: bool, internal: bool, arguments: Table
    ) -> ExchangeEntry:
        """Make an exchange. Raises ValueError when the arguments do not suit its type."""
        exchange = create_exchange(kind, arguments)
        alternate = arguments.get("alternate-exchange")
        entry = vhost.router.add(
            name,
            exchange,
            alternate=alternate if isinstance(alternate, str) else None,
            durable=durable,
            auto_delete=auto_delete,
            internal=internal,
            arguments=arguments,
        )
        self.apply_exchange_policy(vhost, entry)
        if exchange.delays:
            record = self.metadata.exchange(vhost.name, name)
            queue_id = delay_id(vhost.name, name, record.number if record is not None else 0)
            vhost.delayed[name] = DelayedMessages(self, vhost, name, queue_id, durable)
        return entry

    def forget_exchange(self, vhost: VHost, name: str) -> list[str]:
        """Take an exchange out of the run-time side. Returns which exchanges were bound to it. What the metadata know
        of it keeps what it holds back until they do not, when this is called again."""
        for queue_id in self._ending.pop((vhost.name, name), ()):
            self.groups.of(queue_id).queue_deleted(queue_id)
        if vhost.router.get(name) is None:
            return []
        removed = vhost.router.remove(name)
        delayed = vhost.delayed.pop(name, None)
        if delayed is not None:
            delayed.delete()
            if self.metadata.exchange(vhost.name, name) is not None:
                self._ending[vhost.name, name] = (delayed.queue_id,)
        vhost.exchange_removed(name)
        return removed

    def add_recorded_queue(self, vhost: VHost, record: QueueRecord) -> None:
        """Make the queue that the metadata have, unless it is there. Raises ArgumentError, UnsupportedQueueType."""
        queues = vhost.queues
        present = queues.entry(record.name)
        if present is not None:
            if present.queue_id == record.queue_id:
                self._declared_again(vhost, record)
                return
            self.forget_recorded_queue(vhost, present.name, present.queue_id)
        owner: Owner | None = None
        if record.exclusive:
            owner = self.owners.pop((vhost.name, record.name), REMOTE_OWNER)
        queue_type = self.types[type_named(record.type).name]
        if queue_type.is_elsewhere(record.home):
            queues.await_use(record)
            self.queue_count += 1
            vhost.queue_changed(record.name)
            return
        declaration = _declaration_of(record, owner)
        queue = queue_type.create(declaration, record.queue_id, record.home, self.clock.now)
        self._take_in(vhost, queue, declaration)
        if not record.durable and record.home == self.replication.own_node:
            self._fleeting.add(record.queue_id)
        if record.exclusive and record.home == self.replication.own_node:
            if owner is None or not owner.is_in(vhost):
                self.declarations.remove_queue(vhost, queue)  # who wanted it has gone meanwhile
                return
            owner.own(queue)
        queue_type.restore(queue, self.clock.now)

    def _make_used(self, record: QueueRecord) -> Queue:
        """A queue that lives elsewhere is used here."""
        declaration = _declaration_of(record, REMOTE_OWNER if record.exclusive else None)
        queue = self.types[record.type].create(declaration, record.queue_id, record.home, self.clock.now)
        queue.declared(declaration, self.clock.now)
        return queue

    def _declared_again(self, vhost: VHost, record: QueueRecord) -> None:
        """A stream has more partitions than before, and says so in its arguments. Of what is not made there is the
        record alone, and only one."""
        queue = vhost.queues.made(record.name)
        if queue is None:
            vhost.queues.await_use(record)
            return
        declaration = queue.declaration
        if declaration.arguments.raw != record.arguments_raw:
            queue.declared(_declaration_of(record, declaration.owner), self.clock.now)

    def add_partitions(self, vhost: VHost, name: str) -> None:
        """Make a stream and its partitions as the metadata have them, so far as they are not there."""
        record = self.metadata.queue(vhost.name, name)
        if record is not None:
            for each in (record, *self.metadata.partitions(vhost.name, name)):
                self.add_recorded_queue(vhost, each)

    def _type_of(self, queue: Queue) -> QueueType:
        return self.types[queue.declaration.type]

    def _take_in(self, vhost: VHost, queue: Queue, declaration: QueueDeclaration) -> None:
        """A queue is there at run time."""
        queue.declared(declaration, self.clock.now)
        vhost.queues[declaration.name] = queue
        self.queue_count += 1
        vhost.queue_changed(declaration.name)

    def forget_recorded_queue(self, vhost: VHost, name: str, queue_id: int) -> list[str]:
        """The metadata do not have a queue any more: take it out, with what it has on the disk. Returns which
        exchanges it was bound to."""
        removed: list[str] = []
        entry = vhost.queues.entry(name)
        if entry is not None and entry.queue_id == queue_id:
            removed = vhost.router.remove_queue(name)
            if isinstance(entry, QueueRecord):
                self.forget_unused(vhost, entry)
            else:
                self.forget_queue(vhost, cast("Queue", entry))
        for queue_type in self.types.values():
            queue_type.forget(queue_id)
        return removed

    def add_queue(self, vhost: VHost, declaration: QueueDeclaration) -> Queue:
        """Make a queue that nobody else has to know. Raises ArgumentError."""
        queue_id = self._next_transient_id
        self._next_transient_id += 1
        queue = self.types[declaration.type].create(declaration, queue_id, "", self.clock.now)
        self._take_in(vhost, queue, declaration)
        self._fleeting.add(queue_id)
        return queue

    def default_queue_type(self, vhost: str, is_lasting: bool) -> str:
        """The type of a queue that is declared without one: the virtual host's for those that may be of any type
        (`is_lasting`: durable, not exclusive, not auto-delete)."""
        record = self.metadata.vhost(vhost)
        return record.default_queue_type if record is not None and is_lasting else DEFAULT_TYPE

    def apply_policies(self, vhost: VHost) -> Task:
        """A policy changed: every queue and exchange of the virtual host looks again, a few in a slice. Done when all
        have. What is declared meanwhile looks by itself. Changes that come while all look are for one look behind."""
        return vhost.next_look or vhost.look_later(Task(self.background, self._look_again(vhost, vhost.look)))

    def _look_again(self, vhost: VHost, before: Task | None) -> Steps:
        if before is not None:
            yield before
        vhost.look_now()
        for names in vhost.queue_names.in_slices(_LOOKING):
            for name in names:
                if vhost.is_deleted:
                    return
                queue = vhost.queues.made(name)
                if queue is not None and not queue.is_deleted:
                    self._type_of(queue).policies_changed(queue, self.clock.now)
                yield None
        for names in vhost.exchange_names.in_slices(_LOOKING):
            for name in names:
                entry = vhost.router.get(name)
                if entry is not None:
                    self.apply_exchange_policy(vhost, entry)
                yield None

    def apply_exchange_policy(self, vhost: VHost, entry: ExchangeEntry) -> None:
        if entry.name == DEFAULT_EXCHANGE:
            return  # as in RabbitMQ, it has none: what it does not find is unroutable, whatever a policy's pattern is
        arguments = entry.arguments or {}
        alternate = arguments.get("alternate-exchange")
        if not isinstance(alternate, str):
            policy, _ = effective_policies(self.metadata, vhost.name, "exchanges", entry.name)
            alternate = (policy or {}).get("alternate-exchange")
        vhost.router.set_alternate(entry.name, alternate if isinstance(alternate, str) else None)

    def forget_unused(self, vhost: VHost, record: QueueRecord) -> None:
        """Take a queue that is not made out of the run-time side: there is nothing of it but its name."""
        vhost.queues.pop(record.name)
        vhost.queue_changed(record.name)
        self.queue_count -= 1

    def forget_queue(self, vhost: VHost, queue: Queue) -> int:
        """Take a queue out of the run-time side. Returns how many messages were ready. What the metadata know of it
        keeps its pages until they do not: should a crash undo the deletion, they are needed."""
        self.held.release(queue, None)
        queue.declaration.disown(queue)
        queue = queue.itself()
        vhost.queues.pop(queue.name)
        vhost.queue_changed(queue.name)
        self.queue_count -= 1
        count = self._type_of(queue).delete(queue)
        queue.add_own_counters(self.gone.setdefault(queue.declaration.type, QueueSums()))
        queue.add_counters(vhost.gone)
        self.dead_letters.forget(queue)
        if queue.queue_id in self._fleeting:
            self._fleeting.discard(queue.queue_id)
            self.queues_deleted += 1
        if not self.is_recorded(queue):
            self._type_of(queue).forget(queue.queue_id)
        return count

    def count_deleted(self, queue: Queue) -> None:
        """This node has deleted a queue, which is no partition. One that is not durable is counted by the node with
        which it ends (`forget_queue`), or when that starts again (KeptTotals)."""
        self.queues_deleted += queue.declaration.is_durable

    # -- for queue types (TypeHost) and groups (GroupHost) -------------------------------------------------------------

    def remove_queue(self, queue: Queue) -> None:
        """Delete a queue for good, as nobody needs it any more, unless it goes with its virtual host."""
        if self.is_there(queue):
            self.declarations.remove_queue(self.vhosts[queue.declaration.vhost], queue)

    def is_there(self, queue: Queue) -> bool:
        """Whether a queue is in its virtual host."""
        vhost = self.vhosts.get(queue.declaration.vhost)
        return vhost is not None and vhost.queues.made(queue.name) is queue

    def knows(self, queue: Queue) -> bool:
        """The same, also of one that was made to be looked at."""
        vhost = self.vhosts.get(queue.declaration.vhost)
        return vhost is not None and vhost.queues.has(queue)

    @property
    def own_node(self) -> str:
        """See TypeHost."""
        return self.replication.own_node

    @property
    def level(self) -> int:
        """See TypeHost."""
        return self.metadata.level

    def policies_of(self, vhost: str, policy_kind: str, name: str) -> tuple[Definition, Definition]:
        """See TypeHost."""
        return effective_policies(self.metadata, vhost, policy_kind, name)

    def group_of(self, queue_id: int) -> QueueGroup:
        """See TypeHost."""
        return self.groups.of(queue_id)

    def place_queues(self, lowest: int, count: int, size: int = 0) -> list[int]:
        """See QuorumGroups."""
        return self.groups.place_queues(lowest, count, size)

    def place_queue(self, lowest: int, is_local: bool, size: int = 0) -> int:
        """See TypeHost."""
        return self.groups.place_queue(lowest, is_local, size)

    def place_beside(self, lowest: int, queue_id: int) -> int:
        """See TypeHost."""
        return self.groups.place_beside(lowest, queue_id)

    def find_queue(self, vhost: str, name: str) -> Queue | None:
        """See TypeHost."""
        found = self.vhosts.get(vhost)
        return found.queues.get(name) if found is not None else None

    def queue_by_id(self, queue_id: int) -> Queue | None:
        """The queue of this id, of those that other nodes know too."""
        record = self.metadata.queue_by_id(queue_id)
        found = self.find_queue(record.vhost, record.name) if record is not None else None
        return found if found is not None and found.queue_id == queue_id else None

    def link_to(self, home: str) -> HomeLink:
        """See TypeHost."""
        link: HomeLink = self.remote_queues.link_to(home, self.clock.now)
        return link

    def wait_for_disk(self) -> None:
        """See TypeHost."""
        self.replication.wait_for_disk()

"""Broker: what the connections of a node share: the metadata, the virtual hosts made from it, users, and the store.

A durable change is a command: `propose` writes it to the metadata log and applies it to the metadata; the caller
changes the run-time side (vhost.py, declarations.py) and answers the client once the returned ticket is synced. At a
start the same run-time side is built from the recovered metadata.
"""

from __future__ import annotations

import hashlib
import logging
from collections import deque
from collections.abc import Callable
from typing import Any

from amqp_broker.auth.passwords import VerifiedPasswords, hash_password
from amqp_broker.cluster import commands
from amqp_broker.cluster.metadata import Metadata
from amqp_broker.config import Config
from amqp_broker.dead_letters import DeadLetters
from amqp_broker.declared import QueueDeclaration
from amqp_broker.delayed import DelayedMessages
from amqp_broker.page_check import PageCheck, page_checks
from amqp_broker.policies import effective_policies
from amqp_broker.protocol.fields import Table, decode_table
from amqp_broker.reply_to import ReplyConsumers
from amqp_broker.vhost import VHost
from exchanges.bindings import Destination
from exchanges.registry import create_exchange
from queues.arguments import ArgumentError, QueueArguments, UnsupportedQueueType, parse_arguments, with_policy
from queues.classic import ClassicQueue
from queues.recovery import Recovery
from queues.store import MessageStore
from queues.timers import Timers
from storage.metadata_log import MetadataLog

log = logging.getLogger("amqp_broker")

#: Ids of queues that do not survive a restart count from here; durable ones are given by the metadata.
_TRANSIENT_IDS = 1 << 62
#: Ids of the delayed messages of exchanges lie above this, made from their names.
_DELAY_IDS = 1 << 61


class Broker:
    """Everything of a node that is not a connection."""

    def __init__(
        self,
        config: Config,
        store: MessageStore,
        metadata_log: MetadataLog,
        timers: Timers,
        random_bytes: Callable[[int], bytes],
    ) -> None:
        self.config = config
        self.store = store
        self.metadata_log = metadata_log
        self.timers = timers
        self.random_bytes = random_bytes
        self.metadata = Metadata()
        self.passwords = VerifiedPasswords(random_bytes)
        self.vhosts: dict[str, VHost] = {}
        self.reply_consumers = ReplyConsumers(random_bytes)
        self.dead_letters = DeadLetters(self)
        self.now = 0
        self.queue_count = 0
        self._next_transient_id = _TRANSIENT_IDS
        self._dropped: deque[tuple[int, int]] = deque()
        self._proposed = 0
        self._synced = 0
        self.unroutable = 0
        self.page_checks: list[PageCheck] = []

    # -- durable changes -----------------------------------------------------------------------------------------

    def propose(self, command: commands.Command) -> int:
        """Write and apply a metadata command. Returns the ticket that has to be synced before it is reported done."""
        commands.check_command(command)
        self.metadata_log.append(command)
        self.metadata.apply(command)
        self._proposed = self.ticket()
        return self._proposed

    def unsynced_proposal(self) -> int:
        """The ticket for an answer that relies on what was declared or deleted before, maybe by another client and not
        on disk yet; 0 when all of it is."""
        return self._proposed if self._proposed > self._synced else 0

    def ticket(self) -> int:
        """Covers everything that has been written so far, to the journal and to the metadata log."""
        return int(self.store.journal.position + self.metadata_log.position)

    # -- start ---------------------------------------------------------------------------------------------------

    def recover(self, now: int) -> None:
        """Build everything from the metadata log and the journal. Raises CorruptRecord."""
        self.now = now
        for command in self.metadata_log.recover(self.config.recover):
            self.metadata.apply(command)
        recovery = Recovery(self.store.pager)
        for segment, kind, payload in self.store.journal.recover(self.config.recover):
            recovery.take(segment, kind, bytes(payload))
        self.store.synced(self.store.journal.position)
        ids = [queue.queue_id for vhost in self.metadata.vhosts() for queue in self.metadata.queues(vhost.name)]
        for vhost in self.metadata.vhosts():
            ids += [self.delay_id(vhost.name, each.name) for each in self._delayed(vhost.name)]
        self._reserve_seen_ids(recovery)
        if self.config.recover:
            for line in recovery.set_bad_pages_aside(ids):
                log.warning("set a damaged page aside: %s", line)
        recovery.finish(ids)
        self.store.pager.page_store.drop_orphans(set(ids))
        if not self.metadata.vhosts():
            self._populate()
        for record in self.metadata.vhosts():
            self._build_vhost(record.name, recovery, now)
        if not self.config.recover:
            self.page_checks = page_checks(self.store.pager.page_store, recovery)
        for log_ in (self.metadata_log, self.store.journal):
            if log_.torn_tail is not None:
                log.warning("cut a torn tail: %s", log_.torn_tail)
            for part in log_.set_aside:
                log.warning("set a damaged part aside: %s", part)

    def _reserve_seen_ids(self, recovery: Recovery) -> None:
        """The journal may know a queue whose declaration the crash has undone: its id is never given again, or its
        messages would turn up in a new queue."""
        seen = max((queue_id for queue_id in recovery.queues if queue_id < _DELAY_IDS), default=0)
        if seen >= self.metadata.next_queue_id:
            self.propose(commands.reserve_queue_ids(seen + 1))

    def _delayed(self, vhost: str) -> list[Any]:
        return [each for each in self.metadata.exchanges(vhost) if each.type == "x-delayed-message"]

    @staticmethod
    def delay_id(vhost: str, exchange: str) -> int:
        """The id under which an exchange's delayed messages are stored: from its name, above all queue ids."""
        digest = hashlib.blake2b(f"{vhost}\0{exchange}".encode("utf-8", "surrogateescape"), digest_size=7).digest()
        return _DELAY_IDS + int.from_bytes(digest, "big")

    def _populate(self) -> None:
        """The first start: one virtual host, one administrator."""
        config = self.config
        self.propose(commands.put_vhost(config.default_vhost))
        if config.default_user:
            stored = hash_password(config.default_password, self.random_bytes)
            self.propose(commands.put_user(config.default_user, stored, ["administrator"]))
            self.propose(commands.set_permission(config.default_user, config.default_vhost, ".*", ".*", ".*"))

    def _build_vhost(self, name: str, recovery: Recovery | None, now: int) -> VHost:
        vhost = VHost(name, self.store, now, self.config.max_cached_routes)
        self.vhosts[name] = vhost
        metadata = self.metadata
        for record in metadata.exchanges(name):
            if not record.is_predeclared:
                self.add_exchange(
                    vhost, record.name, record.type, True, record.auto_delete, record.internal,
                    decode_table(record.arguments_raw),
                )
        for queue_record in metadata.queues(name):
            declaration = QueueDeclaration(
                queue_record.name, True, queue_record.auto_delete, None, decode_table(queue_record.arguments_raw), name
            )
            queue = self.add_queue(vhost, declaration, queue_record.queue_id)
            if recovery is not None:
                queue.restore(recovery.queues[queue.queue_id], now)
        for binding in metadata.bindings(name):
            vhost.router.bind(
                binding.source,
                Destination(binding.destination_kind, binding.destination),
                binding.binding_key,
                decode_table(binding.arguments_raw),
            )
        if recovery is not None:
            for exchange, delayed in vhost.delayed.items():
                delayed.restore(recovery.queues.get(self.delay_id(name, exchange)), now)
        vhost.changed()
        return vhost

    # -- virtual hosts ---------------------------------------------------------------------------------------------

    def put_vhost(self, name: str, **settings: Any) -> int:
        """Create a virtual host, or change its description. Returns the ticket."""
        ticket = self.propose(commands.put_vhost(name, **settings))
        if name not in self.vhosts:
            self._build_vhost(name, None, self.now)
        return ticket

    def delete_vhost(self, name: str) -> int:
        """Delete a virtual host with all that is in it; its connections are to be closed by the caller."""
        vhost = self.vhosts.pop(name)
        for queue in list(vhost.queues.values()):
            self.forget_queue(vhost, queue)
        for delayed in vhost.delayed.values():
            delayed.delete()
        vhost.queues.clear()
        vhost.changed()
        return self.propose(commands.delete_vhost(name))

    def access_changed(self) -> None:
        """Users or permissions changed: what publishers remember of routes includes permissions."""
        for vhost in self.vhosts.values():
            vhost.changed()

    # -- exchanges and queues at run time ----------------------------------------------------------------------------

    def add_exchange(
        self, vhost: VHost, name: str, kind: str, durable: bool, auto_delete: bool, internal: bool, arguments: Table
    ) -> Any:
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
        )
        entry.arguments = arguments
        self.apply_exchange_policy(vhost, entry)
        if exchange.delays:
            vhost.delayed[name] = DelayedMessages(self, vhost, name, self.delay_id(vhost.name, name), durable)
        vhost.changed()
        return entry

    def add_queue(self, vhost: VHost, declaration: QueueDeclaration, queue_id: int | None = None) -> ClassicQueue:
        """Make a queue. Raises ArgumentError, UnsupportedQueueType."""
        if queue_id is None:
            queue_id = self._next_transient_id
            self._next_transient_id += 1
        settings = self.queue_settings(vhost.name, declaration, parse_arguments(declaration.arguments))
        queue = ClassicQueue(
            declaration.name,
            queue_id,
            declaration.is_durable,
            settings,
            self.store,
            self.timers,
            self.dead_letters.add,
        )
        queue.declaration = declaration
        queue.last_used = self.now
        vhost.queues[declaration.name] = queue
        self.queue_count += 1
        vhost.changed()
        self.watch_unused(vhost, queue)
        return queue

    def queue_settings(self, vhost: str, declaration: QueueDeclaration, arguments: QueueArguments) -> QueueArguments:
        """Arguments, policies and the node's default delivery limit together."""
        policy, operator = effective_policies(self.metadata, vhost, "classic_queues", declaration.name)
        settings = with_policy(arguments, policy or {}, operator)
        if settings.delivery_limit is None and self.config.delivery_limit >= 0:
            settings = with_policy(settings, {"delivery-limit": self.config.delivery_limit})
        return settings

    def apply_policies(self, vhost: VHost) -> None:
        """A policy changed: every queue and exchange of the virtual host looks again."""
        for queue in vhost.queues.values():
            try:
                arguments = parse_arguments(queue.declaration.arguments)
            except (ArgumentError, UnsupportedQueueType) as error:
                log.error("queue '%s' in vhost '%s' keeps its settings: %s", queue.name, vhost.name, error)
                continue
            queue.apply_settings(self.queue_settings(vhost.name, queue.declaration, arguments))
            self.watch_unused(vhost, queue)
        for entry in vhost.router.entries():
            self.apply_exchange_policy(vhost, entry)
        vhost.changed()

    def apply_exchange_policy(self, vhost: VHost, entry: Any) -> None:
        arguments = entry.arguments or {}
        alternate = arguments.get("alternate-exchange")
        if not isinstance(alternate, str):
            policy, _ = effective_policies(self.metadata, vhost.name, "exchanges", entry.name)
            alternate = (policy or {}).get("alternate-exchange")
        vhost.router.set_alternate(entry.name, alternate if isinstance(alternate, str) else None)

    def forget_queue(self, vhost: VHost, queue: ClassicQueue) -> int:
        """Take a queue out of the run-time side. Returns how many messages were ready."""
        vhost.queues.pop(queue.name, None)
        self.queue_count -= 1
        count = queue.delete()
        if queue.is_durable:
            # Should a crash undo the deletion, the queue needs its pages.
            self._dropped.append((self.ticket(), queue.queue_id))
        else:
            self.store.pager.page_store.drop_queue(queue.queue_id)
        return count

    def synced(self, ticket: int) -> None:
        """Everything up to `ticket` is on disk: the pages of queues that were deleted before go."""
        self._synced = ticket
        while self._dropped and self._dropped[0][0] < ticket:
            self.store.pager.page_store.drop_queue(self._dropped.popleft()[1])

    def watch_unused(self, vhost: VHost, queue: ClassicQueue) -> None:
        """Argument x-expires: delete the queue once it was unused for so long."""
        expires = queue.settings.expires
        if expires is None:
            return

        def look(now: int) -> None:
            if queue.is_deleted or queue.settings.expires != expires:
                return
            if queue.dispatcher.consumers:
                queue.last_used = now
            due = queue.last_used + expires
            if due <= now:
                log.info("queue '%s' in vhost '%s' expired", queue.name, vhost.name)
                self.declarations.remove_queue(vhost, queue)
            else:
                self.timers.at(due, look)

        self.timers.at(queue.last_used + expires, look)

    declarations: Any = None

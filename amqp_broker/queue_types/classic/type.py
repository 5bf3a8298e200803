"""ClassicType: queues that live on one node each, whose messages are in its journal and pages."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Protocol

from amqp_broker.links.levels import LAST_LETTERS
from amqp_broker.protocol.fields import Table
from amqp_broker.queue_types.classic.unused import UnusedQueues
from amqp_broker.queue_types.contract.argument_names import arguments
from amqp_broker.queue_types.contract.declaration import QueueDeclaration
from amqp_broker.queue_types.contract.policy_keys import idle_key, keys
from amqp_broker.queue_types.contract.queue_type import QueueType, TypeHost
from amqp_broker.queue_types.remote.queue import RemoteQueue
from queues.arguments import (
    OF_ALL_QUEUES,
    OF_CLASSIC_QUEUES,
    RETRY_ARGUMENTS,
    ArgumentError,
    QueueArguments,
    WrongArgument,
    parse_arguments,
    read_classic_fields,
    with_policy,
)
from queues.classic import ClassicQueue
from queues.journaled_leases import leases_of
from queues.last_letters import forget_last_letters, keep_last_letters, post_last_letters, settings_of

if TYPE_CHECKING:
    from amqp_broker.metadata.entities import QueueRecord
    from amqp_broker.protocol.json_values import JsonObject
    from amqp_broker.queue_types.groups.group import QueueGroup
    from amqp_broker.queue_types.remote.home_link import HomeLink
    from queues.declaration import Declaration
    from queues.queue import Queue

log = logging.getLogger("amqp_broker")


class ClassicHost(TypeHost, Protocol):
    """What a node gives to classic queues besides."""

    def group_of(self, queue_id: int) -> QueueGroup:
        """The group that a queue of this id would live in, if it were of a type that lives in groups."""

    def link_to(self, home: str) -> HomeLink:
        """The link to the queues of another node."""


class ClassicType(QueueType):
    """See the module's docstring. A queue of another node is a RemoteQueue here."""

    name = "classic"
    policy_kind = "classic_queues"
    policy_keys = {  # noqa: RUF012
        **keys(
            "message-ttl", "expires", "max-length", "max-length-bytes", "overflow", "dead-letter-exchange",
            "dead-letter-routing-key", "delivery-limit", "lease-expires", "queue-mode", "queue-version",
            "queue-master-locator", "max-in-memory-length", "max-in-memory-bytes", "ha-mode", "ha-params",
            "ha-sync-mode", "ha-sync-batch-size", "ha-promote-on-shutdown", "ha-promote-on-failure",
        ),
        **idle_key("consumer-timeout", "classic queues have the node's setting consumer_timeout"),
        **idle_key("queue-leader-locator", "no policy says where a classic queue is to be (x-queue-master-locator)"),
    }  # fmt: skip
    arguments = {  # noqa: RUF012
        **arguments(*OF_ALL_QUEUES), **dict.fromkeys(OF_CLASSIC_QUEUES),
    }  # fmt: skip
    may_move = True
    inspected_as = "queue"

    _host: ClassicHost

    def __init__(self, host: ClassicHost) -> None:
        super().__init__(host)
        self._unused = UnusedQueues(host.timers, host.background, host.remove_queue)

    @classmethod
    def read(cls, arguments: Mapping[str, object]) -> QueueArguments:
        """See QueueType."""
        for key in RETRY_ARGUMENTS:
            if key in arguments:
                raise WrongArgument(key, cls.name)
        return parse_arguments(arguments)

    # -- the queues of this node ---------------------------------------------------------------------------------------

    def create(self, declaration: QueueDeclaration, queue_id: int, home: str, now: int) -> Queue:
        """See QueueType."""
        if self.is_elsewhere(home):
            return self._make_remote(declaration, queue_id, home)
        settings = self._settings(declaration)
        queue = self._host.staged.pop(queue_id, None)
        if queue is None:
            queue = self._make(declaration, queue_id, settings)
        else:
            queue.apply_settings(settings)
            queue.end_return(now)
        queue.mark_used(now)
        self._unused.watch(queue)
        return queue

    def _make_remote(self, declaration: QueueDeclaration, queue_id: int, home: str) -> RemoteQueue:
        remote = RemoteQueue(declaration.name, queue_id, declaration.is_durable, self._host.link_to(home))
        try:
            remote.settings = self._settings(declaration)
        except (ArgumentError, WrongArgument) as error:  # maybe of a newer version; its home goes by them
            log.error("settings of queue '%s' in vhost '%s', which lives at %s, are not known here: %s",
                      declaration.name, declaration.vhost, home, error)
        return remote

    def is_elsewhere(self, home: str) -> bool:
        """See QueueType."""
        return not self._is_here(home)

    def leaving(self, queue: Queue) -> ClassicQueue | None:
        """See QueueType."""
        return queue if isinstance(queue, ClassicQueue) else None

    def rest(self, queue: Queue) -> None:
        """See QueueType."""
        if isinstance(queue, ClassicQueue):
            self._unused.forget(queue)

    def stage(self, declaration: QueueDeclaration, queue_id: int) -> ClassicQueue:
        """See QueueType."""
        queue = self._make(declaration, queue_id, self._settings(declaration))
        queue.begin_return([[]])
        return queue

    def _make(self, declaration: QueueDeclaration, queue_id: int, settings: QueueArguments) -> ClassicQueue:
        host = self._host
        queue = ClassicQueue(
            declaration.name,
            queue_id,
            declaration.is_durable,
            settings,
            host.store,
            host.timers,
            host.background,
            host.dead_letters,
        )
        queue.declaration = declaration
        return queue

    def _is_here(self, home: str) -> bool:
        return home in ("", self._host.own_node)

    def _settings(self, declaration: Declaration) -> QueueArguments:
        """Arguments, policies and the node's default delivery limit together. Raises ArgumentError, WrongArgument."""
        fields = read_classic_fields(declaration.arguments)
        policy, operator = self._host.policies_of(declaration.vhost, self.policy_kind, declaration.name)
        limit = self._host.config.delivery_limit
        return with_policy(fields, policy or {}, operator, delivery_limit=limit if limit >= 0 else None)

    def restore(self, queue: Queue, now: int) -> None:
        """See QueueType."""
        recovery = self._host.recovery
        recovered, leases = recovery.queues.get(queue.queue_id), recovery.leases_of(queue.queue_id)
        if recovered is not None:
            assert isinstance(queue, ClassicQueue)  # the home has its messages
            queue.restore(recovered, now)
        for lease in leases:
            assert isinstance(queue, ClassicQueue)
            leases_of(queue).restore(lease, now)

    def policies_changed(self, queue: Queue, now: int) -> None:
        """See QueueType."""
        if not isinstance(queue, ClassicQueue):
            return  # its home looks
        declaration = queue.declaration
        try:
            settings = self._settings(declaration)
        except (ArgumentError, WrongArgument) as error:
            log.error("queue '%s' in vhost '%s' keeps its settings: %s", queue.name, declaration.vhost, error)
            return
        queue.apply_settings(settings)
        self._unused.watch(queue)
        self._host.lease_expiry.watch_all(queue)

    def delete(self, queue: Queue) -> int:
        """See QueueType."""
        if not isinstance(queue, ClassicQueue):
            return int(queue.delete())
        self._unused.forget(queue)
        self._host.lease_expiry.forget_all(queue)
        count = queue.delete()
        if self._host.level >= LAST_LETTERS and keep_last_letters(queue, queue.declaration.vhost):
            # What makes the deletion true is proposed next: it may be committed by others before this disk has them.
            self._host.wait_for_disk()
        return count

    def forget(self, queue_id: int) -> None:
        """See QueueType."""
        if not self._host.group_of(queue_id).had(queue_id):
            self._host.store.drop_pages(queue_id)

    # -- start ---------------------------------------------------------------------------------------------------------

    def recovered_ids(self, records: Iterable[QueueRecord]) -> list[int]:
        """See QueueType."""
        return [record.queue_id for record in records if self._is_here(record.home)]

    def finish_recovery(self) -> None:
        """What queues had given up that are deleted goes on to where it was to go."""
        host = self._host
        recovery = host.recovery
        for queue_id in recovery.undone:
            forget_last_letters(host.store, queue_id)
        for letters in recovery.last_letters.values():
            for line in letters.lost:
                log.warning("set a damaged page aside: %s", line)
            if not letters.items:
                continue
            declaration = QueueDeclaration(letters.name, True, False, None, Table({}), letters.vhost)
            queue = self._make(declaration, letters.queue_id, settings_of(letters))
            post_last_letters(queue, letters)
            host.store.drop_pages(queue.queue_id)

    # -- statistics ----------------------------------------------------------------------------------------------------

    @classmethod
    def figures(cls, queue: Queue) -> JsonObject:
        """See QueueType. What a queue of another node has done, that node knows."""
        if not isinstance(queue, ClassicQueue):
            return {}
        return {
            "message_bytes_ready": queue.ready.message_bytes,
            "published": queue.published,
            "delivered": queue.delivered + queue.auto_acked,
            "redelivered": queue.redelivered,
            "settled": queue.settled_count,
            "dead_letters": queue.letters.count if queue.letters is not None else 0,
        }

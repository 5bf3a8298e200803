"""The world around queues, as a node makes it: a disk, a journal, a page store, turns and syncs. Everything is tiny, so
that a handful of messages pages, rotates and retires.
"""

from __future__ import annotations

from amqp_broker.routing.vhost import VHost
from amqp_broker.turn.sync_job import SyncJob
from queues.arguments import QueueArguments
from queues.background import Background
from queues.classic import ClassicQueue
from queues.consumer import Consumer
from queues.journaled_leases import leases_of
from queues.message import Address, Entry, Message, build_message
from queues.page import Page
from queues.pager import Pager
from queues.reason import Reason
from queues.recovery import RecoveredQueue, Recovery
from queues.store import MessageStore
from queues.timers import Timers
from storage.disk import Disk
from storage.journal import Journal
from storage.page_store import PageStore

JOURNAL_SEGMENT_BYTES = 1500
JOURNAL_LIMIT_BYTES = 4000
PAGE_SEGMENT_BYTES = 1200
PAGE_BYTES = 500
BUDGET_BYTES = 5000
HEAD_MESSAGES = 3
HEAD_BYTES = 1500

ADDRESS = Address(b"\x08exchange\x03key")


def message_named(
    name: int, body_size: int = 0, is_persistent: bool = True, priority: int = -1, expiration: int = -1
) -> Message:
    """A message whose body begins with its name."""
    body = (b"%d " % name).ljust(body_size, b".")
    return build_message(ADDRESS, b"\x00\x00", body, is_persistent, priority, expiration, 1)


def name_of(message: Message) -> int:
    """The name that `message_named` gave."""
    return int(message.body_bytes().split(b" ")[0])


class Client(Consumer):
    """Takes up to `limit` unsettled entries. `log` gets (consumer, entry or None, message, redelivered) each time."""

    def __init__(
        self,
        log: list[tuple[Client, Entry | None, Message, bool]],
        limit: int,
        no_ack: bool = False,
        priority: int = 0,
    ) -> None:
        super().__init__(no_ack, priority)
        self.log = log
        self.limit = limit
        self.unsettled = 0
        self.is_paused = False
        self.is_gone = False

    def has_credit(self) -> bool:
        return not self.is_paused and (self.no_ack or self.unsettled < self.limit)

    def deliver(self, entry: Entry) -> None:
        self.unsettled += 1
        self.log.append((self, entry, entry.message, entry.is_redelivered))

    def deliver_at_once(self, message: Message, is_redelivered: bool) -> None:
        self.log.append((self, None, message, is_redelivered))

    def on_queue_gone(self) -> None:
        self.is_gone = True


class World:
    """A node's storage with durable queues 1, 2, ... of the given settings, recovered from `disk`.

    dead_letters: (queue id, message, reason). found: (sequence, name, returns) of what was on disk, in order.
    """

    def __init__(
        self, disk: Disk, settings: list[QueueArguments], now: int = 1, budget_bytes: int = BUDGET_BYTES
    ) -> None:
        self.disk = disk
        self.now = now
        self.timers = Timers()
        self.background = Background()
        self.backlog = 0
        self.is_posting = False
        self.page_store = PageStore(disk, PAGE_SEGMENT_BYTES)
        self.pager = Pager(self.page_store, budget_bytes, PAGE_BYTES, HEAD_MESSAGES, HEAD_BYTES)
        self.journal = Journal(disk, segment_bytes=JOURNAL_SEGMENT_BYTES)
        self.store = MessageStore(self.journal, self.pager, JOURNAL_LIMIT_BYTES)
        self.store.leave_slice, self.store.leave_bytes = 1, 200
        self.vhost = VHost("/", self.store, 1000)
        self.dead_letters: list[tuple[int, Message, str]] = []
        self.job: SyncJob | None = None
        recovery = Recovery(self.pager)
        for segment, kind, payload in self.journal.recover():
            recovery.take(segment, kind, bytes(payload))
        ids = list(range(1, len(settings) + 1))
        recovery.finish(ids)
        self.page_store.drop_orphans([*ids, *recovery.leases])
        self.found = {queue_id: self._look_at(recovery.queues[queue_id], queue_id) for queue_id in ids}
        self.queues = [self._queue(queue_id, settings[queue_id - 1]) for queue_id in ids]
        for queue in self.queues:
            queue.restore(recovery.queues[queue.queue_id], now)
            for lease in recovery.leases_of(queue.queue_id):
                leases_of(queue).restore(lease, now)

    def _queue(self, queue_id: int, settings: QueueArguments) -> ClassicQueue:
        return ClassicQueue(
            f"queue {queue_id}", queue_id, True, settings, self.store, self.timers, self.background, self
        )

    def post(self, queue: ClassicQueue, entry: Entry, reason: Reason, now: int) -> int:
        """As Post of queues/letters.py."""
        self.dead_letters.append((queue.queue_id, entry.message, reason.word))
        return 1

    def refuse(self, queue: ClassicQueue, message: Message) -> None:
        """As Post of queues/letters.py."""
        queue.post_refused(message, self.now)

    def discard(self, queue: ClassicQueue) -> None:
        """As Post of queues/letters.py."""

    def _look_at(self, recovered: RecoveredQueue, queue_id: int) -> list[tuple[int, int, int]]:
        found = []
        for item in recovered.items:
            if isinstance(item, Page):
                self.pager.load(queue_id, item)
                entries = item.entries(self.pager.addresses)
                self.pager.drop(item)
            else:
                entries = [item]
            found += [(entry.sequence, name_of(entry.message), entry.returns) for entry in entries]
        return sorted(found)

    def disk_entries(self) -> list[tuple[int, int, bytes]]:
        """The journal as it is on the disk now: (segment, kind, payload)."""
        return [(segment, kind, bytes(payload)) for segment, kind, payload in Journal(self.disk).recover()]

    # -- turns and syncs, as amqp_broker/node.py does them -------------------------------------------------------------

    def end_turn(self) -> None:
        self.work()
        self.store.end_turn()
        self.store.shorten()
        if self.pager.used > self.pager.tight_bytes:
            for queue in self.queues:
                queue.ready.page_out(self.pager.used - self.pager.tight_bytes)
                for group in queue.leased():
                    group.page_out(self.pager.used - self.pager.tight_bytes)

    def begin_sync(self) -> None:
        """Take everything that was written so far."""
        self.end_turn()
        pages = self.store.take_page_sync()
        position = self.journal.position
        batch = self.journal.take_batch()
        self.job = SyncJob(position, self.journal, batch, pages)

    def finish_sync(self) -> None:
        """Bring it to the disk, and do what waited for it. Raises SimulatedCrash."""
        job = self.job
        assert job is not None
        job.run()
        self.job = None
        job.finish()
        self.store.synced(job.position)

    def sync(self) -> None:
        """A whole sync; one in flight is finished first."""
        if self.job is not None:
            self.finish_sync()
        self.begin_sync()
        self.finish_sync()

    def advance(self, milliseconds: int) -> None:
        """Time passes."""
        self.now += milliseconds
        self.timers.run(self.now)
        self.work()
        self.dispatch()

    def work(self) -> None:
        """What is left to do in slices."""
        self.background.work(self.now)

    def dispatch(self) -> None:
        for queue in self.queues:
            if not queue.is_deleted:
                queue.dispatch(self.now)

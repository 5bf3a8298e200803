"""LeaseSource: the lease groups of one queue, wherever its log is, as the verbs of lease.* use them.

What changes a group is told to `then` when it is durable: a dictionary with the fields of the answer, or LeaseError. It
is called once, at once or later. Reading is at once.

ClassicSource is the one of a queue whose home is this node; QuorumSource (quorum_source.py) of a quorum queue.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from amqp_broker.leases.blob import BlobWriter
from amqp_broker.leases.errors import FENCED, GONE, INVALID, NOT_FOUND, LeaseError
from queues.dispatcher import Dispatcher
from queues.leases import open_lease
from queues.message_log import RangeGone

if TYPE_CHECKING:
    from amqp_broker.leases.answer import Answer
    from amqp_broker.leases.service import Leases
    from queues.classic import ClassicQueue
    from queues.leases import LeaseGroup

Outcome = dict[str, Any] | LeaseError
Then = Callable[[Outcome], None]


class Caller(NamedTuple):
    """Who calls: the group's name, its incarnation and its owner as the caller knows them."""

    group: str
    incarnation: str
    owner: str


class Moved(NamedTuple):
    """What a step of a claim has come to. held, held_bytes: messages that the group holds beyond `after` now, and their
    octets, about; moved, moved_bytes: those of them that this step has moved; is_all: nothing more is ready."""

    held: int
    held_bytes: int
    moved: int
    moved_bytes: int
    is_all: bool


ThenMoved = Callable[[Moved | LeaseError], None]


class LeaseSource:
    """The groups of one queue, whose name and id these are."""

    name: str
    queue_id: int
    #: So many messages at most are moved in one step of a claim.
    step_messages = 4096

    def is_exclusive(self) -> bool:
        """Whether a consumer has the queue for itself alone."""
        raise NotImplementedError

    def open(self, group: str, owner: str, then: Then) -> None:
        """lease.open: incarnation, trimmed, next."""
        raise NotImplementedError

    def move(
        self, caller: Caller, after: int, count: int, octets: int, is_first: bool, then: ThenMoved
    ) -> None:
        """A step of lease.claim: move up to `count` ready messages of so many octets to the group. Nothing, if this is
        the first step and the group already holds some beyond `after`."""
        raise NotImplementedError

    def settle(self, then: Callable[[], None]) -> None:
        """Call `then` when all that was moved is durable."""
        raise NotImplementedError

    def watch(self, wake: Callable[[], None]) -> None:
        """Call `wake` once, when there is something to move again."""
        raise NotImplementedError

    def read(self, group: str, incarnation: str, first: int, last: int, writer: BlobWriter) -> int:
        """lease.fetch: as much of [first, last) as the writer takes. Returns where it stops. Raises LeaseError."""
        raise NotImplementedError

    def catch_up(self, group: str, incarnation: str, then: Callable[[LeaseError | None], None]) -> bool:
        """Where reading may be from a state that is behind: call `then` when it is not behind the present time any
        more, or with why the group is not there. False: it never is."""
        return False

    def ack(self, caller: Caller, upto: int, then: Then) -> None:
        """lease.ack: trimmed."""
        raise NotImplementedError

    def release(self, caller: Caller, then: Then) -> None:
        """lease.release: released."""
        raise NotImplementedError

    def statistics(self) -> tuple[int, list[dict[str, Any]]]:
        """lease.stat: how many messages are ready, and what there is to say of each group."""
        raise NotImplementedError


class ClassicSource(LeaseSource):
    """Of a classic queue of this node, whose groups take whole pages."""

    step_messages = 65_536

    def __init__(self, desk: Leases, queue: ClassicQueue) -> None:
        self.name = queue.name
        self.queue_id = queue.queue_id
        self._desk = desk
        self._queue = queue

    def is_exclusive(self) -> bool:
        """See LeaseSource."""
        return has_exclusive(self._queue.dispatcher)

    def _find(self, group: str, incarnation: str) -> LeaseGroup:
        if self._queue.is_deleted:
            raise LeaseError(NOT_FOUND, f"queue '{self.name}' was deleted")
        found: LeaseGroup | None = self._queue.lease_groups.get(group)
        if found is None or found.incarnation != incarnation:
            raise gone(self.name, group, incarnation)
        return found

    def _find_own(self, caller: Caller) -> LeaseGroup:
        found = self._find(caller.group, caller.incarnation)
        if found.owner != caller.owner:
            raise fenced(self.name, caller.group)
        return found

    def open(self, group: str, owner: str, then: Then) -> None:
        """See LeaseSource."""
        queue, desk = self._queue, self._desk
        found = queue.lease_groups.get(group)
        if found is None:
            limit = desk.config.max_lease_groups
            if len(queue.lease_groups) >= limit:
                then(LeaseError(INVALID, too_many(self.name, limit)))
                return
            found = open_lease(queue, group, owner, desk.random_bytes(16).hex(), desk.now)
        else:
            found.set_owner(owner, desk.now)
        desk.expiry.watch(queue, found)
        said = {"incarnation": found.incarnation, "trimmed": found.trimmed, "next": found.next}
        desk.after_sync(lambda: then(said))

    def move(
        self, caller: Caller, after: int, count: int, octets: int, is_first: bool, then: ThenMoved
    ) -> None:
        """See LeaseSource."""
        try:
            group = self._find_own(caller)
            check_after(self.name, caller.group, after, group.trimmed, group.next)
        except LeaseError as error:
            then(error)
            return
        group.last_called = now = self._desk.now
        before = group.bytes
        moved = 0 if is_first and group.next > after else group.claim(count, octets, now)
        moved_bytes = group.bytes - before
        held = group.next - after
        held_bytes = group.bytes * held // max(1, group.count)
        then(Moved(held, held_bytes, moved, moved_bytes, moved < count and not self._queue.ready.count))

    def settle(self, then: Callable[[], None]) -> None:
        """See LeaseSource."""
        self._desk.after_sync(then)

    def watch(self, wake: Callable[[], None]) -> None:
        """See LeaseSource."""
        self._queue.watcher = wake

    def read(self, group: str, incarnation: str, first: int, last: int, writer: BlobWriter) -> int:
        """See LeaseSource."""
        found = self._find(group, incarnation)
        try:
            return write_range(found, first, last, writer)
        except RangeGone as error:
            raise LeaseError(GONE, f"group '{group}' of queue '{self.name}': {error}") from None

    def ack(self, caller: Caller, upto: int, then: Then) -> None:
        """See LeaseSource."""
        try:
            group = self._find_own(caller)
            group.ack(upto, self._desk.now)
        except LeaseError as error:
            then(error)
            return
        except RangeGone as error:
            then(LeaseError(GONE, f"group '{caller.group}' of queue '{self.name}': {error}"))
            return
        trimmed = group.trimmed
        self._desk.after_sync(lambda: then({"trimmed": trimmed}))

    def release(self, caller: Caller, then: Then) -> None:
        """See LeaseSource. Of a group that is gone: there is nothing left to do."""
        found = self._queue.lease_groups.get(caller.group)
        released = 0
        if found is not None and found.incarnation == caller.incarnation:
            if found.owner != caller.owner:
                then(fenced(self.name, caller.group))
                return
            released = found.release(self._desk.now)
        self._desk.after_sync(lambda: then({"released": released}))

    def statistics(self) -> tuple[int, list[dict[str, Any]]]:
        """See LeaseSource."""
        return self._queue.message_count(), group_list(self._queue.lease_groups, self._desk.now)


def giving(answer: Answer) -> Then:
    """Gives an outcome to who asked."""

    def give(outcome: Outcome) -> None:
        if isinstance(outcome, LeaseError):
            answer.refuse(outcome)
        else:
            answer.give(outcome)

    return give


def has_exclusive(dispatcher: Dispatcher) -> bool:
    """Whether the first of a queue's consumers has it for himself alone."""
    first: Any = dispatcher.first()
    return first is not None and bool(first.is_exclusive)


def write_range(log: Any, first: int, last: int, writer: BlobWriter) -> int:
    """The messages of [first, last) of a MessageLog, as far as the writer takes them. Returns where it stops. Raises
    RangeGone."""
    offset: int = first
    while True:
        for stretch in log.read(offset, last, max(1, writer.room())):
            taken = writer.add_records(stretch.first, stretch.data, stretch.start, stretch.end)
            offset = int(stretch.first + taken)
            if taken < stretch.messages:
                return offset
        if offset >= last or not writer.room():
            return offset


def group_list(groups: Mapping[str, Any], now: int) -> list[dict[str, Any]]:
    """What there is to say of the groups of a queue, in order of their names."""
    return [
        {
            "group": group.name,
            "incarnation": group.incarnation,
            "owner": group.owner,
            "trimmed": group.trimmed,
            "next": group.next,
            "bytes": group.bytes,
            "age_ms": max(0, now - group.last_called),
        }
        for _, group in sorted(groups.items())
    ]


def gone(queue: str, group: str, incarnation: str) -> LeaseError:
    """There is no such group, or it is another one."""
    return LeaseError(
        GONE,
        f"queue '{queue}' has no group '{group}' of incarnation {incarnation!r}: it was released, or the queue was "
        "declared anew; lease.open tells what there is",
    )


def fenced(queue: str, group: str) -> LeaseError:
    """The group has another owner now."""
    return LeaseError(
        FENCED, f"group '{group}' of queue '{queue}' was opened by somebody else meanwhile, who owns it now"
    )


def too_many(queue: str, limit: int) -> str:
    """What to say of a group too many."""
    return f"queue '{queue}' has {limit} lease groups, the limit (max_lease_groups): release one"


def check_after(queue: str, group: str, after: int, trimmed: int, end: int) -> None:
    """A claim goes on where the group's log has something, or ends. Raises LeaseError."""
    if not trimmed <= after <= end:
        raise LeaseError(
            GONE, f"group '{group}' of queue '{queue}' holds offsets {trimmed} to {end}, and {after} is not among them"
        )

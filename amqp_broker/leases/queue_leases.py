"""QueueLeases: the lease groups of one queue, as the verbs of lease.* use them, wherever its log is (LeaseSource).

What changes a group is told to `then` when it is durable: a dictionary with the fields of the answer, or LeaseError. It
is called once, at once or later. Reading is at once; where it may be from a state that is behind, what is not there is
looked for again when everything has come that was in the log before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from amqp_broker.leases.blob import BlobWriter
from amqp_broker.leases.errors import BUSY, FENCED, GONE, INVALID, NOT_FOUND, LeaseError
from amqp_broker.protocol.json_values import JsonObject
from queues.effects import Refusal
from queues.lease_source import Caller
from queues.message_log import RangeGone

if TYPE_CHECKING:
    from amqp_broker.leases.answer import Answer
    from amqp_broker.leases.service import Leases
    from queues.lease_source import LeasedGroup, LeaseSource

Outcome = JsonObject | LeaseError
Then = Callable[[Outcome], None]

#: Nobody owns a group by this name: a command in it changes nothing, and tells whether the group is there.
_NOBODY = ""


class Moved(NamedTuple):
    """What a step of a claim has come to. held, held_bytes: messages that the group holds beyond `after` now, and their
    octets, about; moved, moved_bytes: those of them that this step has moved; is_all: nothing more is ready."""

    held: int
    held_bytes: int
    moved: int
    moved_bytes: int
    is_all: bool


ThenMoved = Callable[[Moved | LeaseError], None]


class QueueLeases:
    """The groups of one queue, whose name and id these are."""

    def __init__(self, service: Leases, name: str, queue_id: int, source: LeaseSource) -> None:
        self.name = name
        self.queue_id = queue_id
        self.source = source
        self.step_messages = source.step_messages
        self._service = service

    def _error(self, refusal: Refusal, caller: Caller, out_of_range: str = "") -> LeaseError:
        """out_of_range: what to say where the group is there, and does not hold what was named."""
        if refusal is Refusal.FENCED:
            return fenced(self.name, caller.group)
        if refusal is Refusal.LEASE_GONE:
            found = self.source.groups().get(caller.group)
            if self.source.is_local and found is not None and found.incarnation == caller.incarnation:
                return LeaseError(GONE, f"group '{caller.group}' of queue '{self.name}'{out_of_range}")
            return gone(self.name, caller.group, caller.incarnation)
        if refusal is Refusal.NO_QUEUE and self.source.is_local:
            return LeaseError(NOT_FOUND, f"queue '{self.name}' was deleted")
        return LeaseError(BUSY, f"queue '{self.name}': nobody knows whether it was done: ask again")

    def _find(self, caller: Caller) -> LeasedGroup:
        found = self.source.groups().get(caller.group)
        if found is None and not self.source.is_here():
            raise LeaseError(BUSY, f"queue '{self.name}' has no copy on this node any more: ask again")
        if found is None or found.incarnation != caller.incarnation:
            raise gone(self.name, caller.group, caller.incarnation)
        return found

    def settle(self, then: Callable[[], None]) -> None:
        """Call `then` when all that was done is durable."""
        if self.source.is_local:
            self._service.after_sync(then)
        else:
            then()

    def open(self, group: str, owner: str, then: Then) -> None:
        """lease.open: incarnation, trimmed, next."""
        source, service = self.source, self._service
        groups, limit = source.groups(), service.config.max_lease_groups
        known = groups.get(group)
        if known is None and len(groups) >= limit:
            text = f"queue '{self.name}' has {limit} lease groups, the limit (max_lease_groups): release one"
            then(LeaseError(INVALID, text))
            return

        def opened(refusal: Refusal | None) -> None:
            found = source.groups().get(group)
            if refusal is not None or found is None:
                then(self._error(refusal or Refusal.UNKNOWN, Caller(group, "", owner)))
                return
            if source.is_local:
                service.expiry.watch(self.name, source, found)
            said = {"incarnation": found.incarnation, "trimmed": found.trimmed, "next": found.next}
            self.settle(lambda: then(said))

        is_known = known is not None and source.is_local
        incarnation = known.incarnation if is_known and known is not None else service.random_bytes(16).hex()
        source.open(Caller(group, incarnation, owner), service.now, opened)

    def move(
        self, caller: Caller, after: int, count: int, octets: int, is_first: bool, then: ThenMoved
    ) -> None:
        """A step of lease.claim: move up to `count` ready messages of so many octets to the group. Nothing, if this is
        the first step and the group already holds some beyond `after`."""
        source = self.source
        known = source.groups().get(caller.group)
        is_known = known is not None and known.incarnation == caller.incarnation
        before = max(after, known.next) if is_known and known is not None else after
        octets_before = known.bytes if is_known and known is not None else 0
        range_known = f" holds offsets {known.trimmed} to {known.next}, and {after} is not among them" if known else ""

        def claimed(refusal: Refusal | None) -> None:
            try:
                if refusal is not None:
                    raise self._error(refusal, caller, range_known)
                group = self._find(caller)
                _check_after(self.name, caller.group, after, group)
            except LeaseError as error:
                then(error)
                return
            held = group.next - after
            moved = max(0, group.next - before)
            moved_bytes = max(0, group.bytes - octets_before)
            # Of a log that is elsewhere what is ready may be known too late, and asking again takes time.
            is_short = not source.is_local and is_first and moved < count and 2 * moved_bytes < octets
            held_bytes = group.bytes * held // max(1, group.count)
            then(Moved(held, held_bytes, moved, moved_bytes, is_short or not source.ready_count()))

        source.claim(caller, after, count, octets, not is_first, self._service.now, claimed)

    def watch(self, wake: Callable[[], None]) -> None:
        """Call `wake` once, when there is something to move again."""
        self.source.watch(wake)

    def read(self, group: str, incarnation: str, first: int, last: int, writer: BlobWriter) -> int:
        """lease.fetch: as much of [first, last) as the writer takes. Returns where it stops. Raises LeaseError."""
        found = self._find(Caller(group, incarnation, _NOBODY))
        try:
            return _write_range(found, first, last, writer)
        except RangeGone as error:
            raise LeaseError(GONE, f"group '{group}' of queue '{self.name}': {error}") from None

    def catch_up(self, group: str, incarnation: str, then: Callable[[LeaseError | None], None]) -> bool:
        """Where reading may be from a state that is behind: call `then` when it is not behind the present time any
        more, or with why the group is not there. False: it never is."""
        if self.source.is_local:
            return False
        caller = Caller(group, incarnation, _NOBODY)

        def caught_up(refusal: Refusal | None) -> None:
            then(None if refusal is None or refusal is Refusal.FENCED else self._error(refusal, caller))

        self.source.ack(caller, 0, self._service.now, caught_up)
        return True

    def ack(self, caller: Caller, upto: int, then: Then) -> None:
        """lease.ack: trimmed."""

        def acknowledged(refusal: Refusal | None) -> None:
            found = self.source.groups().get(caller.group)
            if refusal is not None or found is None:
                end = found.next if found is not None else 0
                beyond = f": offset {upto} of group '{caller.group}' is not there yet: it ends at {end}"
                then(self._error(refusal or Refusal.UNKNOWN, caller, beyond))
                return
            said = {"trimmed": found.trimmed}
            self.settle(lambda: then(said))

        self.source.ack(caller, upto, self._service.now, acknowledged)

    def release(self, caller: Caller, then: Then) -> None:
        """lease.release: released. Of a group that is gone: there is nothing left to do."""
        found = self.source.groups().get(caller.group)
        count = found.count if found is not None and found.incarnation == caller.incarnation else 0

        def released(refusal: Refusal | None) -> None:
            if refusal is None or refusal is Refusal.LEASE_GONE:
                self.settle(lambda: then({"released": count if refusal is None else 0}))
            else:
                then(self._error(refusal, caller))

        self.source.release(caller, self._service.now, released)

    def statistics(self) -> tuple[int, list[JsonObject]]:
        """lease.stat: how many messages are ready, and what there is to say of each group."""
        return self.source.ready_count(), group_list(self.source.groups(), self._service.now)


def giving(answer: Answer) -> Then:
    """Gives an outcome to who asked."""

    def give(outcome: Outcome) -> None:
        if isinstance(outcome, LeaseError):
            answer.refuse(outcome)
        else:
            answer.give(outcome)

    return give


def _write_range(log: LeasedGroup, first: int, last: int, writer: BlobWriter) -> int:
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


def group_list(groups: Mapping[str, LeasedGroup], now: int) -> list[JsonObject]:
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


def _check_after(queue: str, name: str, after: int, group: LeasedGroup) -> None:
    """A claim goes on where the group's log has something, or ends. Raises LeaseError."""
    if not group.trimmed <= after <= group.next:
        raise LeaseError(
            GONE,
            f"group '{name}' of queue '{queue}' holds offsets {group.trimmed} to {group.next}, and {after} is not "
            "among them",
        )

"""DeadLetterPublisher: takes the dead letters of a group's quorum queues where they are to go, on the node that leads.

    DeadLettered -> noted -> work: published, with a receipt -> done in all its queues, and synced -> Dispatched
                      ^------- not done: tried again after RETRY_MS

It publishes in slices (queues/background.py); of a queue at most WINDOW letters are under way (quorum/letters.py).

Letters are part of the group's state until the log says Dispatched, so a leader that is lost loses none; the next one
takes them all again. Quorum queues recognise what comes again, by the numbers of a queue's letters; but where letters
are tried again until they find room (`x-dead-letter-strategy` `at-least-once`) they may come behind later ones, and are
not numbered; who has such a letter is known here, and a next leader tries them all. A classic queue may get a letter
twice, if this node is not alone.

Invariants:
1. Dispatched is proposed only for letters all of whose queues have them: applied by their logs, or on this disk. A node
   alone writes it into the journal behind the letter: in the same turn, so that after a crash both are there or none.
2. It names the last letter of a run, so a letter that is tried again holds back those behind it.
3. The letters of a queue are published in order for the first time, if they are numbered.
4. A letter is counted once, however many leaders have published it: by the node whose Dispatched was applied.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

from amqp_broker.queue_types.proxy.command_sink import LETTERS_OF
from queues.effects import DeadLettered, Refusal
from queues.quorum.commands import Dispatched
from queues.receipts import JointReceipt, LetterReceipt, TriedReceipt

if TYPE_CHECKING:
    from amqp_broker.queue_types.groups.group import QueueGroup
    from amqp_broker.queue_types.groups.groups import QuorumGroups
    from queues.background import Background
    from queues.message import Message
    from queues.reason import Reason
    from queues.receipts import Receipt
    from storage.journal import Journal


#: A letter that found no queue, or full ones, is tried again after so long, milliseconds.
RETRY_MS = 1000

#: What a letter costs of a slice: it is published, and more is kept of it than of those of classic queues.
_LETTER_COST = 12


class _Unsynced(NamedTuple):
    """A letter that waits for this node's disk."""

    position: int
    queue_id: int
    letter: int


class _GivesUp(Protocol):
    """A queue of the group that has dead letters."""

    @property
    def gives_up_at_least_once(self) -> bool:
        """Whether a letter is tried again until all the queues have it that it goes to."""

    def publish_letter(self, message: Message, reason: Reason, now: int, receipt: Receipt) -> bool:
        """Publish one. Returns whether it went anywhere."""

    def letter_cycles(self) -> int:
        """What `count_letter` is to be told of the letter that was just published."""

    def count_letter(self, reason: Reason, cycles: int) -> None:
        """One is done."""


class _Uncounted(NamedTuple):
    """A letter that was published here, and counts when the log says so. cycles: see DeadLetters.count."""

    letter: int
    queue: _GivesUp
    reason: Reason
    cycles: int


class _Proposed(NamedTuple):
    """Letters that count when the entry that this node has proposed for them is applied: which one."""

    entry: int
    term: int
    letters: list[_Uncounted]


class DeadLetterPublisher:
    """The letters of one group, while this node leads it."""

    def __init__(
        self, group: QueueGroup, groups: QuorumGroups, journal: Journal, background: Background
    ) -> None:
        self._group = group
        self._clock = group.clock
        self._machine = group.machine
        self._groups = groups
        self._journal = journal
        self._background = background
        self._noted: deque[DeadLettered] = deque()
        self._again: deque[tuple[int, DeadLettered]] = deque()
        # Of letters that are tried until all have them, by queue and letter: who does.
        self._have: dict[tuple[int, int], set[str]] = {}
        # And up to where this node's journal has what earlier tries have written.
        self._written: dict[tuple[int, int], int] = {}
        self._early: dict[int, int] = {}  # the last letter of a queue among those that wait until this node knows it
        self._under_way: dict[int, dict[int, bool]] = {}
        self._unsynced: deque[_Unsynced] = deque()
        self._dispatched: dict[int, int] = {}
        self._uncounted: dict[int, deque[_Uncounted]] = {}
        self._term = 0
        self._is_working = False
        #: There are letters, or there was one a moment ago: without any there is nothing to be called for.
        self.is_active = False
        #: What waits for the log, in the order of indices but for those of another leadership.
        self.proposed: deque[_Proposed] = deque()

    def reset(self) -> None:
        """Another one leads, or this one in a later term: letters come again."""
        self._term += 1
        self._noted.clear()
        self._again.clear()
        self._early.clear()
        self._have.clear()
        self._written.clear()
        self._under_way.clear()
        self._unsynced.clear()
        self._dispatched.clear()
        self._uncounted.clear()
        self.is_active = False

    def note(self, effect: DeadLettered) -> None:
        """A letter is to be published."""
        self.is_active = True
        self._under_way.setdefault(effect.queue_id, {})[effect.letter] = False
        self._noted.append(effect)

    def _is_due(self, now: int) -> bool:
        return bool(self._noted) or (bool(self._again) and self._again[0][0] <= now)

    def begin(self, now: int) -> None:
        """Go on, if there is something to do. For a node that leads the group."""
        if not self._is_working and self._is_due(now) and not self._groups.awaits_workers(now):
            self._is_working = True
            self._background.add(self.work)

    def work(self, now: int) -> bool:
        """A slice: publish what was noted, and first what is due to be tried again."""
        cost = self._background.slice
        while cost > 0 and self._is_due(now) and self._group.leads_and_knows:
            is_again = bool(self._again) and self._again[0][0] <= now
            effect = self._again.popleft()[1] if is_again else self._noted.popleft()
            cost -= _LETTER_COST
            if self._machine.has_letter(effect.queue_id, effect.letter):
                self._publish(effect, now)
            else:  # an earlier leader has seen to it
                self._done(effect.queue_id, effect.letter)
        self._is_working = self._is_due(now) and self._group.leads_and_knows
        return self._is_working

    def next_deadline(self) -> int | None:
        """When something is to be tried again, or for the first time though other workers have not come."""
        if self._noted and self._groups.meets_until > self._clock.now:
            return self._groups.meets_until
        return self._again[0][0] if self._again else None

    def _publish(self, effect: DeadLettered, now: int) -> None:
        queue_id, letter = effect.queue_id, effect.letter
        queue = cast("_GivesUp | None", self._group.queues.get(queue_id))  # no other queue has dead letters
        if queue is None and self._group.is_forgotten(queue_id):
            self._done(queue_id, letter)  # it was deleted, and its letters go with it
            return
        if queue is None or self._early.get(queue_id, letter) < letter:
            self._early[queue_id] = letter
            self._again.append((now + RETRY_MS, effect))
            return
        if self._early.get(queue_id) == letter:
            del self._early[queue_id]
        journal = self._journal
        before = journal.position
        receipt = self._receipt(queue, effect)
        was_sent = queue.publish_letter(effect.message, effect.reason, now, receipt)
        cycles = queue.letter_cycles()
        if not was_sent and queue.gives_up_at_least_once:
            self._again.append((now + RETRY_MS, effect))
            return
        position = int(journal.position) if journal.position != before else 0
        if queue.gives_up_at_least_once:
            position = max(position, self._written.get((queue_id, letter), 0))
            self._written[queue_id, letter] = position
        term = self._term

        def tell(refusals: list[Refusal]) -> None:
            uncounted = _Uncounted(letter, queue, effect.reason, cycles) if was_sent else None
            self._published(term, effect, position, refusals, queue.gives_up_at_least_once, uncounted)

        receipt.seal(tell)

    def _receipt(self, queue: _GivesUp, effect: DeadLettered) -> JointReceipt:
        if queue.gives_up_at_least_once:
            return TriedReceipt(self._have.setdefault((effect.queue_id, effect.letter), set()))
        return LetterReceipt(LETTERS_OF + effect.queue_id.to_bytes(8, "big"), effect.letter)

    def _published(
        self, term: int, effect: DeadLettered, position: int, refusals: list[Refusal], is_retried: bool,
        uncounted: _Uncounted | None,
    ) -> None:  # fmt: skip
        """Its fate is known, but for this node's disk. is_retried: until all its queues have it. uncounted: it went
        somewhere."""
        if term != self._term:
            return
        if Refusal.UNKNOWN in refusals or (is_retried and any(each is Refusal.FULL for each in refusals)):
            self._again.append((self._clock.now + RETRY_MS, effect))
            self._group.touch()
            return
        if uncounted is not None:
            self._uncounted.setdefault(effect.queue_id, deque()).append(uncounted)
        if position > self._groups.synced_position and not self._groups.is_alone():
            self._unsynced.append(_Unsynced(position, effect.queue_id, effect.letter))
            self._group.touch()
        else:
            self._done(effect.queue_id, effect.letter)

    @property
    def awaits_disk(self) -> bool:
        """Whether `synced` may find something to do."""
        return bool(self._unsynced)

    def synced(self, position: int) -> None:
        """The journal is on the disk so far."""
        waiting, self._unsynced = self._unsynced, deque()
        for each in waiting:
            if each.position <= position:
                self._done(each.queue_id, each.letter)
            else:
                self._unsynced.append(each)

    def _done(self, queue_id: int, letter: int) -> None:
        self._have.pop((queue_id, letter), None)
        self._written.pop((queue_id, letter), None)
        under_way = self._under_way.get(queue_id)
        if under_way is None or letter not in under_way:
            return
        under_way[letter] = True
        while under_way:
            number = next(iter(under_way))
            if not under_way[number]:
                return
            del under_way[number]
            self._dispatched[queue_id] = number
            self._group.touch()
        del self._under_way[queue_id]

    def take_dispatched(self) -> list[Dispatched]:
        """What the log has to know."""
        dispatched, self._dispatched = self._dispatched, {}
        self.is_active = bool(self._under_way or self._noted or self._again or self._unsynced)
        return [Dispatched(queue_id, letter) for queue_id, letter in dispatched.items()]

    def put_back(self, dispatched: Dispatched) -> None:
        """The log does not take it now."""
        self.is_active = True
        self._dispatched.setdefault(dispatched.queue_id, dispatched.letter)

    def record_proposal(self, dispatched: Dispatched, index: int, term: int) -> None:
        """The log has taken it, as an entry of this node's; it may still be replaced by another leader's."""
        waiting = self._uncounted.pop(dispatched.queue_id, None)
        if waiting is None:
            return
        letters = [each for each in waiting if each.letter <= dispatched.letter]
        if len(letters) < len(waiting):
            self._uncounted[dispatched.queue_id] = deque(each for each in waiting if each.letter > dispatched.letter)
        if letters:
            self.proposed.append(_Proposed(index, term, letters))

    def applied(self, index: int, is_own: Callable[[int, int], bool]) -> None:
        """The log is applied so far: what this node has published counts, if it was this node that has said so.
        is_own: whether the entry at an index is the one that this node has proposed in a term."""
        proposed = self.proposed
        while proposed and proposed[0].entry <= index:
            found = proposed.popleft()
            if is_own(found.entry, found.term):
                for each in found.letters:
                    each.queue.count_letter(each.reason, each.cycles)

"""LastLetters: the dead letters of a durable queue that is deleted before they have reached their new places.

    deleted: LETTERS is written -> what changes the metadata follows -> each letter is posted, and settled -> `end`
    a crash: Recovery keeps what LETTERS names and is not settled -> the queue without a name posts it

The queue is gone for everybody. Its messages that are letters stay under its id, in the journal or in its page files;
LETTERS says which these are, why they were given up, and where they go: that was said by arguments and policies, of
which nobody knows any more.

    LETTERS  u8 version (1), u64 queue id, u8 has a routing key, four long strings: virtual host, queue, dead letter
             exchange, dead letter routing key; u32 n, n x (u64 first sequence, u32 count, u8 reason). The last one of a
             queue counts, and only when the metadata do not have the queue; n = 0: there are none.

Invariants:
1. LETTERS is on the disk before the deletion can be committed.
2. The last LETTERS of a queue is in no journal segment that was retired while one of its letters is left.
3. The page files of the queue stay until all its letters are settled, as the disk knows.
"""

from __future__ import annotations

from queues.arguments import QueueArguments
from queues.classic import ClassicQueue
from queues.message import Entry
from queues.reason import Reason
from queues.recovered_letters import LETTERS_VERSION, RecoveredLetters
from queues.store import LETTERS, MessageStore

#: By the number that stands for them on the disk.
REASONS = tuple(Reason)


def keep_last_letters(queue: ClassicQueue, vhost: str) -> bool:
    """A queue was deleted (`ClassicQueue.delete`), and its deletion is not proposed yet: what it has given up, and is
    not in its new places, survives a crash from now on. Returns whether there is anything; then LETTERS is written."""
    if not queue.is_durable or queue.letters is None or queue.settings.dead_letter_exchange is None:
        return False
    kept = {entry.sequence: (entry, reason) for entry, reason in queue.letters.waiting() if _is_durable(entry)}
    if not kept:
        return False
    queue.hold_only({sequence: entry for sequence, (entry, _) in kept.items()})
    queue.last_letters = LastLetters(queue, vhost, {sequence: reason for sequence, (_, reason) in kept.items()})
    queue.last_letters.write()
    return True


def post_last_letters(queue: ClassicQueue, letters: RecoveredLetters) -> None:
    """At a restart: a queue that is made for nothing else posts what is left."""
    reasons = {entry.sequence: REASONS[reason] for entry, reason in letters.items}
    queue.last_letters = LastLetters(queue, letters.vhost, reasons)
    queue.last_letters.segment = letters.segment
    queue.store.touch(letters.segment, queue)
    queue.adopt_letters([(entry, REASONS[reason]) for entry, reason in letters.items])


def settings_of(letters: RecoveredLetters) -> QueueArguments:
    """The settings of the queue that posts them."""
    return QueueArguments(dead_letter_exchange=letters.exchange, dead_letter_routing_key=letters.routing_key)


def forget_last_letters(store: MessageStore, queue_id: int) -> None:
    """At a restart: the crash has undone the deletion. What is there are messages again."""
    _write(store, queue_id, "", "", "", None, [])


class LastLetters:
    """What a deleted queue has to remember. reasons: by sequence. segment: the journal segment that has LETTERS."""

    def __init__(self, queue: ClassicQueue, vhost: str, reasons: dict[int, Reason]) -> None:
        self._queue = queue
        self._vhost = vhost
        self._reasons = reasons
        self.segment = 0
        queue.store.spare_pages(queue.queue_id)

    def write(self) -> None:
        """Write LETTERS, with what is left."""
        queue = self._queue
        store, settings = queue.store, queue.settings
        assert settings.dead_letter_exchange is not None  # or it would have no letters
        self.segment = store.segment(queue)
        _write(
            store,
            queue.queue_id,
            self._vhost,
            queue.name,
            settings.dead_letter_exchange,
            settings.dead_letter_routing_key,
            self._runs(),
        )

    def _runs(self) -> list[tuple[int, int, int]]:
        """(first sequence, count, reason) of what is left; not of what consumers have refused since the deletion, which
        nobody was promised."""
        runs: list[tuple[int, int, int]] = []
        for sequence in sorted(self._queue.held.keys() & self._reasons.keys()):
            reason = REASONS.index(self._reasons[sequence])
            if runs and runs[-1][0] + runs[-1][1] == sequence and runs[-1][2] == reason:
                runs[-1] = (runs[-1][0], runs[-1][1] + 1, reason)
            else:
                runs.append((sequence, 1, reason))
        return runs

    def leave_segment(self, segment: int) -> None:
        """Journal segments up to this one are going to be retired."""
        if self.segment <= segment and self._queue.held:
            self.write()

    def end(self) -> None:
        """All are settled."""
        self._queue.store.spare_no_more(self._queue.queue_id)


def _is_durable(entry: Entry) -> bool:
    is_stored = entry.journal_segment > 0 or entry.page is not None
    return entry.sequence > 0 and entry.message.is_persistent and is_stored


def _write(
    store: MessageStore,
    queue_id: int,
    vhost: str,
    name: str,
    exchange: str,
    routing_key: str | None,
    runs: list[tuple[int, int, int]],
) -> None:
    buffer = store.journal.open_entry(LETTERS)
    buffer.put_u8(LETTERS_VERSION)
    buffer.put_u64(queue_id)
    buffer.put_u8(0 if routing_key is None else 1)
    for text in (vhost, name, exchange, routing_key or ""):
        buffer.put_longstr(text.encode("utf-8", "surrogateescape"))
    buffer.put_u32(len(runs))
    for first, count, reason in runs:
        buffer.put_u64(first)
        buffer.put_u32(count)
        buffer.put_u8(reason)
    store.position = store.journal.close_entry()

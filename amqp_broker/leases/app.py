"""App: what one application has staged at its home, and which of its epochs was committed last.

    stage -> a Part: an attempt at one partition of an epoch; its blobs are the messages of a hidden queue
    commit -> the parts that were named are committed, all others up to this epoch are dropped: one NOTE entry
           -> published, blob by blob (publication.py), groups of readers are where it says -> nothing of the epoch is
           left but its number

Invariants:
1. The id of a part's queue comes from the app's incarnation and a serial that is used once, so what a crash leaves of
   an older part never turns up in a newer one.
2. A part's queue has its blobs under the sequences 1, 2, ...: blob number n of the attempt is sequence n + 1.
3. The last note of an app is in no journal segment that was retired.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_broker.leases.app_note import (
    AppNote,
    PartNote,
    Position,
    decode_note,
    encode_note,
    note_id,
    staged_queue_id,
)
from amqp_broker.leases.blob import BlobReader, BlobWriter
from amqp_broker.leases.browse import browse
from queues.arguments import QueueArguments
from queues.classic import ClassicQueue
from queues.message import Address, Entry, build_message

if TYPE_CHECKING:
    from queues.background import Background
    from queues.store import MessageStore
    from queues.timers import Timers

#: A staged blob's only column, and the most that one can be.
_BODY = 1
_MOST_BYTES = 1 << 40

#: The address of a blob: no exchange, no routing key.
_NOWHERE = Address(b"\x00\x00")

Key = tuple[int, int, int]


class Part:
    """One attempt at one partition of an epoch. opened_at, touched_at: when it was begun, and staged to last, ms since
    the epoch; ordinal: of its first blob among all that the app has ever committed, -1 while it is not committed.
    messages: how many it holds, -1 where they were not counted since the last start."""

    def __init__(self, key: Key, serial: int, opened_at: int, ordinal: int, queue: ClassicQueue) -> None:
        self.key = key
        self.serial = serial
        self.opened_at = opened_at
        self.touched_at = opened_at
        self.ordinal = ordinal
        self.queue = queue
        self.messages = 0

    @property
    def blobs(self) -> int:
        """How many blobs were staged."""
        return int(self.queue.next_sequence) - 1

    def first(self) -> Entry | None:
        """Its first blob that is not published, which stays there; None where it cannot be had."""
        return self.queue.first_ready()

    def blob(self, number: int) -> bytes:
        """A blob that was staged and is not published. Raises CorruptRecord, ValueError."""
        writer = BlobWriter(_BODY, _MOST_BYTES, 1)
        browse([self.queue.ready], number + 1, number + 2, writer)
        reader = BlobReader(writer.take())
        if not reader.advance():
            raise ValueError(f"blob {number} of {self.queue.name} is not there")
        return reader.body()

    def count(self) -> int:
        """How many messages it holds. Raises CorruptRecord, ValueError."""
        if self.messages < 0:
            first = self.blobs - self.queue.message_count()
            self.messages = sum(BlobReader(self.blob(number)).count for number in range(first, self.blobs))
        return self.messages


class App:
    """One application of a virtual host. incarnation: no other has it. last_epoch: the last that was committed, -1 for
    none. parts: what is staged and not committed, by (epoch, partition, attempt). committed: what is being published,
    in order; positions: where groups of readers are when that is done. called_at: when it last committed something, ms
    since the epoch."""

    def __init__(
        self,
        vhost: str,
        name: str,
        incarnation: bytes,
        store: MessageStore,
        timers: Timers,
        background: Background,
        now: int,
    ) -> None:
        self.vhost = vhost
        self.name = name
        self.note_id = note_id(vhost, name)
        self.is_deleted = False
        self.last_segment = 0
        self.last_epoch = -1
        self.called_at = now
        self.parts: dict[Key, Part] = {}
        self.committed: list[Part] = []
        self.positions: tuple[Position, ...] = ()
        self.incarnation = incarnation
        self._next_serial = 0
        self._next_ordinal = 0
        self._store = store
        self._timers = timers
        self._background = background
        self._note_segment = 0

    # -- staging -------------------------------------------------------------------------------------------------------

    def open_part(self, key: Key, now: int) -> Part:
        """An attempt begins."""
        part = self._make_part(key, self._next_serial, now, -1)
        self._next_serial += 1
        self.parts[key] = part
        self.write()
        return part

    def _make_part(self, key: Key, serial: int, opened_at: int, ordinal: int) -> Part:
        queue_id = staged_queue_id(self.incarnation, serial)
        name = f"{self.name}, epoch {key[0]}, partition {key[1]}, attempt {key[2]}"
        around = (self._store, self._timers, self._background)
        queue = ClassicQueue(name, queue_id, True, QueueArguments(), *around, None)
        return Part(key, serial, opened_at, ordinal, queue)

    def append(self, part: Part, blob: bytes, messages: int, now: int) -> None:
        """One more blob of an attempt."""
        store, queue = self._store, part.queue
        message = build_message(_NOWHERE, b"\x00\x00", blob, True, -1, -1, now)
        segment = store.segment(queue)
        store.append_message(message, queue.queue_id, queue.next_sequence, 0, 0)
        queue.enqueue(message, 0, segment, None, now)
        part.touched_at = now
        if part.messages >= 0:
            part.messages += messages

    # -- committing ----------------------------------------------------------------------------------------------------

    def commit(self, epoch: int, parts: list[Part], positions: tuple[Position, ...], now: int) -> list[Part]:
        """The commit point, once it is synced: these parts are the epoch, and these positions follow. Returns the parts
        that are dropped by it."""
        self.last_epoch = epoch
        self.called_at = now
        for part in parts:
            part.ordinal = self._next_ordinal
            self._next_ordinal += part.blobs
            del self.parts[part.key]
        self.committed, self.positions = parts, positions
        dropped = [part for part in self.parts.values() if part.key[0] <= epoch]
        self._forget(dropped)
        self.write()
        return dropped

    def finish(self) -> list[Part]:
        """All that was committed is published. Returns the parts that held it."""
        published, self.committed, self.positions = self.committed, [], ()
        self.write()
        return published

    def drop(self, parts: list[Part]) -> None:
        """These are not wanted any more."""
        self._forget(parts)
        self.write()

    def _forget(self, parts: list[Part]) -> None:
        for part in parts:
            del self.parts[part.key]

    # -- the journal ---------------------------------------------------------------------------------------------------

    def write(self) -> None:
        """Write the note."""
        self._note_segment = self._store.segment(self)
        self._store.append_note(self, encode_note(self._note()))

    def write_end(self) -> None:
        """Nothing of the app is to be known any more."""
        self.is_deleted = True
        self._store.append_note(self, b"")

    def leave_segment(self, segment: int) -> bool:
        """Write again what relies on a journal segment up to `segment` (queues/store.py): there is no more then."""
        if 0 < self._note_segment <= segment:
            self.write()
        return False

    def _note(self) -> AppNote:
        parts = [
            PartNote(*part.key, part.serial, part.opened_at, part.ordinal)
            for part in (*self.committed, *self.parts.values())
        ]
        return AppNote(
            self.incarnation, self.vhost, self.name, self.last_epoch, self._next_serial, self._next_ordinal,
            self.called_at, tuple(parts), self.positions,
        )  # fmt: skip

    @classmethod
    def restored(
        cls, segment: int, octets: bytes, store: MessageStore, timers: Timers, background: Background, now: int
    ) -> App:
        """An app as its note has it; the queues of its parts are empty yet. Raises Malformed."""
        note = decode_note(octets)
        app = cls(note.vhost, note.name, note.incarnation, store, timers, background, now)
        app.last_epoch = note.last_epoch
        app.called_at = note.called_at
        app._next_serial = note.next_serial
        app._next_ordinal = note.next_ordinal
        app.positions = note.positions
        for each in note.parts:
            part = app._make_part(each[:3], each.serial, each.opened_at, each.ordinal)
            part.touched_at = now
            part.messages = -1
            if part.ordinal < 0:
                app.parts[part.key] = part
            else:
                app.committed.append(part)
        app._note_segment = segment
        store.touch(segment, app)
        return app

    def all_parts(self) -> list[Part]:
        """Committed or not."""
        return [*self.committed, *self.parts.values()]

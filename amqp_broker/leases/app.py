"""App: what one application has staged at its home, and which of its epochs was committed last.

    stage -> a Part: an attempt at one partition of an epoch; its blobs are the messages of a hidden queue
    commit -> the parts that were named are committed, all others up to this epoch are dropped: one NOTE entry
           -> published, blob by blob (publication.py) -> nothing of the epoch is left but its number

A note has everything but the blobs:

    u8 version 1, 16 octets incarnation, short string virtual host, short string app, u64 last epoch + 1, u64 next
    serial, u64 next ordinal, u64 called_at, u32 n, n x (u64 epoch, u64 partition, u64 attempt, u64 serial, u64
    opened_at, u64 ordinal of its first blob + 1 if it is committed, or 0); committed parts in the order of publication

Invariants:
1. The id of a part's queue comes from the app's incarnation and a serial that is used once, so what a crash leaves of
   an older part never turns up in a newer one.
2. A part's queue has its blobs under the sequences 1, 2, ...: blob number n of the attempt is sequence n + 1.
3. The last note of an app is in no journal segment that was retired.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from amqp_broker.leases.blob import BlobReader, BlobWriter
from amqp_broker.leases.browse import browse
from octets.buffer import Buffer
from queues.arguments import QueueArguments
from queues.classic import ClassicQueue
from queues.message import build_message
from queues.quorum.reader import Reader, octets_of

if TYPE_CHECKING:
    from queues.message import Message
    from queues.store import MessageStore
    from queues.timers import Timers

#: Ids of the queues of staged parts lie above this, and below it, by 2**56, the ids of notes.
STAGED_IDS = 0x31 << 56
NOTE_IDS = 0x32 << 56
_VERSION = 1
_INCARNATION_BYTES = 16
_PART_BYTES = 48
#: A staged blob's only column, and the most that one can be.
_BODY = 1
_MOST_BYTES = 1 << 40

Key = tuple[int, int, int]


def _id_of(base: int, text: bytes) -> int:
    return base + int.from_bytes(hashlib.blake2b(text, digest_size=7).digest(), "big")


def note_id(vhost: str, name: str) -> int:
    """The id of an app's notes."""
    return _id_of(NOTE_IDS, octets_of(vhost) + b"\0" + octets_of(name))


def _keep_no_letter(queue: Any, message: Message, reason: str, now: int) -> None:
    """Staged blobs do not expire, and nobody rejects them."""


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
    """One application of a virtual host. last_epoch: the last that was committed, -1 for none. parts: what is staged
    and not committed, by (epoch, partition, attempt). committed: what is being published, in order. called_at: when it
    last committed something, ms since the epoch."""

    def __init__(
        self, vhost: str, name: str, incarnation: bytes, store: MessageStore, timers: Timers, now: int
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
        self._incarnation = incarnation
        self._next_serial = 0
        self._next_ordinal = 0
        self._store = store
        self._timers = timers
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
        queue_id = _id_of(STAGED_IDS, self._incarnation + serial.to_bytes(8, "big"))
        name = f"{self.name}, epoch {key[0]}, partition {key[1]}, attempt {key[2]}"
        queue = ClassicQueue(name, queue_id, True, QueueArguments(), self._store, self._timers, _keep_no_letter)
        return Part(key, serial, opened_at, ordinal, queue)

    def append(self, part: Part, blob: bytes, messages: int, now: int) -> None:
        """One more blob of an attempt."""
        store, queue = self._store, part.queue
        address = store.pager.addresses.find(b"\x00\x00")
        message = build_message(address, b"\x00\x00", blob, True, -1, -1, now)
        segment = store.segment(queue)
        store.append_message(message, queue.queue_id, queue.next_sequence, 0, 0)
        queue.enqueue(message, 0, segment, None, now)
        part.touched_at = now
        if part.messages >= 0:
            part.messages += messages

    # -- committing ----------------------------------------------------------------------------------------------------

    def commit(self, epoch: int, parts: list[Part], now: int) -> list[Part]:
        """The commit point, once it is synced: these parts are the epoch. Returns those that are dropped by it."""
        self.last_epoch = epoch
        self.called_at = now
        for part in parts:
            part.ordinal = self._next_ordinal
            self._next_ordinal += part.blobs
            del self.parts[part.key]
        self.committed = parts
        dropped = [part for part in self.parts.values() if part.key[0] <= epoch]
        self._forget(dropped)
        self.write()
        return dropped

    def finish(self) -> list[Part]:
        """All that was committed is published. Returns the parts that held it."""
        published, self.committed = self.committed, []
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
        self._store.append_note(self, self._encode())

    def write_end(self) -> None:
        """Nothing of the app is to be known any more."""
        self.is_deleted = True
        self._store.append_note(self, b"")

    def leave_segment(self, segment: int) -> None:
        """Write again what relies on a journal segment up to `segment` (queues/store.py)."""
        if 0 < self._note_segment <= segment:
            self.write()

    def _encode(self) -> bytes:
        buffer = Buffer(256)
        buffer.put_u8(_VERSION)
        buffer.put_bytes(self._incarnation)
        buffer.put_shortstr(octets_of(self.vhost))
        buffer.put_shortstr(octets_of(self.name))
        for number in (self.last_epoch + 1, self._next_serial, self._next_ordinal, self.called_at):
            buffer.put_u64(number)
        parts = [*self.committed, *self.parts.values()]
        buffer.put_u32(len(parts))
        for part in parts:
            for number in (*part.key, part.serial, part.opened_at, part.ordinal + 1):
                buffer.put_u64(number)
        return buffer.take()

    @classmethod
    def restored(cls, segment: int, octets: bytes, store: MessageStore, timers: Timers, now: int) -> App:
        """An app as its note has it; the queues of its parts are empty yet. Raises Malformed."""
        reader = Reader(octets, "note of an app")
        version = reader.u8()
        if version != _VERSION:
            raise reader.fail(f"version {version}; this program reads version {_VERSION}: update it")
        incarnation = reader.octets(_INCARNATION_BYTES)
        app = cls(reader.name(), reader.name(), incarnation, store, timers, now)
        app.last_epoch = reader.u64() - 1
        app._next_serial = reader.u64()
        app._next_ordinal = reader.u64()
        app.called_at = reader.u64()
        for _ in range(reader.count(_PART_BYTES)):
            key = (reader.u64(), reader.u64(), reader.u64())
            part = app._make_part(key, reader.u64(), reader.u64(), reader.u64() - 1)
            part.touched_at = now
            part.messages = -1
            if part.ordinal < 0:
                app.parts[key] = part
            else:
                app.committed.append(part)
        reader.finish()
        app._note_segment = segment
        store.touch(segment, app)
        return app

    def all_parts(self) -> list[Part]:
        """Committed or not."""
        return [*self.committed, *self.parts.values()]

"""RecoveredLetters: at a restart, the dead letters of a queue that was deleted, as the journal has them
(queues/last_letters.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queues.page import AddressBook
from queues.pager import Pager
from storage.errors import CorruptRecord

if TYPE_CHECKING:
    from queues.message import Entry
    from queues.recovery import RecoveredQueue

LETTERS_VERSION = 1


def texts_of(payload: bytes, position: int, count: int) -> tuple[list[str], int]:
    """So many texts, each behind its length, and where they end."""
    texts = []
    for _ in range(count):
        length = int.from_bytes(payload[position : position + 4], "big")
        texts.append(payload[position + 4 : position + 4 + length].decode("utf-8", "surrogateescape"))
        position += 4 + length
    return texts, position


class RecoveredLetters:
    """What a LETTERS entry says. segment: the journal segment that has it. items: after `gather`, what is left of the
    letters, in order, each with the number of its reason. lost: a line for each page that cannot be read."""

    def __init__(self, segment: int, payload: bytes) -> None:
        """Raises ValueError when it cannot be read."""
        if len(payload) < 30:
            raise ValueError(f"entry of dead letters has {len(payload)} octets, fewer than 30")
        if payload[0] != LETTERS_VERSION:
            raise ValueError(
                f"entry of dead letters is of version {payload[0]}, and this broker reads {LETTERS_VERSION}"
            )
        self.segment = segment
        self.queue_id = int.from_bytes(payload[1:9], "big")
        texts, position = texts_of(payload, 10, 4)
        self.vhost, self.name, self.exchange = texts[:3]
        self.routing_key: str | None = texts[3] if payload[9] else None
        runs = int.from_bytes(payload[position : position + 4], "big")
        position += 4
        if position + 13 * runs != len(payload):
            raise ValueError(f"entry of {len(payload)} octets announces {runs} runs of dead letters")
        self.reasons: dict[int, int] = {}
        for start in range(position, len(payload), 13):
            first = int.from_bytes(payload[start : start + 8], "big")
            count = int.from_bytes(payload[start + 8 : start + 12], "big")
            for sequence in range(first, first + count):
                self.reasons[sequence] = payload[start + 12]
        self.items: list[tuple[Entry, int]] = []
        self.lost: list[str] = []

    def gather(self, queue: RecoveredQueue, pager: Pager, addresses: AddressBook, is_salvage: bool) -> None:
        """Find them in what the journal says of the queue. Raises CorruptRecord, OSError; in a salvage, pages that
        cannot be read are set aside."""
        found = {each: entry for each, entry in queue.entries.items() if each in self.reasons}
        settled = _numbers(queue.settled, self.reasons)
        wanted = [each for each in self.reasons if each not in found and each not in settled]
        for page in queue.pages.values():
            if not any(page.first <= each <= page.last for each in wanted):
                continue
            store, location = pager.page_store, page.location
            try:
                pager.load(self.queue_id, page)
            except CorruptRecord as error:
                if not is_salvage:
                    raise
                copy = store.set_aside(self.queue_id, location)
                self.lost.append(
                    f"dead letters of queue '{self.name}', which is deleted: {error.file} at offset {error.offset}: "
                    f"{error.reason}; up to {page.count} messages are lost, their octets are in {copy}"
                )
                continue
            store.adopt(self.queue_id, [location])
            left = [entry for entry in page.entries(addresses) if entry.sequence in wanted]
            pager.drop(page)
            page.live = len(left)
            if not left:
                pager.release(self.queue_id, page)
            for entry in left:
                returns = queue.returned.get(entry.sequence)
                if returns is not None:
                    entry.returns = returns
                    entry.is_redelivered = True
                found[entry.sequence] = entry
        self.items = [(found[each], self.reasons[each]) for each in sorted(found)]


def _numbers(ranges: list[tuple[int, int]], among: dict[int, int]) -> set[int]:
    """The numbers in ranges of (first, count), as far as they are wanted."""
    found: set[int] = set()
    for first, count in ranges:
        if count <= len(among):
            found.update(each for each in range(first, first + count) if each in among)
        else:
            found.update(each for each in among if first <= each < first + count)
    return found

"""Queues over streams, to LogModel: what is in the stream, and wanted, is a copy in each of them. So what holds for the
messages of every queue is checked of them, too: one hand only, an acknowledgement counts, nothing is lost, in order.

    C1  with key order, a message is handed out when all earlier ones of its key have ended, or are gone by retention
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tests.cluster_simulation.log_records import NEVER, Copy, QueueLog
from tests.cluster_simulation.queue_kinds import RETRY, QueueKind
from tests.cluster_simulation.stream_model import StreamModel
from tests.simulation.state import Violation

#: Messages of a chunk have places behind its command's.
_MOST_RECORDS = 1_000_000


@dataclass(frozen=True, slots=True)
class CursorKind:
    """How a queue over a stream is declared, and what a model has to know of it. value: the only one that it wants, or
    "" for everything."""

    name: str
    stream: str
    value: str = ""
    has_key_order: bool = False
    has_retry: bool = False

    @property
    def table(self) -> dict[str, object]:
        """The arguments of queue.declare."""
        table: dict[str, object] = {
            "x-queue-type": "quorum", "x-stream-source": self.stream, "x-stream-offset": "first",
            "x-delivery-limit": -1,
        }  # fmt: skip
        if self.value:
            table["x-stream-filter"] = self.value
        if self.has_key_order:
            table["x-stream-key-order"] = True
        return {**table, **RETRY} if self.has_retry else table

    @property
    def queue_kind(self) -> QueueKind:
        return QueueKind(self.name, arguments={"x-delivery-limit": -1, **(RETRY if self.has_retry else {})})


@dataclass(slots=True)
class Cursor:
    """One that the log has. upto: so much of the stream it has copies of. of_keys: these by key, in order."""

    kind: CursorKind
    queue: QueueLog
    upto: int = 0
    of_keys: dict[str, list[Copy]] = field(default_factory=dict)


class CursorModel:
    """The queues over the streams of a model, by their numbers."""

    def __init__(self, streams: StreamModel, counts: Counter[str]) -> None:
        self.kinds: dict[str, CursorKind] = {}
        self.cursors: dict[int, Cursor] = {}
        self._streams = streams
        self.counts = counts

    def open(self, queue: QueueLog, name: str) -> None:
        """The log has this one from now on."""
        self.cursors[queue.queue_id] = Cursor(self.kinds[name], queue)

    def grown(self, stream: str, place: tuple[int, int], clock: int) -> list[Copy]:
        """A chunk is applied for the first time. Returns the new copies."""
        made = []
        numbers = self._streams.content(stream).numbers
        for cursor in self.cursors.values():
            if cursor.kind.stream != stream:
                continue
            for offset in range(cursor.upto, len(numbers)):
                message = self._streams.messages[numbers[offset]]
                if cursor.kind.value in ("", message.value):
                    at = (place[0], place[1] * _MOST_RECORDS + offset)
                    copy = Copy(message.number, cursor.queue, at, 0, clock)
                    cursor.queue.copies[message.number] = copy
                    cursor.of_keys.setdefault(message.key, []).append(copy)
                    made.append(copy)
            cursor.upto = len(numbers)
        return made

    def _check_key(self, cursor: Cursor, copies: list[Copy]) -> None:
        """Messages of one key, in order (C1)."""
        last: Copy | None = None
        for copy in copies:
            for handing in [each for each in copy.handings if each.since]:
                if last is not None and last.ended_at > handing.since:
                    raise Violation(f"{handing} of {copy}, and before it there is {last}")
                self.counts["handings in order of a key"] += 1
            if not self._is_trimmed(cursor, copy) and (last is None or copy.ended_at > last.ended_at):
                last = copy

    def _is_trimmed(self, cursor: Cursor, copy: Copy) -> bool:
        content = self._streams.content(cursor.kind.stream)
        return content.offsets[copy.number] < content.first

    def at_the_end(self) -> None:
        """C1; and what retention has taken nobody had to get."""
        for cursor in self.cursors.values():
            for copies in cursor.of_keys.values() if cursor.kind.has_key_order else ():
                self._check_key(cursor, copies)
            for copy in cursor.queue.copies.values():
                if copy.ended_at == NEVER and self._is_trimmed(cursor, copy):
                    copy.may_be_absent, copy.is_confirmed = True, False

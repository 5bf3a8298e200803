"""The two sides of a group as Protocols: the machine that its log drives, and the journal that it is written to."""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Any, Protocol


class Machine(Protocol):
    """A deterministic state machine. An exception out of any of its methods stops the node, but for NotNow where that
    is said."""

    def apply(self, index: int, term: int, data: bytes, now: int) -> None:
        """A committed entry, in order, once per state. `now` is this node's time, so no part of the state. Raises
        NotNow: it is given the same one later again, at the latest after Group.go_on."""

    def checkpoint(self) -> list[bytes]:
        """Chunks that recreate the state as of the last apply on this node, with what the same sync or an earlier one
        makes durable. While an install is going on: of the state before it."""

    def prepare_checkpoint(self) -> Iterator[None]:
        """What makes the next call of `checkpoint_in_slices` cheaper, in slices, while applies go on. It need not be
        done to its end."""

    def checkpoint_in_slices(self) -> Iterator[bytes | None]:
        """The chunks of `checkpoint` as of this call, even though applies go on meanwhile; None: a slice is over, and
        more comes. `close` is called on it when it is abandoned, if it has that method. One at a time: `checkpoint`,
        or another call, is the end of the one before."""

    def restore(self, chunks: list[bytes]) -> None:
        """At recovery: what `checkpoint` has given."""

    def export(self) -> Iterator[bytes]:
        """Self-contained chunks of at most 256 KiB: the state as of this call, even though applies go on meanwhile.
        `close` is called on it when it is abandoned, if it has that method. Raises NotNow, as the iterator may: another
        one is asked for later."""

    def begin_install(self) -> None:
        """Chunks of another member's `export` follow. The state of now stays, and is applied to, until end_install.
        Raises NotNow: it is called again when the first chunk has come once more."""

    def install_chunk(self, chunk: bytes) -> None:
        """The next chunk."""

    def end_install(self) -> None:
        """That was the last chunk: it replaces the whole state. Raises NotNow: it is called again later, unless the
        install is abandoned."""

    def abort_install(self) -> None:
        """Forget the chunks; the state stays as it is."""

    def take_concerned(self) -> Container[str] | None:
        """On the leader: the members that wait for what was applied since the last call; None: they all may. The others
        hear of it a little later."""

    def role_changed(self, is_leader: bool, leader: str | None, term: int, now: int) -> None:
        """This member's role, or whom it takes for the leader, has changed; or a transfer was given up, and proposals
        are taken again."""


class Placer(Protocol):
    """Puts parts of a machine's entries elsewhere, so that the journal need not have them: docs/placement.md.
    least_bytes: of an entry that it wants to look at. What it raises stops the node."""

    least_bytes: int

    def place(self, index: int, data: bytes) -> bytes | None:
        """An entry is appended: the short form of its data, which names places; None: the journal has it all. What is
        in the places is durable before anything is written to the journal that is appended after this call."""

    def put_together(self, index: int, short: bytes) -> bytes:
        """At recovery: the data of an entry that is in the log. Raises CorruptRecord, OSError."""

    def take_back(self, index: int) -> None:
        """The entries from this index on are no more; others are appended in their place in the same step."""

    def salvage(self) -> None:
        """Before `put_together`: what cannot be read is left out, and told of by `take_losses`."""

    def take_losses(self) -> list[str]:
        """What was left out, a line each. Once."""


class LogPort(Protocol):
    """The node's journal, as far as a group writes to it (storage/journal.py and what keeps it short)."""

    @property
    def position(self) -> int:
        """The journal position behind everything appended."""

    @property
    def current_segment(self) -> int:
        """The segment that takes the next entry."""

    def open_entry(self, kind: int) -> Any:
        """Begin an entry: its payload goes into the Buffer returned."""

    def close_entry(self) -> int:
        """End it. Returns the position that a sync has to reach to cover it."""

    def touch(self, segment: int, owner: Any) -> None:
        """`owner` has something in this segment: before it is retired, and unless owner.is_deleted, it is told
        `leave_segment(segment)`, as often as that returns that there is more."""

    def carry(self, octets: int) -> None:
        """So much of what was appended last is there because an older segment is to be retired: as if it had been
        written in `leave_segment`."""

"""MetadataMachine: the metadata as the state machine of Raft group 0 (raft's Machine).

One entry is one batch of a node's ordered stream of commands: JSON with the fields origin (the node's name), session
(of its stream, rising), first (the number of the first command in the session, from 1) and commands.

Invariants:
1. Of each session commands are applied in the order of their numbers, each once; what comes again is skipped, and so
   is what comes behind a gap, or from a session that a newer one of the same node has replaced. One that relies on what
   another node has had since its session began changes nothing once that has begun a newer one.
2. The state after an entry follows from the state before it and the entry.
3. Whoever listens hears of every command that was applied, in order, or (an install) that everything may differ.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from amqp_broker.metadata.commands import Command, check_command, encode
from amqp_broker.metadata.metadata import Metadata
from raft.entry import REGULAR, Entry

if TYPE_CHECKING:
    from amqp_broker.protocol.json_values import JsonValue

#: Chunks of a checkpoint or an export are about so long, octets.
_CHUNK_BYTES = 128 * 1024


class Listener(Protocol):
    """Who makes it true at run time."""

    def applied(self, index: int, origin: str, session: int, number: int, command: Command, changed: bool) -> None:
        """A command was applied to the metadata."""

    def replaced(self, index: int) -> None:
        """Another member's state has taken the place of the metadata's."""

    def leads(self, is_leader: bool, leader: str | None) -> None:
        """Who leads the group."""


class Projection(Protocol):
    """Who keeps the virtual hosts as the metadata say; told by the Listener."""

    def applied(self, command: Command, changed: bool, is_own: bool) -> object:
        """A command was applied; is_own: it came from this node, in this run. Returns what its proposer is told."""

    def replaced(self) -> None:
        """Everything may differ."""


class Source(Protocol):
    """Who hears of every entry (feed.py)."""

    def applied_entry(self, index: int, term: int, data: bytes) -> None:
        """This one is being applied."""

    def replaced(self, index: int) -> None:
        """Everything may differ."""


class Batch:
    """One entry: see the module's docstring. Raises ValueError when it is none."""

    __slots__ = ("commands", "first", "origin", "session")

    def __init__(self, origin: str, session: int, first: int, commands: list[Command]) -> None:
        self.origin = origin
        self.session = session
        self.first = first
        self.commands = commands

    def encode(self) -> bytes:
        """As JSON."""
        return encode(
            {"origin": self.origin, "session": self.session, "first": self.first, "commands": self.commands}
        )

    @classmethod
    def decode(cls, data: bytes) -> Batch:
        """Raises ValueError."""
        fields = json.loads(data)
        if not isinstance(fields, dict) or fields.keys() != {"origin", "session", "first", "commands"}:
            raise ValueError("a batch of metadata commands has the fields origin, session, first and commands")
        origin, session, first, found = fields["origin"], fields["session"], fields["first"], fields["commands"]
        if not isinstance(origin, str) or not isinstance(found, list):
            raise ValueError("a batch of metadata commands names its origin and lists commands")
        for number in (session, first):
            if not isinstance(number, int) or isinstance(number, bool) or number <= 0:
                raise ValueError(f"a batch of metadata commands counts from 1, not from {number!r}")
        for command in found:
            if not isinstance(command, dict):
                raise ValueError(f"{command!r} is no metadata command")
            check_command(command)
        return cls(origin, session, first, found)


class State:
    """What chunks make, as they come: a chunk at a time, since there may be very many commands. index: of the last
    entry that is in it; sessions: as in MetadataMachine."""

    def __init__(self) -> None:
        self.metadata = Metadata()
        self.sessions: dict[str, tuple[int, int]] = {}
        self.index = 0
        self._parts: list[bytes] = []

    def take_part(self, part: bytes) -> None:
        """The next part of an export. Raises ValueError."""
        self._parts.append(part[1:])
        if part[:1] == _END:
            parts, self._parts = self._parts, []
            self.take(b"".join(parts))

    def take(self, chunk: bytes) -> None:
        """The next chunk of a checkpoint. Raises ValueError."""
        for line in chunk.split(b"\n") if chunk else ():
            value: JsonValue = json.loads(line)
            if isinstance(value, dict):
                self.metadata.apply(value)
            elif isinstance(value, list):
                self.sessions[value[0]] = (value[1], value[2])
            else:
                self.index = value


class MetadataMachine:
    """Drives `metadata`, and tells the listener."""

    def __init__(self, metadata: Metadata, listener: Listener) -> None:
        self.metadata = metadata
        self._listener = listener
        self._sessions: dict[str, tuple[int, int]] = {}  # by node: session, number of the last command
        self._install: State | None = None
        self._index = 0
        #: Who else applies what is applied here, if anybody does.
        self._source: Source | None = None

    def feed(self, source: Source) -> None:
        """It hears of all that is applied here."""
        self._source = source

    # -- raft's Machine ----------------------------------------------------------------------------------------------

    def apply(self, index: int, term: int, data: bytes, now: int) -> None:
        """A committed entry. Raises ValueError if it cannot be read: it is of a newer version."""
        self._index = index
        if self._source is not None:
            self._source.applied_entry(index, term, data)
        batch = Batch.decode(data)
        session, last = self._sessions.get(batch.origin, (0, 0))
        if batch.session > session:
            session, last = batch.session, 0
        if batch.session < session or batch.first > last + 1:
            return
        for number, command in enumerate(batch.commands, batch.first):
            if number > last:
                last = number
                self._sessions[batch.origin] = (session, last)
                changed = not self._comes_too_late(command) and self.metadata.apply(command)
                self._listener.applied(index, batch.origin, session, number, command, changed)

    def _comes_too_late(self, command: Command) -> bool:
        """A queue is to live where its messages were brought to, and that node has started again since: it has dropped
        what it did not know to be its own."""
        return command["op"] == "queue.rehome" and bool(self.session_of(command["home"]) != command["session"])

    def checkpoint(self) -> list[bytes]:
        """Lines of JSON: the commands that make the metadata, and the sessions."""
        return list(self.checkpoint_in_slices())

    def prepare_checkpoint(self) -> Iterator[None]:
        """See Machine: there is nothing to prepare."""
        return iter(())

    def checkpoint_in_slices(self) -> Iterator[bytes]:
        """See Machine. The lines are those of now, and octets: what is applied later makes others."""
        lines = self.metadata.snapshot_lines()
        lines += [encode([node, *numbers]) for node, numbers in sorted(self._sessions.items())]
        lines.append(encode(self._index))
        return _in_chunks(lines)

    def restore(self, chunks: list[bytes]) -> None:
        """At recovery. Raises ValueError."""
        state = State()
        for chunk in chunks:
            state.take(chunk)
        self._become(state)

    def export(self) -> Iterator[bytes]:
        """The state as of now; a command longer than a chunk is cut."""
        chunks = self.checkpoint_in_slices()
        return (part for chunk in chunks for part in _cut(chunk))

    def begin_install(self) -> None:
        """Another member's state follows."""
        self._install = State()

    def install_chunk(self, chunk: bytes) -> None:
        """The next part of it. Raises ValueError."""
        if self._install is None:
            raise RuntimeError("a chunk of an install, and none was begun")
        self._install.take_part(chunk)

    def end_install(self) -> None:
        """It takes the place of the present one."""
        state, self._install = self._install or State(), None
        self._become(state)
        self._listener.replaced(self._index)
        if self._source is not None:
            self._source.replaced(self._index)

    def abort_install(self) -> None:
        """Forget what has come."""
        self._install = None

    def take_concerned(self) -> None:
        """All: an answer to a client waits until every linked member knows."""

    def role_changed(self, is_leader: bool, leader: str | None, term: int, now: int) -> None:
        """Whom this member takes for the leader."""
        self._listener.leads(is_leader, leader)

    # -- inner workings ----------------------------------------------------------------------------------------------

    def last_number(self, origin: str, session: int) -> int:
        """The number of the last command of a session that was applied; 0 for none."""
        known, last = self._sessions.get(origin, (0, 0))
        return last if known == session else 0

    def session_of(self, origin: str) -> int:
        """The newest session of a node; 0 for none."""
        return self._sessions.get(origin, (0, 0))[0]

    def last_session(self, origin: str, entries: Sequence[Entry]) -> int:
        """The newest session of a node, those in entries of the log included that are not applied yet."""
        newest = self.session_of(origin)
        for data, _, _, kind in entries:
            if kind == REGULAR and data:
                batch = Batch.decode(data)
                if batch.origin == origin:
                    newest = max(newest, batch.session)
        return newest

    def _become(self, state: State) -> None:
        self.metadata.become(state.metadata)
        self._sessions = state.sessions
        self._index = state.index


def _in_chunks(lines: list[bytes]) -> Iterator[bytes]:
    chunk: list[bytes] = []
    size = 0
    for line in lines:
        chunk.append(line)
        size += len(line)
        if size >= _CHUNK_BYTES:
            yield b"\n".join(chunk)
            chunk, size = [], 0
    yield b"\n".join(chunk)


_MORE = b"\x01"
_END = b"\x00"


def _cut(chunk: bytes) -> list[bytes]:
    """A chunk in parts that fit into frames; the first octet of each says whether there is more of it."""
    parts = [chunk[start : start + _CHUNK_BYTES] for start in range(0, len(chunk), _CHUNK_BYTES)] or [b""]
    return [_MORE + part for part in parts[:-1]] + [_END + parts[-1]]

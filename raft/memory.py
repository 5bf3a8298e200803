"""Memory: whose folder this is, what of its lives the others can hold it to, and what it has seen of the others.

Raft is right only while a member remembers what it has promised: its term, its vote, what it has acknowledged. All of
that is in the node's one journal, so that one number says how far a memory reaches: the journal's position. A *point*
is a folder's identity, one of its lives (from a start to the next), and a position in it. Who sees a member keeps the
last point that it was told of; and whoever comes back has to find in its own past every point that others have kept:

    the same identity        or the folder is another one, or was emptied
    the same life            or it is a copy from before that life, or has lived on beside it
    no less of that life     or it is a copy from the midst of it

It knows no links and no disk: it writes through a LogPort, and what it has written counts when that is synced.

Invariants:
1. A point that another one was told of is on this node's disk: no crash takes it back (`point`).
2. A point of another one is replaced by a later one of the same past only, or dropped by `forget`.
3. A memory that was given up (`give_up`) stays so: the folder is never used again.
4. At whichever record the journal ends, what was told before is there. Each record stands for itself.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import NamedTuple

from raft.journal_records import RAFT_GIVEN_UP, RAFT_LIVES, RAFT_WITNESS
from raft.machine import LogPort

IDENTITY_BYTES = 16
#: So many lives are kept; what others have seen of earlier ones counts for nothing any more.
MAX_LIVES = 1000
_VERSION = 1
_LIVES = struct.Struct(f">B{IDENTITY_BYTES}sQI")
_LIFE = struct.Struct(">QQ")
_WITNESS = struct.Struct(f">B{IDENTITY_BYTES}sQQQQB")
_NOBODY = bytes(IDENTITY_BYTES)


class Point(NamedTuple):
    """See the module's docstring. number: of the life, from 1; mark: drawn at its start, so that two lives with one
    number differ."""

    identity: bytes
    number: int
    mark: int
    position: int


class Witness(NamedTuple):
    """What is remembered of another member. as_of: what this node had applied of the metadata when it heard of it."""

    point: Point
    as_of: int


class Life(NamedTuple):
    """began: the journal's position at its start."""

    mark: int
    began: int


class Memory:
    """See the module's docstring. reason: why it was given up, "" if it was not."""

    is_deleted = False  # what the journal asks of who has something in it

    def __init__(self) -> None:
        self.identity = b""
        self.witnesses: dict[str, Witness] = {}
        self.reason = ""
        #: The journal has to be synced up to here before anybody is told of this life, or that it was given up.
        self.position = 0
        self._first = 1  # the number of the first life
        self._lives: list[Life] = []
        self._port: LogPort | None = None
        self._written: dict[str, int] = {}  # where the journal has what is remembered of others

    def witness_of(self, name: str) -> Witness | None:
        """What is remembered of another node, None if nothing is."""
        return self.witnesses.get(name)

    # -- recovery ------------------------------------------------------------------------------------------------------

    def take(self, kind: int, payload: bytes) -> None:
        """The journal's next record of these kinds. Raises ValueError."""
        if not payload or payload[0] != _VERSION:
            raise ValueError(f"a record of kind {kind} in version {payload[:1].hex()}, written by a newer program")
        try:
            if kind == RAFT_LIVES:
                self._take_lives(payload)
            elif kind == RAFT_WITNESS:
                self._take_witness(payload)
            else:
                self.reason = payload[1:].decode()
        except struct.error as error:
            raise ValueError(f"a record of kind {kind} with {len(payload)} octets: {error}") from None

    def _take_lives(self, payload: bytes) -> None:
        _, identity, self._first, count = _LIVES.unpack_from(payload)
        if len(payload) != _LIVES.size + count * _LIFE.size:
            raise ValueError(f"{count} lives in {len(payload)} octets")
        if identity != self.identity:  # it has begun anew
            self.witnesses.clear()
            self.reason = ""
        self.identity = identity
        self._lives = [Life(*each) for each in _LIFE.iter_unpack(payload[_LIVES.size :])]

    def _take_witness(self, payload: bytes) -> None:
        _, identity, number, mark, position, as_of, length = _WITNESS.unpack_from(payload)
        if len(payload) != _WITNESS.size + length:
            raise ValueError(f"a name of {length} octets in {len(payload)}")
        name = payload[_WITNESS.size :].decode()
        if identity == _NOBODY:
            self.witnesses.pop(name, None)
        else:
            self.witnesses[name] = Witness(Point(identity, number, mark, position), as_of)

    def begin_anew(self) -> None:
        """The folder is another one from its next life on, of which nobody has seen anything, and has seen nobody."""
        self.identity = b""
        self.witnesses.clear()
        self.reason = ""
        self._first = 1
        self._lives.clear()

    def open(self, port: LogPort, random_bytes: Callable[[int], bytes], identity: bytes = b"") -> None:
        """Begin a life. identity: of a folder that was made with one, if the journal has none."""
        self._port = port
        self.identity = self.identity or identity or random_bytes(IDENTITY_BYTES)
        self._lives.append(Life(int.from_bytes(random_bytes(7), "big"), port.position))
        if len(self._lives) > MAX_LIVES:
            del self._lives[0]
            self._first += 1
        self.position = self._write_all()

    # -- this node -----------------------------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether a life has begun: not on a node that has no others."""
        return self._port is not None

    @property
    def life(self) -> int:
        """The number of this life."""
        return self._first + len(self._lives) - 1

    def point(self, position: int) -> Point:
        """What others may hold this node to. position: what is on the disk of all that groups have written."""
        life = self._lives[-1]
        return Point(self.identity, self.life, life.mark, max(life.began, position))

    def missing(self, seen: Point) -> str:
        """What others have seen of this node, and its folder has not; "" if it has all of it."""
        if seen.identity != self.identity:
            before, now = seen.identity.hex()[:8], self.identity.hex()[:8]
            return f"its folder was {before}, and this one is {now}: it was emptied, or is another one"
        if seen.number < self._first:
            return ""
        what = "it was emptied" if self.life == 1 else "it is an older copy"  # which would have a start more
        if seen.number > self.life:
            return f"it had started {seen.number} times, and this folder {self.life} times: {what}"
        place = seen.number - self._first
        life = self._lives[place]
        if life.mark != seen.mark:
            return f"its start number {seen.number} was another one than this folder's: {what}"
        if place + 1 < len(self._lives) and self._lives[place + 1].began < seen.position:
            return (
                f"it had written {seen.position} octets of its journal, and start number {seen.number + 1} of this "
                f"folder found {self._lives[place + 1].began}: it is an older copy"
            )
        return ""

    def give_up(self, reason: str) -> None:
        """The folder is not to be used any more, and says why at each start."""
        assert self._port is not None
        self.reason = reason
        self.position = self._write_reason()

    # -- others --------------------------------------------------------------------------------------------------------

    def saw(self, name: str, point: Point, as_of: int) -> None:
        """A member is known to be at this point, which it has found to follow from what was known of it."""
        before = self.witnesses.get(name)
        self.witnesses[name] = Witness(point, as_of if before is None else max(as_of, before.as_of))
        if before is None or before.point != point:
            self._write_witness(name)

    def forget(self, name: str) -> bool:
        """It is no member any more: one of that name that comes begins anew. Returns whether it was known."""
        if self.witnesses.pop(name, None) is None:
            return False
        self._write_witness(name)
        return True

    def written(self, name: str) -> int:
        """Up to where the journal has to be synced to have what is known of another one."""
        return self._written.get(name, 0)

    # -- the journal ---------------------------------------------------------------------------------------------------

    def leave_segment(self, segment: int) -> bool:
        """Write all of it again: there is no more then."""
        self._write_all()
        return False

    def _write_all(self) -> int:
        """Returns the position behind it."""
        position = self._write_lives()
        for name in self.witnesses:
            self._write_witness(name)
        return self._write_reason() if self.reason else position

    def _write(self, kind: int, payload: bytes) -> int:
        assert self._port is not None
        self._port.touch(self._port.current_segment, self)
        self._port.open_entry(kind).put_bytes(payload)
        return self._port.close_entry()

    def _write_lives(self) -> int:
        lives = b"".join(_LIFE.pack(*life) for life in self._lives)
        head = _LIVES.pack(_VERSION, self.identity, self._first, len(self._lives))
        return self._write(RAFT_LIVES, head + lives)

    def _write_witness(self, name: str) -> None:
        if self._port is None:
            return
        point, as_of = self.witnesses.get(name, (Point(_NOBODY, 0, 0, 0), 0))
        octets = name.encode()
        head = _WITNESS.pack(_VERSION, *point, as_of, len(octets))
        self._written[name] = self._write(RAFT_WITNESS, head + octets)

    def _write_reason(self) -> int:
        return self._write(RAFT_GIVEN_UP, bytes([_VERSION]) + self.reason.encode())

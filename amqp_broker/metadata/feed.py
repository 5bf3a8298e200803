"""The metadata feed: a node's worker 0, which keeps the log of the metadata, has its other workers apply the same.

    worker k  FOLLOW  from where it stands -> worker 0
              BEGIN, CHUNK <-> MORE, END   the whole state, a chunk at a time, if worker k is not where worker 0 is
              ENTRY, REACHED ...           what is applied from then on

A payload is u8 version (1), u8 what, and: FOLLOW, END, REACHED u64 index; CHUNK octets of MetadataMachine.export; ENTRY
u64 index, u64 term, octets of the entry; BEGIN and MORE nothing more.

Invariants:
1. A follower applies the entries of the log in its order, each once: what it has already is passed over, and what it
   has missed comes with the whole state.
2. One chunk is under way to a follower at a time, so what a start costs a link is bounded; entries that come meanwhile
   wait here for it.
3. What follows is of this link: who comes again says again where it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from raft.errors import PeerProtocolError

if TYPE_CHECKING:
    from amqp_broker.metadata.machine import MetadataMachine
    from raft.entry import Entry


#: Called with a worker and the octets of a frame for it. False if there is no link.
Send = Callable[[str, bytes], bool]

_VERSION: Final = 1
_FOLLOW, _MORE, _BEGIN, _CHUNK, _END, _ENTRY, _REACHED = range(1, 8)
_NUMBER: Final = 8


def _frame(what: int, *numbers: int, octets: bytes = b"") -> bytes:
    return bytes([_VERSION, what]) + b"".join(each.to_bytes(_NUMBER, "big") for each in numbers) + octets


class _Following:
    """One follower. chunks: what is left of the whole state, while it is under way; waiting: frames behind it."""

    def __init__(self, chunks: Iterator[bytes] | None, index: int) -> None:
        self.chunks = chunks
        self.index = index
        self.waiting: list[bytes] = []


class FeedSource:
    """Of worker 0. applied(): up to where its log is applied."""

    def __init__(self, machine: MetadataMachine, applied: Callable[[], int]) -> None:
        self._machine = machine
        self._applied = applied
        self._told = 0
        self._followers: dict[str, _Following] = {}
        self._send: Send

    def send_with(self, send: Send) -> None:
        """How frames get to the others. Before anything else."""
        self._send = send

    @property
    def followers(self) -> list[str]:
        """Who follows now."""
        return list(self._followers)

    def receive(self, name: str, payload: bytes, now: int) -> None:
        """A frame of a follower. Raises PeerProtocolError."""
        what, rest = _read(name, payload)
        if what == _FOLLOW:
            self._begin(name, _number(name, rest))
        elif what == _MORE:
            following = self._followers.get(name)
            if following is not None:
                self._send_chunk(name, following)
        else:
            raise PeerProtocolError(f"{name} sends frame {what} of the metadata, which it is to follow")

    def _begin(self, name: str, index: int) -> None:
        applied = self._applied()
        if index >= applied:  # what is committed stays: this worker is to come to where that one is
            self._followers[name] = _Following(None, applied)
        else:
            self._begin_whole(name, applied)

    def _begin_whole(self, name: str, index: int) -> None:
        """Send the state, which is that of `index`."""
        self._followers[name] = following = _Following(self._machine.export(), index)
        self._send(name, _frame(_BEGIN))
        self._send_chunk(name, following)

    def _send_chunk(self, name: str, following: _Following) -> None:
        if following.chunks is None:
            return
        chunk = next(following.chunks, None)
        if chunk is not None:
            self._send(name, _frame(_CHUNK, octets=chunk))
            return
        following.chunks = None
        self._send(name, _frame(_END, following.index))
        waiting, following.waiting = following.waiting, []
        for frame in waiting:
            self._send(name, frame)

    def applied_entry(self, index: int, term: int, data: bytes) -> None:
        """This worker has applied an entry."""
        self._told = index
        if self._followers:
            self._tell(_frame(_ENTRY, index, term, octets=data))

    def reach(self, index: int) -> None:
        """The log is applied up to there, entries without commands included."""
        if index > self._told:
            self._told = index
            if self._followers:
                self._tell(_frame(_REACHED, index))

    def replaced(self, index: int) -> None:
        """Another member's state, that of `index`, has taken the place of this worker's: followers get it whole. The
        log is not there yet."""
        for name in self.followers:
            self._begin_whole(name, index)

    def _tell(self, frame: bytes) -> None:
        for name, following in self._followers.items():
            if following.chunks is not None:
                following.waiting.append(frame)
            else:
                self._send(name, frame)

    def peer_disconnected(self, name: str) -> None:
        """The link to a worker is gone."""
        self._followers.pop(name, None)


class FollowedGroup:
    """What a worker k has in place of Raft's group 0: `source` leads it. To be read as a Group."""

    group_id: Final = 0
    is_leader: Final = False
    learners: Final[Sequence[str]] = ()
    entries: Final[Sequence[Entry]] = ()

    def __init__(self, source: str) -> None:
        self.leader = source
        self.members = (source,)
        self.last_applied = 0


class FeedFollower:
    """Of a worker k: applies what `group.leader` sends."""

    def __init__(self, machine: MetadataMachine, group: FollowedGroup) -> None:
        self._machine = machine
        self._group = group
        self._is_installing = False
        self._send: Send

    def send_with(self, send: Send) -> None:
        """How frames get to worker 0. Before anything else."""
        self._send = send

    def peer_connected(self, name: str) -> None:
        """There is a link to a worker."""
        if name == self._group.leader:
            self.peer_disconnected(name)
            self._send(name, _frame(_FOLLOW, self._group.last_applied))

    def peer_disconnected(self, name: str) -> None:
        """It is gone."""
        if name == self._group.leader and self._is_installing:
            self._is_installing = False
            self._machine.abort_install()

    def receive(self, name: str, payload: bytes, now: int) -> None:
        """A frame of worker 0. Raises PeerProtocolError."""
        what, rest = _read(name, payload)
        if name != self._group.leader:
            raise PeerProtocolError(f"{name} sends metadata, and this worker follows {self._group.leader}")
        try:
            self._take(name, what, rest, now)
        except ValueError as error:
            raise PeerProtocolError(f"{name} sends metadata that cannot be read: {error}") from error

    def _take(self, name: str, what: int, rest: bytes, now: int) -> None:
        group, machine = self._group, self._machine
        if what == _BEGIN:
            self._is_installing = True
            machine.begin_install()
        elif what == _CHUNK and self._is_installing:
            machine.install_chunk(rest)
            self._send(name, _frame(_MORE))
        elif what == _END and self._is_installing:
            self._is_installing = False
            group.last_applied = _number(name, rest)
            machine.end_install()
        elif what == _REACHED:
            group.last_applied = max(group.last_applied, _number(name, rest))
        elif what == _ENTRY:
            index, term = _number(name, rest[:_NUMBER]), _number(name, rest[_NUMBER : 2 * _NUMBER])
            if index > group.last_applied:
                group.last_applied = index
                machine.apply(index, term, rest[2 * _NUMBER :], now)
        else:
            raise PeerProtocolError(f"{name} sends frame {what} of the metadata, which nobody waits for")


def _read(name: str, payload: bytes) -> tuple[int, bytes]:
    """What a frame is, and the rest of it. Raises PeerProtocolError."""
    if len(payload) < 2 or payload[0] != _VERSION:
        version = payload[:1].hex()
        raise PeerProtocolError(f"{name} sends metadata in version {version}, and this worker reads {_VERSION}")
    return payload[1], payload[2:]


def _number(name: str, octets: bytes) -> int:
    """Raises PeerProtocolError."""
    if len(octets) != _NUMBER:
        raise PeerProtocolError(f"{name} sends an index of {len(octets)} octets, not of {_NUMBER}")
    return int.from_bytes(octets, "big")

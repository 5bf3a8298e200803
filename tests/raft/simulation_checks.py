"""What must hold after every step of a simulated cluster, seen from outside and from above.

    C1  one leader per term
    C2  an entry is what its group, index and term say, wherever it is written; so is the term of the one before it
    C3  what one member has applied at an index, every member applies there
    C4  a member votes once in a term, whatever happens to it between
    C5  what is applied for the first time is on the disks of a majority
    C6  what its proposer was told of is in every state for ever (with C3, and at the end)
    C7  the commit index never passes the log, and no member applies what it has not got
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from raft.errors import PeerProtocolError
from raft.journal_records import read_entry
from raft.messages import VoteReply, VoteRequest
from raft.wire import decode
from tests.raft.raft_node import Item

if TYPE_CHECKING:
    from tests.raft.simulation_node import SimulatedNode


class Violation(AssertionError):
    """An invariant does not hold."""


class Checks:
    """The memory of a run."""

    def __init__(self) -> None:
        self.nodes: dict[str, SimulatedNode] = {}
        self.applied: dict[tuple[int, int], tuple[int, bytes]] = {}
        self.acknowledged: dict[tuple[int, bytes], int] = {}
        self.counts: Counter[str] = Counter()
        self._proposed: dict[tuple[int, bytes], str] = {}
        self._leaders: dict[tuple[int, int], str] = {}
        self._votes: dict[tuple[str, int, int], str] = {}
        self._entries: dict[tuple[int, int, int], tuple[int, bytes]] = {}
        self._previous: dict[tuple[int, int, int], int | None] = {}

    def proposed(self, node: SimulatedNode, group: int, data: bytes) -> None:
        """A node was asked to replicate this, and said yes."""
        self._proposed[group, data] = node.life
        self.counts["proposals"] += 1

    def forgotten(self, node: SimulatedNode) -> None:
        """A node has crashed: whoever had asked it is told nothing."""
        life = node.life
        self._proposed = {key: each for key, each in self._proposed.items() if each != life}

    def written(self, payload: bytes, group: int) -> None:
        """A member writes an entry to its journal (C2)."""
        data, index, term, kind = read_entry(payload)
        found = self._entries.setdefault((group, index, term), (kind, data))
        if found != (kind, data):
            raise Violation(f"group {group} has two entries {index} of term {term}: {found} and {(kind, data)}")

    def on_apply(self, node: SimulatedNode, group: int, item: Item) -> None:
        """A member applies an entry (C3, C5, C6)."""
        index, term, data = item
        key = (group, index)
        if key not in self.applied:
            self.applied[key] = (term, data)
            self._check_majority(node, group, index, term)
        elif self.applied[key] != (term, data):
            raise Violation(
                f"{node.name} applies {(term, data)} at {index} of group {group}; there was {self.applied[key]}"
            )
        if self._proposed.pop((group, data), None) == node.life:
            self.acknowledged[group, data] = index
            self.counts["acknowledged"] += 1

    def on_replace(self, node: SimulatedNode, group: int, items: list[Item]) -> None:
        """A member's machine has another state, from a checkpoint or an install (C3)."""
        for index, term, data in items:
            if self.applied.get((group, index)) != (term, data):
                raise Violation(f"{node.name} has a state with {(term, data)} at {index} of group {group}")
        last = items[-1][0] if items else 0
        missing = [index for each, index in self.applied if each == group and index <= last]
        if len(missing) != len(items):
            raise Violation(f"{node.name} has a state up to {last} of group {group} that lacks entries")

    def _check_majority(self, node: SimulatedNode, group: int, index: int, term: int) -> None:
        member = node.group(group).member
        if not member.is_leader:
            return
        configuration = member.configuration
        holders = [name for name in configuration.voters if self._is_durable(name, group, index, term)]
        if len(holders) < configuration.majority:
            raise Violation(f"{node.name} applies {index} of group {group}, and only {holders} have it on disk")

    def _is_durable(self, name: str, group: int, index: int, term: int) -> bool:
        log = self.nodes[name].group(group).member.log
        if index <= log.synced_checkpoint_index:
            return True
        return index <= log.synced_index and log.term_at(index) in (None, term)

    def on_frame(self, node: SimulatedNode, receiver: str, frame: bytes) -> None:
        """A node sends a frame: its votes, seen by others (C4)."""
        try:
            message = decode(frame)
        except PeerProtocolError as error:
            raise Violation(f"{node.name} sends what no node understands: {error}") from None
        if isinstance(message, VoteReply) and message.is_granted and not message.is_pre:
            self._vote(node.name, message.group, message.term, receiver)
        elif isinstance(message, VoteRequest) and not message.is_pre:
            self._vote(node.name, message.group, message.term, node.name)

    def _vote(self, name: str, group: int, term: int, candidate: str) -> None:
        first = self._votes.setdefault((name, group, term), candidate)
        if first != candidate:
            raise Violation(f"{name} votes for {first} and {candidate} in term {term} of group {group}")

    def on_turn(self, node: SimulatedNode) -> None:
        """A turn of a node is over (C1, C2, C7)."""
        for group_id, group in node.host.groups.items():
            member = group.member
            if member.is_leader:
                first = self._leaders.setdefault((group_id, member.current_term), node.name)
                if first != node.name:
                    raise Violation(f"{first} and {node.name} lead group {group_id} in term {member.current_term}")
            log = member.log
            if not member.last_applied <= member.commit_index <= log.last_index:
                raise Violation(f"{node.name}: {group.statistics()}")
            for index in range(max(log.base_index + 1, log.last_index - 4), log.last_index + 1):
                term, before = log.term_at(index), log.term_at(index - 1)
                if self._previous.setdefault((group_id, index, term or 0), before) != before:
                    raise Violation(f"{node.name}: before {index} of term {term} there is {before} in group {group_id}")

    def at_the_end(self, group: int, states: dict[str, list[Item]]) -> None:
        """All have converged (C3, C6)."""
        wanted = [(index, term, data) for (each, index), (term, data) in sorted(self.applied.items()) if each == group]
        for name, items in states.items():
            if items != wanted:
                raise Violation(f"{name} ends with another state of group {group}: {len(items)} of {len(wanted)} items")
        places = {data: index for index, _, data in wanted}
        for (each, data), index in self.acknowledged.items():
            if each == group and places.get(data) != index:
                raise Violation(f"{data!r} was acknowledged at {index} of group {group}, and is not there")

    def terms(self) -> list[int]:
        """The terms that had a leader."""
        return [term for _, term in self._leaders]

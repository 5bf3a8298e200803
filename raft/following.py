"""Following: what a member does while another one leads, or nobody that it knows of.

Invariants:
1. `verified_index`: up to here the log is known to match the leader's, in this term. It begins at the commit index,
   because what is committed is in every later leader's log.
2. Entries are cut only where one has another term than the leader's (S1), never at or below the commit index.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from raft.entry import MEMBERSHIP, Entry
from raft.errors import NotNow
from raft.install import InstallReceiver
from raft.messages import Append, AppendReply, InstallChunk, InstallReply

if TYPE_CHECKING:
    from raft.member import Member

# A name of another module as an integer of this one, which a compiled one compares in C.
_MEMBERSHIP = MEMBERSHIP


class Following:
    """The role of a follower, from when it begins to follow until its term or its leader changes."""

    name = "follower"
    transfers_given_up = 0

    def __init__(self, member: Member, leader: str | None) -> None:
        self.member = member
        self.leader = leader
        self.heard_at = member.clock
        self.verified_index = member.commit_index
        self.owes_reply = False
        self._install: InstallReceiver | None = None

    @property
    def has_fresh_leader(self) -> bool:
        """Whether the leader was heard of too recently for an election."""
        member = self.member
        return self.leader is not None and member.clock - self.heard_at < member.settings.election_timeout_min_ms

    def commit(self, commit_index: int) -> None:
        """The leader's commit index: only what is known to match counts."""
        self.member.set_commit(min(commit_index, self.verified_index))

    def on_append(self, append: Append) -> None:
        """Entries from the leader."""
        member, log = self.member, self.member.log
        _, _, prev_index, prev_term, commit_index, entries = append
        if prev_index > member.commit_index:
            found = log.term_at(prev_index)
            if found is None or found != prev_term:
                self._refuse(append)
                return
        elif prev_index >= log.base_index and log.term_at(prev_index) != prev_term:
            member.stop(
                f"{self.leader} says that entry {prev_index} has term {prev_term}; "
                f"here it is committed with term {log.term_at(prev_index)}"
            )
        if entries:
            self._take_entries(entries)
        verified = prev_index + len(entries)
        if verified > self.verified_index:
            self.verified_index = verified
        self.owes_reply = True
        self.commit(commit_index)

    def _take_entries(self, entries: list[Entry]) -> None:
        log = self.member.log
        first = entries[0][1]
        fresh = entries if first > log.last_index else self._without_known(entries)
        has_configuration = False
        for entry in fresh:
            data, index, term, kind = entry
            log.add(data, index, term, kind)
            if kind == _MEMBERSHIP:
                has_configuration = True
        if has_configuration:
            self.member.configuration_changed()

    def _without_known(self, entries: list[Entry]) -> list[Entry]:
        """What is not in the log yet; a tail of the log that conflicts with it has been cut."""
        member, log = self.member, self.member.log
        for place, (_, index, term, _) in enumerate(entries):
            if index <= log.base_index:
                continue
            if index > log.last_index:
                return entries[place:]
            if log.term_at(index) != term:
                if index <= member.commit_index:
                    member.stop(
                        f"{self.leader} has entry {index} of term {term}; "
                        f"here it is committed with term {log.term_at(index)}"
                    )
                before = log.configuration_index
                member._SyncObj__deleteEntriesFrom(index)
                if log.configuration_index != before:
                    member.configuration_changed()
                return entries[place:]
        return []

    def _refuse(self, append: Append) -> None:
        """The entry before is missing or has another term: say where the logs can match at most."""
        log = self.member.log
        index = log.last_match(append.prev_index, append.prev_term)
        self.member.send(
            self.leader or "",
            AppendReply(
                self.member.group_id,
                self.member.current_term,
                False,
                index,
                log.term_at(index) or 0,
                append.prev_index,
            ),
        )

    def end_turn(self) -> None:
        """One reply to all of the turn's appends."""
        if self.owes_reply and self.leader is not None:
            self.owes_reply = False
            member = self.member
            reply = AppendReply(member.group_id, member.current_term, True, self.verified_index, 0, 0)
            member.send(self.leader, reply)

    # -- install -------------------------------------------------------------------------------------------------------

    def on_install_chunk(self, chunk: InstallChunk) -> None:
        """A part of the leader's state, because it has not kept the entries that are missing here."""
        member = self.member
        if chunk.last_index <= member.commit_index:
            self._drop_install()
            self._reply(chunk, chunk.number + 1, is_done=True)
            return
        if self._install is None or self._install.install_id != chunk.install_id:
            if chunk.number:
                self._reply(chunk, 0, is_done=False)
                return
            self._drop_install()
            try:
                self._install = InstallReceiver(member, chunk.install_id)
            except NotNow:
                return  # what is not answered for comes again
        is_done = self._install.take(chunk)
        next_number = self._install.next_number
        if is_done:
            self._install = None
            member.installed(chunk.last_index, chunk.last_term, chunk.configuration)
            self.verified_index = chunk.last_index
        self._reply(chunk, next_number, is_done)

    def _reply(self, chunk: InstallChunk, next_number: int, is_done: bool) -> None:
        member = self.member
        reply = InstallReply(member.group_id, member.current_term, chunk.install_id, next_number, is_done)
        member.send(self.leader or "", reply)

    def _drop_install(self) -> None:
        if self._install is not None:
            install, self._install = self._install, None
            install.abort()

    def close(self) -> None:
        """The role ends."""
        self._drop_install()

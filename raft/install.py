"""Installs: the state of the leader's machine, streamed to a member that is too far behind for the log.

The sender keeps what was not acknowledged, within a limit, and sends it again when nothing moves; the receiver takes
the parts in order and answers with the number of the one that it wants next. Neither knows the log.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

from raft.configuration import Configuration
from raft.errors import NotNow
from raft.messages import InstallChunk

if TYPE_CHECKING:
    from raft.member import Member

CHUNK_BYTES = 256 * 1024
#: So many chunks are made in a turn: an answer to the first brings the next turn.
AT_ONCE = 4


class InstallSender:
    """One install on its way to one member: the state as of `index`. Raises NotNow."""

    def __init__(
        self, member: Member, install_id: int, index: int, term: int, configuration: Configuration
    ) -> None:
        self.install_id = install_id
        self.index = index
        self.moved_at = self._sent_again_at = member.clock
        self._member = member
        self._term = term
        self._configuration = configuration
        self._chunks: Iterator[bytes] | None
        try:
            self._chunks = member.machine.export()
        except NotNow:
            raise
        except Exception as error:
            raise member.failed("beginning an export", error) from error
        self._number = 0
        self._unacknowledged: deque[InstallChunk] = deque()
        self._in_flight_bytes = 0

    def take_chunks(self) -> list[InstallChunk]:
        """What may be sent now, for the first time. Raises NotNow: it has come to nothing."""
        taken: list[InstallChunk] = []
        room = self._member.settings.install_in_flight_bytes
        while self._chunks is not None and self._in_flight_bytes < room and len(taken) < AT_ONCE:
            data = self._next_chunk(self._chunks)
            if data is None:
                self._chunks = None
            chunk = InstallChunk(
                self._member.group_id,
                self._member.current_term,
                self.install_id,
                self.index,
                self._term,
                self._configuration,
                self._number,
                data is None,
                data or b"",
            )
            self._number += 1
            self._unacknowledged.append(chunk)
            self._in_flight_bytes += len(chunk.data)
            taken.append(chunk)
        return taken

    def _next_chunk(self, chunks: Iterator[bytes]) -> bytes | None:
        try:
            data = next(chunks, None)
        except NotNow:
            raise
        except Exception as error:
            raise self._member.failed("exporting", error) from error
        if data is not None and not 0 < len(data) <= CHUNK_BYTES:
            self._member.stop(f"the machine exports a chunk of {len(data)} octets: 1 to {CHUNK_BYTES} are allowed")
        return data

    def acknowledged(self, next_number: int) -> bool:
        """The receiver wants `next_number` next. False if it has lost what it acknowledged before: begin anew.

        0 comes from a receiver that knows nothing of this install: it has not got the first part yet, or it has
        forgotten all; after a while without any progress it is the latter.
        """
        waiting = self._unacknowledged
        if next_number == 0 and waiting and waiting[0].number > 0:
            return not self._hangs(self.moved_at)
        while waiting and waiting[0].number < next_number:
            self._in_flight_bytes -= len(waiting.popleft().data)
            self.moved_at = self._member.clock
        return True

    def take_again(self) -> list[InstallChunk]:
        """What was sent and not acknowledged, if nothing has moved for too long."""
        if not self._hangs(max(self.moved_at, self._sent_again_at)):
            return []
        self._sent_again_at = self._member.clock
        return list(self._unacknowledged)

    def _hangs(self, since: int) -> bool:
        return self._member.clock - since >= self._member.settings.election_timeout_min_ms

    def close(self) -> None:
        """It is abandoned, or done."""
        chunks, self._chunks = self._chunks, None
        close = getattr(chunks, "close", None)
        if close is not None:
            close()


class InstallReceiver:
    """One install on its way in. Raises NotNow: it is begun when the first part comes again."""

    def __init__(self, member: Member, install_id: int) -> None:
        self.install_id = install_id
        self.next_number = 0
        self._member = member
        try:
            member.machine.begin_install()
        except NotNow:
            raise
        except Exception as error:
            raise member.failed("beginning an install", error) from error

    def take(self, chunk: InstallChunk) -> bool:
        """The next part, or one that was there already, or one that comes too early. True when all is there and the
        machine has taken it over; where it cannot now, the last part comes again."""
        if chunk.number != self.next_number:
            return False
        machine = self._member.machine
        try:
            if chunk.is_last:
                machine.end_install()
            else:
                machine.install_chunk(chunk.data)
        except NotNow:
            return False
        except Exception as error:
            raise self._member.failed(f"installing the state as of {chunk.last_index}", error) from error
        self.next_number += 1
        return chunk.is_last

    def abort(self) -> None:
        """It is abandoned."""
        try:
            self._member.machine.abort_install()
        except Exception as error:
            raise self._member.failed("abandoning an install", error) from error

"""What of the audit log touches files."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from amqp_broker.turn.completion import Completion
from amqp_broker.turn.file_work import FileWork

if TYPE_CHECKING:
    from amqp_broker.audit.files import AuditFiles, Found, Place

#: So much is looked through for one page, octets; whoever wants more goes on from there.
_MOST_READ_BYTES: Final = 4 * 1024 * 1024


class AuditWork(FileWork):
    """Brought back to the log when it has run."""


class AuditWrite(AuditWork):
    """Lines that are to be on the disk."""

    def __init__(self, files: AuditFiles, octets: bytes) -> None:
        super().__init__()
        self._files = files
        self.octets = octets

    def _run(self) -> None:
        self._files.append(self.octets)


class AuditRead(AuditWork, Completion["Found | None"]):
    """A page of lines that is asked for, newest first. Its result: what was found, None where the disk refused."""

    def __init__(
        self, files: AuditFiles, before: Place | None, limit: int, is_wanted: Callable[[bytes], bool]
    ) -> None:
        AuditWork.__init__(self)
        Completion.__init__(self)
        self._files = files
        self._before = before
        self._limit = limit
        self._is_wanted = is_wanted
        self._found: Found | None = None

    def _run(self) -> None:
        self._found = self._files.read(self._before, self._limit, _MOST_READ_BYTES, self._is_wanted)

    def finish(self) -> None:
        """See FileWork."""
        self.complete(self._found)

"""What of the audit log touches files: work for a thread of the driver, each a piece with all that it needs.

Invariant: `run` raises nothing but defects: what the disk refuses is in `error`, for the log to decide on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from amqp_broker.turn.completion import Completion
from storage.errors import StorageError

if TYPE_CHECKING:
    from amqp_broker.audit.files import AuditFiles, Found, Place

#: So much is looked through for one page, octets; whoever wants more goes on from there.
_MOST_READ_BYTES: Final = 4 * 1024 * 1024


class AuditWork:
    """Handed out with a turn, and brought back to the node when it has run."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.has_run = False

    def run(self) -> None:
        """In another thread."""
        try:
            self._run()
        except (OSError, StorageError) as error:
            self.error = error
        self.has_run = True

    def _run(self) -> None:
        raise NotImplementedError


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
        """It has run."""
        self.complete(self._found)

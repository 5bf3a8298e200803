"""What can be wrong with a data folder. Each error names the thing, the cause and the way out.

Errors of the operating system (no space, input/output error) are not wrapped: they stay OSError.
"""

from __future__ import annotations

import errno


class StorageError(Exception):
    """A data folder that cannot be used as it is."""


class CorruptRecord(StorageError):
    """A record that was once synced no longer reads as it was written, or is missing.

    `file` is relative to the data folder, `offset` is in octets from its start. `where`: both, and the reason.
    """

    def __init__(self, file: str, offset: int, reason: str) -> None:
        self.where = f"{file} at offset {offset}: {reason}"
        super().__init__(
            f"{self.where}; restore the folder from a copy (not that of a member of a cluster, which has to rejoin: "
            f"amqp-broker cluster rejoin), or start with --recover, which sets the damaged part aside and goes on "
            f"without it"
        )
        self.file = file
        self.offset = offset
        self.reason = reason


class ForeignFolder(StorageError):
    """The folder is not a data folder that this program can read. It has not been touched."""

    def __init__(self, folder: str, reason: str) -> None:
        super().__init__(
            f"{folder}: {reason}; nothing was changed there; name an empty folder or one made by this broker"
        )
        self.folder = folder
        self.reason = reason


class FolderInUse(StorageError):
    """Another process holds the lock of the folder. `pid` is its process id, 0 where it is not known."""

    def __init__(self, folder: str, pid: int) -> None:
        holder = f"process {pid}" if pid else "another process"
        super().__init__(f"{folder}: in use by {holder}; stop that broker first or name another folder")
        self.folder = folder
        self.pid = pid


class SyncFailed(OSError):
    """A sync has failed before, so that nobody knows what is on the disk: the node must stop and recover."""

    def __init__(self, path: str, cause: OSError) -> None:
        super().__init__(
            cause.errno or errno.EIO,
            f"an earlier sync of {path} failed ({cause}); what was written since is not safe: "
            f"stop the broker, check the disk, start again",
        )
        self.path = path

"""The FORMAT file at the root of a data folder: whose folder it is and which version wrote it.

A folder with contents but without a FORMAT file belongs to somebody else. Checking never writes.

A folder is made, and taken over, in a version that the broker before reads too. It is raised when that broker must not
use it any more (`raise_format`).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, cast

from storage.errors import ForeignFolder

if TYPE_CHECKING:
    from storage.disk import Disk

FORMAT_FILE = "FORMAT"
FORMAT_DRAFT = "FORMAT.new"
FORMAT_NAME = "amqp-broker data folder"
FORMAT_VERSION = 6
#: Of new folders, and of those that were of an earlier version. 6: the journal may have LETTERS, the metadata a level.
BASE_VERSION = 5
#: The oldest that is taken over. In 4 the journal does not say yet whose memory it is.
OLDEST_VERSION = 4
MAX_FORMAT_BYTES = 4096

# What may lie in a folder that is still nobody's: our own unfinished start, and what mkfs puts into a volume.
_NOBODYS = ("LOCK", FORMAT_DRAFT, "lost+found")


def read_format(disk: Disk) -> dict[str, object] | None:
    """What the FORMAT file says, None where there is none. Raises ValueError: not a JSON object."""
    if not disk.exists(FORMAT_FILE):
        return None
    contents = json.loads(disk.read(FORMAT_FILE, 0, MAX_FORMAT_BYTES))
    if not isinstance(contents, dict):
        raise ValueError("not a JSON object")
    return contents


def check_format(disk: Disk, name: str) -> int:
    """The version of a data folder that this broker reads; 0: it is an empty one. Raises ForeignFolder, whose text says
    `name`."""
    try:
        contents = read_format(disk)
    except ValueError as error:
        raise ForeignFolder(name, f"its {FORMAT_FILE} file cannot be read ({error})") from None
    if contents is None:
        strangers = [entry for entry in disk.list("") if entry not in _NOBODYS]
        if strangers:
            raise ForeignFolder(
                name, f"not empty ({strangers[0]!r} is there) and without a {FORMAT_FILE} file"
            )
        return 0
    if contents.get("format") != FORMAT_NAME:
        raise ForeignFolder(
            name, f"its {FORMAT_FILE} file says {contents.get('format')!r} instead of {FORMAT_NAME!r}"
        )
    version = contents.get("version")
    if not isinstance(version, int) or not OLDEST_VERSION <= version <= FORMAT_VERSION:
        raise ForeignFolder(
            name,
            f"written in version {version!r} of the format, and this broker reads {OLDEST_VERSION} to "
            f"{FORMAT_VERSION}: start it with the version of the broker that has written it, or with one between",
        )
    return version


def claim_format(disk: Disk, name: str) -> None:
    """Write the FORMAT file into an empty folder, or into one that is taken over: no broker that writes such uses it
    any more. Check it where it is there. Raises as check_format."""
    if check_format(disk, name) < BASE_VERSION:
        _write_format(disk, BASE_VERSION)


def raise_format(disk: Disk, version: int) -> None:
    """From now on the folder may have what this version has brought; brokers that do not know it refuse the folder.
    Nothing where the disk has no FORMAT file, as in the simulator. Raises OSError."""
    contents = read_format(disk)
    if contents is not None and cast(int, contents["version"]) < version:
        _write_format(disk, version)


def _write_format(disk: Disk, version: int) -> None:
    if disk.exists(FORMAT_DRAFT):
        disk.remove(FORMAT_DRAFT)
    text = json.dumps({"format": FORMAT_NAME, "version": version}) + "\n"
    disk.append(FORMAT_DRAFT, [text.encode()])
    disk.sync(FORMAT_DRAFT)
    disk.rename(FORMAT_DRAFT, FORMAT_FILE)
    disk.sync_folder("")

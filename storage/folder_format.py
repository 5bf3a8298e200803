"""The FORMAT file at the root of a data folder: whose folder it is and which version wrote it.

A folder with contents but without a FORMAT file belongs to somebody else. Checking never writes.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from storage.errors import ForeignFolder

if TYPE_CHECKING:
    from storage.disk import Disk

FORMAT_FILE = "FORMAT"
FORMAT_DRAFT = "FORMAT.new"
FORMAT_NAME = "amqp-broker data folder"
FORMAT_VERSION = 5
#: Versions whose folders are taken over as they are. 4: the journal does not say yet whose memory it is.
EARLIER_VERSIONS = (4,)
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


def check_format(disk: Disk, name: str) -> bool:
    """True: a data folder of this version; False: an empty one, or one of a version that is taken over. Raises
    ForeignFolder, whose text says `name`."""
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
        return False
    if contents.get("format") != FORMAT_NAME:
        raise ForeignFolder(
            name, f"its {FORMAT_FILE} file says {contents.get('format')!r} instead of {FORMAT_NAME!r}"
        )
    version = contents.get("version")
    if version in EARLIER_VERSIONS:
        return False
    if version != FORMAT_VERSION:
        raise ForeignFolder(
            name, f"written in version {version!r} of the format, and this broker reads {FORMAT_VERSION}"
        )
    return True


def claim_format(disk: Disk, name: str) -> None:
    """Write the FORMAT file into an empty folder, or into one that is taken over: no earlier version of the broker uses
    it any more. Check it where it is there. Raises as check_format."""
    if check_format(disk, name):
        return
    if disk.exists(FORMAT_DRAFT):
        disk.remove(FORMAT_DRAFT)
    text = json.dumps({"format": FORMAT_NAME, "version": FORMAT_VERSION}) + "\n"
    disk.append(FORMAT_DRAFT, [text.encode()])
    disk.sync(FORMAT_DRAFT)
    disk.rename(FORMAT_DRAFT, FORMAT_FILE)
    disk.sync_folder("")

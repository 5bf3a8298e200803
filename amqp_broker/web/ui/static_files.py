"""StaticFiles: the files of the pages, read once. Their address has a hash of all of them, so a browser keeps them
for ever and never mixes two versions; modules name each other relatively and need not know it.

Invariant: what is served is in the table that was read at the start; no path of a request reaches the disk.
"""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parents[1] / "static"
INDEX: Final = "index.html"
#: What stands in the index for the folder with the hash.
_PLACE: Final = b"{files}"
_MEDIA: Final = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_HASH_OCTETS: Final = 8


@dataclass(frozen=True, slots=True)
class StaticFile:
    """A file, as it is and packed."""

    media: str
    body: bytes
    packed: bytes


class StaticFiles:
    """`index` is the page; `find` has the rest."""

    def __init__(self, folder: Path = FOLDER) -> None:
        bodies = {
            path.relative_to(folder).as_posix(): path.read_bytes()
            for path in sorted(folder.rglob("*"))
            if path.suffix in _MEDIA
        }
        digest = hashlib.blake2b(digest_size=_HASH_OCTETS)
        for name, body in bodies.items():
            digest.update(b"%s\0%d\0%s" % (name.encode(), len(body), body))
        self.prefix = f"static/{digest.hexdigest()}/"
        self.index = _file(INDEX, bodies.pop(INDEX).replace(_PLACE, self.prefix.rstrip("/").encode()))
        self._files = {self.prefix + name: _file(name, body) for name, body in bodies.items()}

    def find(self, path: str) -> StaticFile | None:
        """`path` as in the URL, without the slash that it begins with."""
        return self._files.get(path)

    def names(self) -> list[str]:
        return list(self._files)


def _file(name: str, body: bytes) -> StaticFile:
    return StaticFile(_MEDIA[Path(name).suffix], body, gzip.compress(body, 9, mtime=0))

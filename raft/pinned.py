"""The pinned pysyncobj: its version, and the digest of every source file that this package builds upon.

raft/member.py overrides methods by their mangled names. Another version, or a patched copy, could call them in
another order and undo what makes them safe; so nothing here is imported before `check_engine` has passed.

It is loaded without the library cryptography, with which it would encrypt connections that nobody makes here: that
would be a tenth of an idle broker's memory.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from raft.errors import UnsafeEngine


@contextmanager
def _without(package: str) -> Iterator[None]:
    """What is imported within cannot import it, unless it is there already."""
    if package in sys.modules:
        yield
        return
    sys.modules[package] = None  # type: ignore[assignment]  # as the import system documents
    try:
        yield
    finally:
        del sys.modules[package]


with _without("cryptography"):
    from pysyncobj import config, journal, node, poller, syncobj, transport, version

VERSION = "0.3.17"
DIGESTS = {
    "syncobj": "e8bdf06797085d734df86e24ab4802fe87893dff77268565ec036f7ad4a1cfe4",
    "config": "fbbc7ff9f18e4d15a7fd563376e42f5bd192956879d4b810b056d5248b955698",
    "journal": "9cf1eaf6acc704581a4cf7d3de330a404403913107adc91c929778b7e3f35edf",
    "node": "e4a3f027cd8291f558334bb9c977e952f6b6989e7e1fa1588d3005ef0b990e2c",
    "poller": "f69ac749fb410670282fd9520c5805ffc684c8a5f762a927127753d9be8551e6",
    "transport": "0c9d89f9c4781ec9772df8011d7975a1a4a1a5f541357e12eae85a813e92b50b",
}
_MODULES = {
    "syncobj": syncobj,
    "config": config,
    "journal": journal,
    "node": node,
    "poller": poller,
    "transport": transport,
}


def digest_of(source: bytes) -> str:
    """The SHA-256 of a source file, whatever its line ends."""
    return hashlib.sha256(source.replace(b"\r\n", b"\n")).hexdigest()


def check_engine(found_version: str, sources: dict[str, bytes]) -> None:
    """Raises UnsafeEngine unless it is the pinned version with the pinned sources (by module name)."""
    if found_version != VERSION:
        raise UnsafeEngine(
            f"pysyncobj {found_version} is installed, but replication is built upon parts of {VERSION}: "
            f"pip install pysyncobj=={VERSION}"
        )
    for name, digest in DIGESTS.items():
        found = digest_of(sources[name])
        if found != digest:
            raise UnsafeEngine(
                f"pysyncobj/{name}.py has the digest {found[:16]}..., not {digest[:16]}... of {VERSION}: it was "
                f"changed; pip install --force-reinstall pysyncobj=={VERSION}"
            )


def read_sources() -> dict[str, bytes]:
    """The source of every module that is built upon. Raises UnsafeEngine where it cannot be read."""
    sources = {}
    for name, module in _MODULES.items():
        try:
            sources[name] = Path(str(module.__file__)).read_bytes()
        except OSError as error:
            raise UnsafeEngine(
                f"the source of pysyncobj.{name} cannot be read ({error}), so it cannot be checked: install "
                f"pysyncobj=={VERSION} as files, not in an archive"
            ) from None
    return sources


check_engine(version.VERSION, read_sources())

Journal = journal.Journal

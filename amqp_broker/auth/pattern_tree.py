"""The tree of a name pattern: what pattern_syntax.py reads and patterns.py matches.

It knows neither the notation nor the matching. Sets of octets are masks (octet_sets.py).
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class PatternError(ValueError):
    """A pattern that cannot be used; the text names the pattern, the offset in octets and the reason."""

    def __init__(self, source: bytes, offset: int, reason: str) -> None:
        shown = source.decode("utf-8", "backslashreplace")
        super().__init__(f"pattern '{shown}' cannot be used: {reason} (at octet {offset})")
        self.reason = reason
        self.offset = offset


class Position(Enum):
    """A condition on a place between two octets."""

    START = "\\A"
    END = "\\z"
    END_OR_LAST_NEWLINE = "\\Z"
    LINE_START = "^ with (?m)"
    LINE_END = "$ with (?m)"
    WORD_BOUNDARY = "\\b"
    NO_WORD_BOUNDARY = "\\B"


class Octet(NamedTuple):
    """One octet out of a set."""

    mask: int


class At(NamedTuple):
    position: Position


class Sequence(NamedTuple):
    items: tuple[Node, ...]


class Choice(NamedTuple):
    branches: tuple[Node, ...]


class Repeat(NamedTuple):
    """`item` at least `least` times and at most `most` times (None: no limit)."""

    item: Node
    least: int
    most: int | None


class LookAhead(NamedTuple):
    item: Node
    negative: bool


class LookBehind(NamedTuple):
    """One of `alternatives`, each a tuple of octet sets, ends here."""

    alternatives: tuple[tuple[int, ...], ...]
    negative: bool


Node = Octet | At | Sequence | Choice | Repeat | LookAhead | LookBehind

"""Successors: the pages that take the place of the oldest ones of a log (StreamLog.succeed), as compaction makes them.

All that there is to do for each page is done when it comes here, so that what is left for the moment in which the log's
pages are these costs the same however many there are.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator

from queues.stream.pages import NAME, Part


class Successors:
    """parts: the pages, in order. names: what a checkpoint has of them. written: those of them that are new. octets: of
    their places. replaced: pages that are none of them."""

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self.names = bytearray()
        self.written: list[Part] = []
        self.octets = 0
        self.replaced: list[Part] = []
        self._befores = array("q")

    def keep(self, part: Part) -> None:
        """A page stays as it is."""
        again = Part(part.time, part.page, part.is_placed)
        again.taken = part.taken
        self._add(again)

    def replace(self, part: Part) -> None:
        """A page goes: what is left of it is in new ones."""
        self.replaced.append(part)

    def write(self, part: Part) -> None:
        """A new page, which has its place."""
        part.page.be_named()  # it goes as what a checkpoint names goes
        self.written.append(part)
        self.octets += part.page.location.length
        self._add(part)

    def _add(self, part: Part) -> None:
        self.parts.append(part)
        self.names += part.name()

    def count_octets(self, behind: int) -> Iterator[None]:
        """Say of each page what is before it. behind: the same of the page behind the last one."""
        befores = self._befores = array("q", bytes(8 * len(self.parts)))
        for place in range(len(befores) - 1, -1, -1):
            befores[place] = behind = behind - self.parts[place].taken
            yield None

    def from_place(self, place: int) -> tuple[list[Part], bytearray, array[int]]:
        """The pages from one on, their names, and the octets before each (`count_octets` has said them)."""
        return self.parts[place:], self.names[place * NAME.size :], self._befores[place:]

"""Writes the table of docs/architecture.md that says who may import whom: `python -m tests.docs.architecture_page`.

The table is that of tests/house/rooms.py, to which tests/house/test_imports.py holds the source.
"""

from __future__ import annotations

import sys
import textwrap

from tests.docs.operations_page import markers
from tests.docs.source_names import DOCS
from tests.house.rooms import ROOMS

PAGE = DOCS / "architecture.md"
#: A row is so wide.
WIDTH = 118


def rows() -> list[str]:
    """The lines of the table, from the top to the bottom."""
    widest = max(len(room) for room in ROOMS)
    return [
        line
        for room, known in ROOMS.items()
        for line in textwrap.wrap(
            known or "nothing", WIDTH, initial_indent=f"{room:{widest}} -> ", subsequent_indent=" " * (widest + 4)
        )
    ]


def written(page: str) -> str:
    """The page with its table as the test has it."""
    begin, end = markers("imports")
    table = "\n".join(["```", *rows(), "```"])
    before, _, rest = page.partition(begin)
    return f"{before}{begin}\n{table}\n\n{end}{rest.partition(end)[2]}"


def main() -> None:
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    sys.stdout.write(f"wrote the table of {PAGE.name}\n")


if __name__ == "__main__":
    main()

"""Writes the table of docs/architecture.md that says who may import whom: `python -m tests.docs.architecture_page`.

The table is the head of tests/house/test_imports.py, which holds the source to it.
"""

from __future__ import annotations

import sys

from tests.docs.operations_page import markers
from tests.docs.source_names import DOCS
from tests.house import test_imports

PAGE = DOCS / "architecture.md"
FIRST, BEHIND = "    amqp_broker.octets  ", "Everybody may import the standard"


def written(page: str) -> str:
    """The page with its table as the test has it."""
    begin, end = markers("imports")
    head = test_imports.__doc__ or ""
    lines = head[head.index(FIRST) : head.index(BEHIND)].rstrip().splitlines()
    table = "\n".join(["```", *(line.removeprefix("    ") for line in lines), "```"])
    before, _, rest = page.partition(begin)
    return f"{before}{begin}\n{table}\n\n{end}{rest.partition(end)[2]}"


def main() -> None:
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    sys.stdout.write(f"wrote the table of {PAGE.name}\n")


if __name__ == "__main__":
    main()

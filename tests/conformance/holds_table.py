"""The table of what the suite holds: one row for each behaviour, with the tests that hold it.

    python tests/conformance/holds_table.py [--format markdown|json] [PATH ...]

It collects the tests (nothing runs, no broker is needed) and reads their `holds` and `ours_only` marks;
docs/compatibility.md is made from its output. A row's behaviour begins with its method or topic, so sorting
brings together what belongs together.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

PROJECT_ROOT = Path(__file__).resolve().parent.parent.parent
DEFAULT_PATHS = ["tests/conformance", "interop_tests"]


class Row(NamedTuple):
    """A behaviour, the test that holds it, and why RabbitMQ is left out (empty: both brokers behave so)."""

    behaviour: str
    test: str
    ours_only: str


class _Collector:
    """A pytest plugin that keeps the marks of collected tests; parametrized tests count once."""

    def __init__(self) -> None:
        self.rows: dict[Row, None] = {}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            only = item.get_closest_marker("ours_only")
            for mark in item.iter_markers("holds"):
                test = item.nodeid.partition("[")[0]
                self.rows[Row(mark.args[0], test, only.args[0] if only else "")] = None


def collect(paths: list[str]) -> list[Row]:
    """The rows of the tests under these paths, sorted by behaviour; raises SystemExit when collection
    fails.
    """
    collector = _Collector()
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        status = pytest.main(["--collect-only", "-q", "--rootdir", str(PROJECT_ROOT), *paths], plugins=[collector])
    if status != pytest.ExitCode.OK:
        raise SystemExit(f"the tests could not be collected:\n{said.getvalue()}")
    return sorted(collector.rows, key=lambda row: (row.behaviour.lower(), row.test))


def as_markdown(rows: list[Row]) -> str:
    """A Markdown table; the last column says where RabbitMQ 3.10 differs."""
    lines = ["| behaviour | held by | RabbitMQ 3.10 |", "|---|---|---|"]
    for row in rows:
        differs = row.ours_only or "the same"
        cells = (row.behaviour.replace("|", "\\|"), f"`{row.test}`", differs.replace("|", "\\|"))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--format", choices=["markdown", "json"], default="markdown")
    parser.add_argument("paths", nargs="*", default=[str(PROJECT_ROOT / path) for path in DEFAULT_PATHS])
    arguments = parser.parse_args()
    rows = collect(arguments.paths)
    text = (
        as_markdown(rows) if arguments.format == "markdown" else json.dumps([row._asdict() for row in rows], indent=1)
    )
    sys.stdout.write(text + "\n")


if __name__ == "__main__":
    main()

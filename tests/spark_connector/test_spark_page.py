"""docs/spark.md has the tables that the code has: `python -m tests.spark_connector.test_spark_page` writes them."""

from __future__ import annotations

import re
from pathlib import Path

from spark_connector.options import BATCH, CONNECTION, OPTIONS, SINK, SOURCE, STREAM
from spark_connector.schema import COLUMNS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "spark.md"
USES = {CONNECTION: "all", SOURCE: "sources", BATCH: "batch source", STREAM: "streaming source", SINK: "sinks"}


def options_table() -> str:
    rows = ["| option | default | for | meaning |", "|---|---|---|---|"]
    for each in OPTIONS:
        default = "–" if each.default is None else "empty" if each.default == "" else f"`{each.default}`"
        rows.append(f"| `{each.name}` | {default} | {USES[each.group]} | {each.doc} |")
    return "\n".join(rows)


def columns_table() -> str:
    rows = ["| column | type | meaning |", "|---|---|---|"]
    rows += [f"| `{each.name}` | {each.type} | {each.doc} |" for each in COLUMNS]
    return "\n".join(rows)


def with_tables(page: str) -> str:
    for name, table in (("columns", columns_table()), ("options", options_table())):
        before, mark, after = page.partition(f"<!-- {name} -->\n")
        page = before + mark + "\n" + table + "\n\n" + re.sub(r"^\n(?:[|].*\n)*\n*", "", after)
    return page


def test_the_tables_are_those_of_the_code() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert "<!-- options -->" in page
    assert "<!-- columns -->" in page
    assert with_tables(page) == page, "python -m tests.spark_connector.test_spark_page writes them anew"


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")

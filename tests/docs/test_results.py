"""Results in benchmarks/results/ have names that stay, say what they hold for, and are there where a page names one."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from benchmarks.machine import RESULTS, header, page_of
from tests.docs.source_names import DOCS, ROOT

PAGES = sorted(RESULTS.glob("*.md"))
NAMING = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]
_NAME = re.compile(r"[a-z]+(-[a-z]+)*\.(md|json)")
_NAMED = re.compile(r"(?<![\w-])results/([\w.+-]*\w)")


def result_names() -> list[str]:
    return sorted(path.name for path in RESULTS.iterdir() if not path.stem.endswith("-part"))


def test_a_name_has_words_and_no_date_and_no_commit() -> None:
    names = result_names()
    assert len(names) > 10
    assert [name for name in names if not _NAME.fullmatch(name)] == []


@pytest.mark.parametrize("name", ["compare-2026-11-22.md", "compare-df475a3.md", "compare-bd21+changes.json"])
def test_such_a_name_would_be_found(name: str) -> None:
    assert not _NAME.fullmatch(name)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_result_says_what_it_holds_for(page: Path) -> None:
    facts = [line.split(": ")[0] for line in page.read_text(encoding="utf-8").splitlines()[2:] if line.startswith("- ")]
    assert {"- date", "- machine", "- amqp-broker"} <= set(facts)
    assert {"- commit", "- command"} & set(facts)


def test_every_single_result_belongs_to_a_page() -> None:
    for path in RESULTS.glob("*.json"):
        assert path.with_suffix(".md").exists()
        assert json.loads(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", NAMING, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_result_that_a_page_names_exists(page: Path) -> None:
    named = _NAMED.findall(page.read_text(encoding="utf-8"))
    assert [name for name in named if not (RESULTS / name).exists()] == []


def test_the_readme_names_results() -> None:
    assert len(_NAMED.findall((ROOT / "README.md").read_text(encoding="utf-8"))) >= 2


def test_a_measurement_of_a_part_does_not_take_the_place_of_the_whole() -> None:
    assert page_of("compare") == RESULTS / "compare.md"
    assert page_of("compare", is_whole=False) == RESULTS / "compare-part.md"
    ignored = (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
    assert "/benchmarks/results/*-part.*" in ignored


def test_a_page_begins_with_machine_versions_commit_and_date() -> None:
    words = [line.split(": ")[0] for line in header("A title", {})]
    assert words[:2] == ["# A title", ""]
    assert words[2:-1] == ["- date", "- commit", "- machine", "- amqp-broker", "- Python"]


#: What the README quotes: each figure is the ratio of one line of a page.
QUOTED = {
    "transient, automatic acks, 128 B": ["transient, auto-ack, 128 B"],
    "publisher confirms, acks of 100, 128 B": ["confirms (window 1000) and acks of 100, 128 B"],
    "persistent 1 KiB, on the disk before the confirm": ["persistent 1 KiB, confirms and acks of 100"],
    "topic exchange with 1,000 bindings": ["topic exchange, 1,000 bindings, confirms and acks of 100"],
    "fan-out to 100 queues": ["fan-out to 100 queues, delivered"],
    "bodies of 64 KiB, of 1 MiB": ["64 KiB, auto-ack", "1 MiB, auto-ack"],
    "quorum queue of three nodes, 1 KiB": ["quorum queue of three nodes, 1 KiB"],
    "median latency at 10,000/s (lower is better)": ["end to end at 10,000/s, auto-ack"],
}


def ratio_of(page: Path, scenario: str) -> float:
    """Of the first line with this scenario: its rate, or its median."""
    lines = [line.split(" | ") for line in page.read_text(encoding="utf-8").splitlines()]
    return next(float(cells[6]) for cells in lines if cells[0] == f"| {scenario}")


def test_the_readme_quotes_what_was_measured() -> None:
    section = (ROOT / "README.md").read_text(encoding="utf-8").partition("## How fast")[2].partition("\n## ")[0]
    rows = [
        line.strip("| ").split(" | ")
        for line in section.splitlines()
        if line.startswith("| ") and "compiled" not in line
    ]
    assert [row[0] for row in rows] == list(QUOTED)
    for title, *columns in rows:
        for page, figures in zip((page_of("compare"), page_of("compare-plain")), columns, strict=True):
            for said, scenario in zip(figures.split(", "), QUOTED[title], strict=True):
                decimals = len(said.partition(".")[2])
                measured = ratio_of(page, scenario)
                assert abs(float(said) - measured) <= 0.51 * 10**-decimals, (page.name, scenario, said, measured)


def test_the_readme_quotes_what_was_measured_of_streams() -> None:
    section = (ROOT / "README.md").read_text(encoding="utf-8").partition("## Streams")[2].partition("\n## ")[0]
    words = section.partition("Times RabbitMQ's streams")[2].split()
    lines = [line.strip("| ").split(" | ") for line in page_of("streams").read_text(encoding="utf-8").splitlines()]
    found = [float(cells[2]) for cells in lines if cells[0].endswith(", ratio")]
    thousand, ten_thousand, again = found
    assert words[words.index("10,000") - 2] == f"{ten_thousand:.1f}"
    assert words[words.index("1,000,") - 2] == f"{thousand:.1f}"
    assert words[words.index("from") - 1] == f"{again:.1f}"


def test_the_readme_quotes_what_was_measured_beside_kafka() -> None:
    section = (ROOT / "README.md").read_text(encoding="utf-8").partition("## Streams")[2].partition("\n## ")[0]
    said = [float(each) for each in re.findall(r"\b\d+\.\d\b", section.partition("others-kafka.md")[2])]
    page = page_of("others-kafka").read_text(encoding="utf-8")
    lines = [line.strip("| ").split(" | ") for line in page.splitlines()]
    shares = {(*cells[:3],): float(cells[5]) for cells in lines if len(cells) == 6 and "Kafka" in cells[2]}
    rates = [
        1 / shares[f"{what}, 128 B", "messages/s", f"Kafka, {how}"]
        for how in ("flushed", "not synced")
        for what in ("publish", "replay")
    ]
    cost = 1 / shares["replay, 128 B", "processor s per million", "Kafka, not synced"]
    for told, measured in zip(said, [*rates, cost], strict=True):
        assert abs(told - measured) <= max(0.06, 0.02 * measured)  # shares have three decimals

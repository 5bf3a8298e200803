"""What people read of a value, and what programs read."""

from __future__ import annotations

import json

import pytest

from amqp_broker.cli.admin.table import Table, aligned, as_csv, as_json
from amqp_broker.cli.cells import duration, for_people, for_programs, shown, size


@pytest.mark.parametrize(
    ("octets", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (5 << 30, "5.0 GiB"), (3 << 50, "3072.0 TiB")],
)
def test_sizes(octets: int, text: str) -> None:
    assert size(octets) == text


@pytest.mark.parametrize(
    ("milliseconds", "text"), [(-5, "0ms"), (999, "999ms"), (61_500, "1m1s"), (3_600_000, "1h0m"), (90_000_000, "1d1h")]
)
def test_times(milliseconds: int, text: str) -> None:
    assert duration(milliseconds) == text


def test_units_are_for_people_only() -> None:
    assert for_people("recv_oct", 2048, 0) == "2.0 KiB"
    assert for_people("oldest_message_age_ms", 2500, 0) == "2s"
    assert for_people("connected_at", 1000, 4000) == "3s"
    assert for_people("messages_ready", 2048, 0) == "2048"
    assert (for_people("durable", True, 0), for_programs(True)) == ("yes", "true")
    assert for_programs(2048) == "2048"
    assert (for_people("tags", ["a", "b"], 0), for_programs(["a", "b"])) == ("a, b", '["a","b"]')
    assert (for_people("arguments", {}, 0), for_programs(None)) == ("-", "-")


def test_nothing_reaches_a_terminal_but_text() -> None:
    assert shown("Grüße") == "Grüße"
    assert shown("a\x1b[2J\n\udcff\u202e") == "a\\x1b[2J\\n\\xff\\u202e"


def test_a_table_for_programs() -> None:
    table = Table(["name", "n"], [["a,\n\udcff", 1], ["bb", None]])
    assert list(aligned(table)) == ["name      n", "a,\\n\\xff  1", "bb        -"]
    assert json.loads(as_json(table)) == [{"name": "a,\n\udcff", "n": 1}, {"name": "bb", "n": None}]
    assert as_csv(table) == 'name,n\r\n"a,\n\\udcff",1\r\nbb,\r\n'

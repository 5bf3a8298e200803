"""Lines of the log: one a record, whatever clients call things."""

from __future__ import annotations

import json
import logging

import pytest

from amqp_broker.settings.log_format import JSON, TEXT, formatter

#: Ends of lines of several kinds, an order to a terminal, half of a surrogate pair, text from right to left.
FORGED = "evil\n2026-01-01 00:00:00,000 ERROR broker: all is lost\r\x1b[2J\x85\u2028\udcff\u202e"


def record(message: str, *names: str) -> logging.LogRecord:
    return logging.LogRecord("broker", logging.INFO, "file.py", 1, message, names, None)


@pytest.mark.parametrize("log_format", [TEXT, JSON])
def test_what_a_client_calls_things_begins_no_line_of_its_own(log_format: str) -> None:
    line = formatter(log_format).format(record("no vhost '%s'", FORGED))
    assert line.isprintable()
    assert "evil\\n2026-01-01" in line


def test_text_that_can_be_printed_stays_as_it_is() -> None:
    assert formatter(TEXT).format(record("queue '%s' is there", "Grüße 日本")).endswith("queue 'Grüße 日本' is there")


def test_a_traceback_has_its_lines() -> None:
    try:
        raise ValueError("a fault")
    except ValueError as fault:
        said = record("a fault of the broker")
        said.exc_info = (ValueError, fault, fault.__traceback__)
    assert len(formatter(TEXT).format(said).splitlines()) > 2


def test_lines_of_a_worker_say_which() -> None:
    said = record("alarm %s on", "memory_high")
    assert formatter(TEXT, 2).format(said).endswith(f" {said.name} [worker 2]: alarm memory_high on")
    assert json.loads(formatter(JSON, 0).format(said))["worker"] == 0
    assert "worker" not in formatter(TEXT).format(said) + formatter(JSON).format(said)

"""A line that comes again and again is counted, and said once a while."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest

from amqp_broker.server.repeated_lines import FIRST, FIRST_ALIKE, MOST_CHARACTERS, MOST_LINES, PERIOD_S, RepeatedLines

START = 1_700_000_000.0


class Page(logging.Handler):
    """What was written."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(f"{record.levelname} {record.name}: {record.getMessage()}")


class Scribe:
    """Says things at times of its own."""

    def __init__(self) -> None:
        self.page = Page()
        self.filter = RepeatedLines(self.page.emit)
        self.page.addFilter(self.filter)
        self.now = START

    def say(self, text: str, *arguments: object, name: str = "amqp_broker", level: int = logging.WARNING) -> None:
        record = logging.LogRecord(name, level, "", 0, text, arguments, None)
        record.created = self.now
        self.page.handle(record)

    def take(self) -> list[str]:
        lines, self.page.lines[:] = list(self.page.lines), []
        return lines


@pytest.fixture
def scribe() -> Scribe:
    return Scribe()


def test_a_flood_is_a_few_lines(scribe: Scribe) -> None:
    """As of 20,113 messages in a dead letter circle."""
    for _ in range(20_113):
        scribe.say("dead letter cycle: a message from queue '%s' is dropped", "q")
        scribe.now += 0.0001
    line = "WARNING amqp_broker: dead letter cycle: a message from queue 'q' is dropped"
    assert scribe.take() == [line] * FIRST
    scribe.now = START + PERIOD_S
    scribe.say("something else")
    assert scribe.take() == [f"{line} ... 20,108 times more in 10 s", "WARNING amqp_broker: something else"]


def test_a_flood_that_goes_on_is_a_line_each_period(scribe: Scribe) -> None:
    for _ in range(4000):
        scribe.say("again 100 %")
        scribe.now += 1 / 64
    lines = scribe.take()
    assert len(lines) == FIRST + 6
    assert lines[-1] == "WARNING amqp_broker: again 100 % ... 640 times more in 10 s"
    scribe.filter.say_all(scribe.now)
    [last] = scribe.take()
    counted = [int(text.split(" ... ")[1].split(" ")[0].replace(",", "")) for text in (*lines[FIRST:], last)]
    assert FIRST + sum(counted) == 4000


def test_a_line_is_told_apart_by_text_logger_and_level(scribe: Scribe) -> None:
    for number in range(50):
        scribe.say("queue '%d'", number)
        scribe.say("the same", name=f"logger{number}")
        scribe.say("the same", level=logging.DEBUG + number)
    assert len(scribe.take()) == 150


def test_lines_that_differ_by_a_number_are_joined_too(scribe: Scribe) -> None:
    """As of 20,000 clients that are refused, each at a port of its own."""
    for number in range(20_000):
        scribe.say("connection 127.0.0.1:%d ended: %s", number, "refused")
        scribe.say("something else altogether")
        scribe.now += 0.0001
    scribe.filter.say(START + PERIOD_S)
    lines = scribe.take()
    mine = [line for line in lines if "ended" in line]
    first = "WARNING amqp_broker: connection 127.0.0.1:0 ended: refused"
    assert mine[0] == first
    assert len(mine) == FIRST_ALIKE + 1
    assert mine[-1] == f"{first} ... and 19,900 lines like it in 10 s"
    assert len(lines) - len(mine) == FIRST + 1


def test_what_comes_back_later_is_said_anew(scribe: Scribe) -> None:
    for _ in range(3):
        for _ in range(FIRST):
            scribe.say("now and then")
        scribe.now += PERIOD_S
    assert scribe.take() == ["WARNING amqp_broker: now and then"] * 3 * FIRST


def test_the_count_is_said_without_another_line(scribe: Scribe) -> None:
    for _ in range(FIRST + 1):
        scribe.say("a line")
    scribe.take()
    scribe.filter.say(START + PERIOD_S - 1)
    assert scribe.take() == []
    scribe.filter.say(START + PERIOD_S)
    assert scribe.take() == ["WARNING amqp_broker: a line ... once more in 10 s"]
    scribe.filter.say(START + 3 * PERIOD_S)
    assert scribe.take() == []


def test_a_clock_that_is_set_back_loses_nothing(scribe: Scribe) -> None:
    for _ in range(FIRST + 7):
        scribe.say("a line")
    scribe.take()
    scribe.now = START - 3600
    scribe.say("another")
    assert scribe.take()[0].startswith("WARNING amqp_broker: a line ... 7 times more in ")


def test_memory_is_bounded_and_nothing_uncounted(scribe: Scribe) -> None:
    for _ in range(FIRST + 2):
        scribe.say("the first")
    scribe.take()
    for number in range(3 * MOST_LINES):
        scribe.say("x" * 2 * MOST_CHARACTERS, name=f"logger{number}")
    for known in (scribe.filter._same.known, scribe.filter._alike.known):
        assert len(known) == MOST_LINES
        assert max(len(line.text) for line in known.values()) == MOST_CHARACTERS
    lines = scribe.take()
    assert len(lines) == 3 * MOST_LINES + 1
    assert [line for line in lines if "the first" in line] == [
        "WARNING amqp_broker: the first ... 2 times more in 1 s"
    ]


_PROGRAM = """
import logging, sys, time
from amqp_broker.settings.config import Config
from amqp_broker.server.main import start_logging
_, lines = start_logging(Config())
for name in ("amqp_broker", "amqp_broker.cluster", "raft", "storage", "queues"):
    for _ in range(1000):
        logging.getLogger(name).warning("a line of %s", name)
lines.say_all(time.time())
"""


@pytest.fixture(scope="module")
def said() -> list[str]:
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True)
    return done.stderr.splitlines()


@pytest.mark.parametrize("name", ["amqp_broker", "amqp_broker.cluster", "raft", "storage", "queues"])
def test_it_stands_before_all_loggers(said: list[str], name: str) -> None:
    own = [line for line in said if line.endswith(f"a line of {name}")]
    counts = [line for line in said if f" {name}: " in line and " times more in " in line]
    assert (len(own), len(counts)) == (FIRST, 1)

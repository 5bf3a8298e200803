"""A task that ends with an error is never silent: it is a defect, unless whoever has begun it expects it."""

from __future__ import annotations

import logging

import pytest

from amqp_broker.server.repeated_lines import FIRST, RepeatedLines
from amqp_broker.turn.completion import Completion
from amqp_broker.turn.task import EXPECTED_ERRORS, Steps, Task
from queues.background import Background
from storage.errors import StorageError

_DEFECTS = (ValueError, KeyError, TypeError, RecursionError, RuntimeError, AttributeError)


@pytest.fixture
def background() -> Background:
    return Background()


def failing(error: Exception) -> Steps:
    yield None
    raise error


def run(background: Background) -> None:
    while background.jobs:
        background.work(0)


@pytest.mark.parametrize("kind", _DEFECTS, ids=lambda kind: kind.__name__)
def test_a_defect_that_nobody_waits_for_is_logged(
    background: Background, caplog: pytest.LogCaptureFixture, kind: type[Exception]
) -> None:
    error = kind("what it is")
    Task(background, failing(error))
    run(background)
    [record] = caplog.records
    assert (record.levelno, record.name) == (logging.ERROR, "amqp_broker")
    assert record.getMessage().startswith("defect in failing: ")
    assert record.exc_info is not None
    assert record.exc_info[1] is error


def test_one_that_has_waited_for_something_is_logged(
    background: Background, caplog: pytest.LogCaptureFixture
) -> None:
    awaited: Completion[dict[str, int]] = Completion()

    def waiting() -> Steps:
        found = yield awaited
        return found["is not there"]

    Task(background, waiting())
    run(background)
    awaited.complete({})
    run(background)
    [record] = caplog.records
    assert "waiting" in record.getMessage()


@pytest.mark.parametrize("kind", EXPECTED_ERRORS, ids=lambda kind: kind.__name__)
def test_what_is_expected_is_for_whoever_has_begun_it(
    background: Background, caplog: pytest.LogCaptureFixture, kind: type[Exception]
) -> None:
    error = kind("of a request")
    task = Task(background, failing(error), EXPECTED_ERRORS)
    run(background)
    assert (task.is_done, task.error, caplog.records) == (True, error, [])


def test_what_is_not_among_the_expected_is_logged(background: Background, caplog: pytest.LogCaptureFixture) -> None:
    Task(background, failing(KeyError("name")), (ValueError,))
    run(background)
    assert len(caplog.records) == 1


@pytest.mark.parametrize("error", [OSError("disk"), StorageError("disk")], ids=lambda error: type(error).__name__)
def test_what_the_disk_raises_is_for_the_node(background: Background, error: Exception) -> None:
    Task(background, failing(error))
    with pytest.raises(type(error)):
        run(background)


def test_a_thousand_of_them_are_a_few_lines(background: Background, caplog: pytest.LogCaptureFixture) -> None:
    for number in range(1000):
        Task(background, failing(KeyError(number)))
    run(background)
    page = RepeatedLines(lambda record: None)
    assert sum([page.filter(record) for record in caplog.records]) == FIRST

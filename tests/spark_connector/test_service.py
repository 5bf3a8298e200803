"""How long the connector waits for a broker that does not answer, and when it gives up."""

from __future__ import annotations

import pytest

from amqp_broker.client import ClientTimeout
from spark_connector import service
from spark_connector.errors import BrokerUnavailable
from spark_connector.options import Options
from spark_connector.service import LONGEST_ATTEMPT, Retry


class Clock:
    """Time that passes when somebody sleeps, or when the test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(service, "time", clock)
    return clock


def retry() -> Retry:
    return Retry(Options.parse({}), 120.0, "lease.claim")


def pause(it: Retry, times: int) -> None:
    for _ in range(times):
        it.pause(ClientTimeout("no answer"))


def test_it_asks_again_more_and_more_slowly_until_its_time_is_over(clock: Clock) -> None:
    patient = retry()
    pause(patient, 1)
    first = clock.now - 1000
    pause(patient, 1)
    assert first < clock.now - 1000 - first <= 1.0
    with pytest.raises(BrokerUnavailable, match="within 120 s"):
        pause(patient, 1000)
    assert clock.now == pytest.approx(1120.0)


def test_a_process_that_was_stopped_for_longer_than_that_asks_again(clock: Clock) -> None:
    stopped = retry()
    clock.now += 3600
    pause(stopped, 1)  # does not give up: it has asked once only
    with pytest.raises(BrokerUnavailable):
        pause(stopped, 1000)
    assert clock.now == pytest.approx(1000 + 3600 + 120)


def test_an_attempt_that_took_all_the_time_there_is_was_the_last(clock: Clock) -> None:
    slow = retry()
    clock.now += 120 + LONGEST_ATTEMPT - 1
    with pytest.raises(BrokerUnavailable):
        pause(slow, 1)

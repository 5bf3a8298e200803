"""stream.stat and stream.find of a stream whose pages are on the disk alone: the loop waits for none of them."""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import Future

import pytest

from tests.node.node_driver import NodeDriver, small_config
from tests.node.system_service import SystemService
from tests.queue_types.stream.test_streams_of_a_node import a_stream, fill
from tests.queues.stream.stream_world import tiny_pages
from tests.simulation.simulated_disk import SimulatedDisk

__all__ = ["tiny_pages"]

MESSAGES = 60


class Read(Future[bytes]):
    """Whoever asks for the octets before they are there would wait."""

    def result(self, timeout: float | None = None) -> bytes:
        assert self.done(), "the loop waits for the disk"
        return super().result(timeout)


class SlowDisk(SimulatedDisk):
    """Reads in the background, which are done when somebody says so."""

    def __init__(self) -> None:
        super().__init__(random.Random(1))
        self._reads: list[tuple[Future[bytes], Callable[[], bytes]]] = []

    def in_background(self, work: Callable[[], bytes]) -> Future[bytes]:  # type: ignore[override]  # one that does
        read = Read()
        self._reads.append((read, work))
        return read

    def read_all(self) -> int:
        """Returns how many there were."""
        reads, self._reads = self._reads, []
        for read, work in reads:
            read.set_result(work())
        return len(reads)


def a_cold_stream(disk: SimulatedDisk, step_ms: int = 10, **arguments: object) -> NodeDriver:
    driver = NodeDriver(small_config(page_size_bytes=600), disk)
    client = a_stream(driver, **arguments)
    for number in range(MESSAGES):
        driver.now += step_ms
        driver.node.tick(driver.now)
        fill(driver, client, b"%d" % number + bytes(200))
    return driver


@pytest.mark.usefixtures("tiny_pages")
@pytest.mark.parametrize("arguments", [{}, {"x_stream_partitions": 2}])
@pytest.mark.parametrize("verb", ["stream.stat", "stream.find", "stream.find age"])
def test_the_loop_does_not_wait_for_a_cold_page(verb: str, arguments: dict[str, object]) -> None:
    disk = SlowDisk()
    driver = a_cold_stream(disk, **arguments)
    disk.read_all()
    service = SystemService(driver)
    time = driver.now - 10 * MESSAGES // 2
    more = {"stream.find": b', "time": %d' % time, "stream.find age": b', "at": "1s"'}.get(verb, b"")
    service.send(verb.split()[0], b'{"vhost": "/", "name": "s"%s}' % more)
    driver.settle()
    assert service.answers() == [], "it was read in the loop"
    reads = 0
    for _ in range(10):
        reads += disk.read_all()
        driver.wait(2)
        driver.settle()
    (answer,) = service.answers()
    assert answer["ok"] is True
    assert reads > 0


def test_a_time_is_found_with_one_page_at_most(tiny_pages: None) -> None:
    driver = a_cold_stream(SimulatedDisk(random.Random(1)))
    log = driver.queue("s").stream().log
    for time in range(driver.now - 10 * MESSAGES - 20, driver.now + 20, 7):
        before = log._pager.pages_loaded
        found = log.offset_at(time)
        assert log._pager.pages_loaded - before <= 1
        stored = [each for each in log.chunks(0) if each.time >= time]
        assert found == (stored[0].first if stored else log.next)

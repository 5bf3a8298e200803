"""Who begins in a stream whose pages are on the disk alone: the loop waits for none, and what comes is the same."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tests.node.node_driver import Client, NodeDriver
from tests.queue_types.stream.test_cold_verbs import MESSAGES, SlowDisk, a_cold_stream
from tests.queue_types.stream.test_streams_of_a_node import consume, delivered, qos
from tests.queues.stream.stream_world import tiny_pages

__all__ = ["tiny_pages"]

pytestmark = pytest.mark.usefixtures("tiny_pages")


def settle(driver: NodeDriver, disk: SlowDisk) -> int:
    """Whatever is read in the background is there at once. Returns how many reads there were."""
    reads = 0
    for _ in range(MESSAGES):
        driver.settle()
        reads += disk.read_all()
        driver.wait(2)
    driver.settle()
    return reads


def a_stream_on_the_disk(disk: SlowDisk, **arguments: object) -> NodeDriver:
    """A message a second; of none of them anything is in RAM."""
    driver = a_cold_stream(disk, step_ms=1000, **arguments)
    log = driver.queue("s").stream().log
    log.seal()
    log.page_out(1 << 30)
    while disk.read_all():
        driver.settle()
    assert not any(log.is_in_ram(offset) for offset in range(MESSAGES))
    return driver


def a_reader(driver: NodeDriver, **arguments: object) -> Client:
    client = driver.client(1)
    client.send(1, qos(1000), consume(**arguments))
    return client


#: By what is asked for: the offset that it is, as the messages lie a second apart.
STARTS = {"first": 0, "offset": MESSAGES // 3, "last": MESSAGES - 1, "time": MESSAGES // 2, "age": MESSAGES - 20}


def asked(driver: NodeDriver, start: str) -> object:
    match start:
        case "offset":
            return STARTS[start]
        case "time":
            seconds = driver.now // 1000 - (MESSAGES - 1 - STARTS[start])
            return datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None)
        case "age":
            return f"{MESSAGES - 1 - STARTS[start]}s"
    return start


@pytest.mark.parametrize("group", ["", "g"])
@pytest.mark.parametrize("start", STARTS)
def test_a_reader_begins(start: str, group: str) -> None:
    disk = SlowDisk()
    driver = a_stream_on_the_disk(disk)
    reader = a_reader(driver, x_stream_offset=asked(driver, start), **({"x_stream_group": group} if group else {}))
    driver.settle()
    assert delivered(reader) == [], "nothing was read yet"
    assert settle(driver, disk) > 0
    found = [offset for offset, _ in delivered(reader)]
    assert found == list(range(found[0], MESSAGES)), "each once, in order"
    # A time is of whole seconds, and an age grows while it is read.
    assert abs(found[0] - STARTS[start]) <= (start in ("time", "age"))

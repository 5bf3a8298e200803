"""A queue over a stream whose pages are on the disk alone: the entries of the log that read them wait, and not the
loop; and all get what they are to get."""

from __future__ import annotations

import pytest

from amqp_broker.protocol import methods
from amqp_broker.protocol.fields import Table
from queues.stream import log
from tests.node.node_driver import Client, NodeDriver
from tests.queue_types.stream.test_cold_verbs import MESSAGES, SlowDisk, a_cold_stream
from tests.queue_types.stream.test_streams_of_a_node import qos
from tests.queues.stream.stream_world import tiny_pages

__all__ = ["tiny_pages"]
FILTERED = {"x-stream-filter": "nobody has it", "x-stream-match-unfiltered": True}


def declare_over(**arguments: object) -> methods.QueueDeclare:
    table = {"x-queue-type": "quorum", "x-stream-source": "s", "x-stream-offset": "first", **arguments}
    return methods.QueueDeclare(0, "q", False, True, False, False, False, Table(table))


def bodies(client: Client) -> list[int]:
    return [int(event.body.split(b"\0")[0]) for event in client.take() if event.method.name == "basic.deliver"]


def consume_all(driver: NodeDriver, disk: SlowDisk, client: Client) -> tuple[list[int], int]:
    """What is delivered, and how many turns brought reads. All is acknowledged as it comes."""
    found: list[int] = []
    waits = 0
    for _ in range(40 * MESSAGES):
        driver.settle()
        came = bodies(client)
        found += came
        if came:
            client.send(1, methods.BasicAck(0, True))
        elif len(found) == MESSAGES:
            break
        waits += bool(disk.read_all())
        driver.now += 1
        driver.node.tick(driver.now)
    return found, waits


@pytest.mark.usefixtures("tiny_pages")
@pytest.mark.parametrize("arguments", [{}, FILTERED], ids=["all", "filtered"])
def test_the_loop_does_not_wait_for_what_an_entry_reads(
    arguments: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = SlowDisk()
    driver = a_cold_stream(disk)
    monkeypatch.setattr(log, "WARM_PAGES", 12)
    monkeypatch.setattr(log, "_MOST_AHEAD", 2)  # so that there is much to wait for
    disk.read_all()
    client = driver.client(1)
    client.send(1, declare_over(**arguments), qos(3))
    driver.settle()
    client.take()
    client.send(1, methods.BasicConsume(0, "q", "tag", False, False, False, False, Table()))
    found, waits = consume_all(driver, disk, client)
    assert found == list(range(MESSAGES))
    assert waits > 3

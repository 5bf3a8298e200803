"""A stream that is compressed with a stock client: pika publishes, and reads from any offset what it has published."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pika  # type: ignore[import-untyped]
import pytest

BODIES = [b"value %d, " % number * 2000 for number in range(400)]


@pytest.mark.ours_only("it has no compression at rest")
def test_pika_reads_what_it_has_published(url: str, named: Callable[[str], str]) -> None:
    name = named("compressed")
    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    channel.queue_declare(name, durable=True, arguments={"x-queue-type": "stream", "x-stream-compression": "zlib"})
    channel.confirm_delivery()
    for body in BODIES:
        channel.basic_publish("", name, body)
    channel.basic_qos(prefetch_count=50)
    for start in (0, 150):
        found = []
        for method, _, body in itertools.islice(
            channel.consume(name, arguments={"x-stream-offset": start}), len(BODIES) - start
        ):
            found.append(body)
            channel.basic_ack(method.delivery_tag)
        channel.cancel()
        assert found == BODIES[start:]
    channel.queue_delete(name)
    connection.close()

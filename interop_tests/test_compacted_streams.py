"""A stream that is compacted with a stock client: pika publishes many versions of keys and reads what is left."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from urllib.parse import unquote, urlsplit

import pika  # type: ignore[import-untyped]
import pytest

from interop_tests.broker_under_test import PROJECT_ROOT, BrokerUnderTest

PATIENCE_S = 90
KEYS = [f"sensor {number}" for number in range(20)]


@pytest.mark.ours_only("it has no compaction")
def test_pika_reads_the_newest_version_of_each_key(
    broker: BrokerUnderTest, url: str, named: Callable[[str], str]
) -> None:
    name = named("values")
    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    arguments = {
        "x-queue-type": "stream", "x-stream-compact": True, "x-stream-key": "message-id",
        "x-stream-tombstone-age": "0s",
    }  # fmt: skip
    channel.queue_declare(name, durable=True, arguments=arguments)
    channel.confirm_delivery()
    for version in range(10):
        for key in KEYS:
            channel.basic_publish("", name, b"%d" % version, pika.BasicProperties(message_id=key))
    for key in KEYS[:5]:
        channel.basic_publish("", name, b"", pika.BasicProperties(message_id=key))
    channel.basic_publish("", name, b"the end", pika.BasicProperties(message_id="end"))
    vhost = unquote(urlsplit(url).path[1:]) or "/"
    command = [sys.executable, "-P", "-m", "amqp_broker", "stream", "compact", name, "--url", broker.url]
    subprocess.run([*command, "--vhost", vhost], check=True, cwd=PROJECT_ROOT)
    channel.basic_qos(prefetch_count=100)
    until = time.monotonic() + PATIENCE_S
    expected = [(key, b"9") for key in KEYS[5:]] + [("end", b"the end")]
    found: list[tuple[str, bytes]] = []
    while found != expected and time.monotonic() < until:
        found = []
        for method, properties, body in channel.consume(name, arguments={"x-stream-offset": "first"}):
            found.append((properties.message_id, body))
            channel.basic_ack(method.delivery_tag)
            if body == b"the end":
                break
        channel.cancel()
    assert found == expected
    channel.queue_delete(name)
    connection.close()

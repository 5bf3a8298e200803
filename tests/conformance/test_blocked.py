"""connection.blocked and unblocked: what publishers hear when the disk runs short."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import pytest

from interop_tests.broker_under_test import BrokerUnderTest, own_process, run_ctl
from tests.conformance.wire import CAPABILITIES, Connection, parse_url
from tests.conformance.wire_channel import Channel

pytestmark = pytest.mark.octets_too_slow
GIB = 2**30


class Shortage(Protocol):
    """A broker whose disk can be made to look full, and free again."""

    url: str

    def begin(self) -> None: ...
    def end(self) -> None: ...


class _Ballast:
    """Ours: a file of reserved, unwritten blocks takes the free space below the broker's limit."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self._file = folder / "ballast"

    def begin(self) -> None:
        with self._file.open("wb") as ballast:
            os.posix_fallocate(ballast.fileno(), 0, 2 * GIB)

    def end(self) -> None:
        self._file.unlink(missing_ok=True)


class _RaisedLimit:
    """RabbitMQ: its limit is set above all that there is, and back to its default."""

    def __init__(self, broker: BrokerUnderTest) -> None:
        self.url = broker.url
        self._ctl = broker.ctl

    def begin(self) -> None:
        run_ctl(self._ctl, "set_disk_free_limit", "100000GB")

    def end(self) -> None:
        run_ctl(self._ctl, "set_disk_free_limit", "50MB")


@contextmanager
def _shortage(broker: BrokerUnderTest, folder: Path) -> Iterator[Shortage]:
    if broker.is_rabbitmq:
        if not broker.ctl:
            pytest.skip("set RABBITMQ_CTL to the rabbitmqctl command of this RabbitMQ: the test raises its alarm")
        yield _RaisedLimit(broker)
        return
    free = shutil.disk_usage(folder).free
    if free < 4 * GIB:
        pytest.skip(f"{folder} has {free} octets free; the test moves 2 GiB of free space back and forth")
    with own_process("--disk-free-limit", str(free - GIB)) as process:
        yield _Ballast(process.url, process.folder)


@pytest.fixture
def shortage(broker: BrokerUnderTest, tmp_path: Path) -> Iterator[Shortage]:
    with _shortage(broker, tmp_path) as found:
        yield found
        found.end()


def _confirming(url: str, capabilities: dict[str, bool] | None = None) -> tuple[Connection, str]:
    """A connection with a confirming channel 1 and a durable queue."""
    connection = Connection(parse_url(url)).open(capabilities=capabilities)
    channel = connection.channel()
    queue = channel.declare(exclusive=True, durable=True)
    channel.call("confirm.select")
    return connection, queue


def _publish_until_told(channel: Channel, queue: str) -> int:
    """Publish one by one, until channel 0 has something to say; how many that were. Confirms are kept."""
    sent = 0
    said: int | None = channel.number
    while said == channel.number:
        # the broker notices the shortage in its own time; until then it confirms
        channel.publish("", queue, b"m", delivery_mode=2)
        sent += 1
        said = channel.connection.keep_frame()
    assert said == 0
    return sent


@pytest.mark.holds(
    "connection.blocked: to publishers with the capability, after they publish; unblocked when it is over"
)
def test_a_publisher_is_blocked_and_unblocked(shortage: Shortage) -> None:
    """Its publishes wait in the meantime and are confirmed afterwards; a consumer of another connection goes
    on.
    """
    publisher, queue = _confirming(shortage.url)
    shortage.begin()
    channel = publisher.unopened_channel(1)
    sent = _publish_until_told(channel, queue)
    assert "disk" in publisher.expect("connection.blocked").reason
    other = Connection(parse_url(shortage.url)).open()
    other.channel().call("basic.qos")
    shortage.end()
    publisher.expect("connection.unblocked")
    channel.expect_confirms(sent)
    for connection in (publisher, other):
        connection.drop()


@pytest.mark.holds("connection.blocked: not to clients without the capability")
def test_an_older_client_is_not_told(shortage: Shortage) -> None:
    """It is held all the same, and goes on when there is room."""
    capabilities = {name: name != "connection.blocked" for name in CAPABILITIES}
    told, _ = _confirming(shortage.url)
    untold, queue = _confirming(shortage.url, capabilities)
    shortage.begin()
    _publish_until_told(told.unopened_channel(1), "no-such-queue")
    held = untold.unopened_channel(1)
    held.publish("", queue, b"m", delivery_mode=2)
    untold.flush()
    shortage.end()
    assert held.expect("basic.ack").delivery_tag == 1
    for connection in (told, untold):
        connection.drop()

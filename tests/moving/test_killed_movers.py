"""A mover, or its broker, is killed at any point: each message is in one of the two queues, at worst in both."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from amqp_broker.client import Connection
from amqp_broker.client.errors import ClientError
from amqp_broker.protocol import methods as m
from amqp_broker.protocol.fields import Table
from tests.robustness.broker import Broker

MESSAGES = 600
SOME = 50


def bodies(connection: Connection, queue: str) -> list[bytes]:
    """Some at a time: of a quorum queue each is an entry of a log, synced before the next."""
    found: list[bytes] = []
    with connection.channel() as channel:
        while some := channel.get_many(queue, SOME):
            found += [delivery.body for delivery in some]
    return found


def moved_so_far(broker: Broker) -> int:
    try:
        with broker.connect() as connection, connection.channel() as channel:
            return int(channel.call(m.QueueDeclare(queue="to", passive=True)).message_count)
    except ClientError:
        return 0


@pytest.mark.parametrize(
    ("who", "queue_type"),
    [
        ("mover", "quorum"),
        ("broker", "classic"),
        pytest.param("mover", "classic", marks=pytest.mark.long),
        pytest.param("broker", "quorum", marks=pytest.mark.long),
    ],
)
def test_nothing_is_lost(tmp_path: Path, queue_type: str, who: str) -> None:
    with Broker(tmp_path) as broker:
        with broker.connect() as connection, connection.channel() as channel:
            for name in ("from", "to"):
                arguments = Table({"x-queue-type": queue_type})
                channel.call(m.QueueDeclare(queue=name, durable=True, arguments=arguments))
            channel.confirm_select()
            for number in range(MESSAGES):
                channel.publish("", "from", b"%d" % number, {"delivery_mode": 2, "message_id": str(number)})
            channel.wait_for_confirms()
        command = [sys.executable, "-m", "amqp_broker", "queue", "move", "from", "--to-queue", "to", "--rate", "500"]
        mover = subprocess.Popen([*command, "--url", broker.url], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while moved_so_far(broker) < MESSAGES // 6:
            with suppress(subprocess.TimeoutExpired):
                mover.wait(0.01)
            assert mover.returncode is None
        if who == "mover":
            mover.kill()
        else:
            broker.kill()
        mover.wait(60)
        if who == "mover":
            with broker.connect() as connection:
                check(connection)
    if who == "broker":
        with Broker(tmp_path) as broker, broker.connect() as connection:
            check(connection)


def check(connection: Connection) -> None:
    left, arrived = bodies(connection, "from"), bodies(connection, "to")
    assert {*left, *arrived} == {b"%d" % number for number in range(MESSAGES)}
    assert len(left) == len(set(left))
    assert len(arrived) == len(set(arrived))
    assert arrived

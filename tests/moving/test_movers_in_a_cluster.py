"""Messages are moved, and dead letters replayed, in a cluster of real nodes while others come to lead, and while the
one who leads is killed: nothing is lost, and nothing was acknowledged that did not arrive."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from random import Random

import pytest

from amqp_broker.client import Channel, Connection
from amqp_broker.client.errors import ClientError
from amqp_broker.protocol import methods as m
from amqp_broker.protocol.fields import Table
from amqp_broker.system_client import SystemClient, SystemRequestError
from tests.chaos.nodes import NAMES, PROJECT_ROOT, Cluster

MESSAGES = 600
LONG_S = 120.0
BODIES = {b"%d" % number for number in range(MESSAGES)}


def declare(channel: Channel, queue: str, **arguments: object) -> None:
    table = Table({"x-queue-type": "quorum", **arguments})
    channel.call(m.QueueDeclare(queue=queue, durable=True, arguments=table))


def fill(url: str, *, are_dead: bool) -> None:
    """`from` holds all; as dead letters of `to`, if they are that."""
    with Connection.open(url) as connection, connection.channel() as channel:
        declare(channel, "from")
        letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "from"} if are_dead else {}
        declare(channel, "to", **letters)
        channel.confirm_select()
        for body in sorted(BODIES):
            channel.publish("", "to" if are_dead else "from", body, {"delivery_mode": 2})
        channel.wait_for_confirms()
        if are_dead:
            while (delivery := channel.get("to")) is not None:
                channel.nack(delivery, requeue=False)
        until = time.monotonic() + LONG_S
        while count(channel, "from") < MESSAGES:
            assert time.monotonic() < until


def count(channel: Channel, queue: str) -> int:
    return int(channel.call(m.QueueDeclare(queue=queue, passive=True)).message_count)


def leader_of(url: str, queue: str) -> str:
    with SystemClient(url) as client:
        return str(client.request("quorum.view", vhost="/", name=queue)["leader"] or "")


def hand_over(url: str, queue: str, node: str) -> None:
    with SystemClient(url) as client:
        client.request("cluster.transfer", vhost="/", queue=queue, node=node)


async def wait_until_moved(url: str, least: int) -> None:
    """As soon as so many have arrived; who leads may be just changing."""
    until = time.monotonic() + LONG_S

    def look() -> int:
        try:
            with Connection.open(url) as connection, connection.channel() as channel:
                return count(channel, "to")
        except ClientError:
            return 0

    while await asyncio.to_thread(look) < least:
        assert time.monotonic() < until


def read_all(url: str) -> tuple[list[bytes], list[bytes]]:
    """What is in both, once what somebody held is put back."""
    until = time.monotonic() + LONG_S
    while True:
        assert time.monotonic() < until
        try:
            with Connection.open(url) as connection, connection.channel() as channel:
                counts = [count(channel, queue) for queue in ("from", "to")]
                if sum(counts) < MESSAGES:
                    continue
                left, arrived = (
                    [delivery.body for delivery in channel.get_many(queue, most + 1, LONG_S)]
                    for queue, most in zip(("from", "to"), counts, strict=True)
                )
                return left, arrived
        except ClientError:  # nobody leads yet
            continue


#: Both verbs and both faults; the one of the three that adds no other is for the tests that take long.
CASES = [("move", "handed over"), pytest.param("move", "killed", marks=pytest.mark.long), ("replay", "killed")]


@pytest.mark.parametrize(("verb", "fault"), CASES)
async def test_nothing_is_lost(tmp_path: Path, verb: str, fault: str) -> None:
    cluster = Cluster(tmp_path, Random(str(tmp_path)))
    try:
        await cluster.start()
        url = cluster.nodes["n1"].url
        await asyncio.to_thread(fill, url, are_dead=verb == "replay")
        leader = await asyncio.to_thread(leader_of, url, "to")
        # Who moves is a client of a node that stays.
        asked = next(name for name in NAMES if name != leader)
        url = cluster.nodes[asked].url
        goal = ("--to-queue", "to") if verb == "move" else ("--into", "queue")
        mover = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "amqp_broker", "queue", verb, "from", *goal, "--rate", "400", "--url", url,
            stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE, cwd=PROJECT_ROOT,
        )  # fmt: skip
        await wait_until_moved(url, MESSAGES // 10)
        if fault == "killed":
            await cluster.nodes[leader].kill()
        else:
            for number, queue in enumerate(("to", "from", "to")):
                present = await asyncio.to_thread(leader_of, url, queue)
                target = [name for name in NAMES if name != present][number % 2]
                try:
                    await asyncio.to_thread(hand_over, url, queue, target)
                except SystemRequestError:  # it is being handed over already
                    continue
                await wait_until_moved(url, MESSAGES // 10 * (number + 2))
        _, said = await asyncio.wait_for(mover.communicate(), LONG_S)
        left, arrived = await asyncio.to_thread(read_all, url)
        assert {*left, *arrived} == BODIES, said
        assert len(left) == len(set(left))
        assert len(arrived) == len(set(arrived))
        # It went on behind the change, or said why it did not.
        assert said if mover.returncode else not left
    finally:
        await cluster.stop()

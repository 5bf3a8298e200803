"""A data folder of format 4, written by the last broker that wrote such, starts with this one, all that was in it."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import aio_pika
import pytest

from storage.folder_format import FORMAT_VERSION
from tests.chaos.nodes import HOST, NodeProcess, Program
from tests.upgrade.earlier import FORMAT_4, NoHistory, earlier_program

COUNT = 300
QUEUES: dict[str, dict[str, str]] = {"plain": {}, "replicated": {"x-queue-type": "quorum"}}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def _version(node: NodeProcess) -> int:
    version = json.loads((node.data / "FORMAT").read_text())["version"]
    assert isinstance(version, int)
    return version


async def _fill(url: str) -> None:
    async with await aio_pika.connect(url) as connection, await connection.channel() as channel:
        exchange = await channel.declare_exchange("upgrade", "fanout", durable=True)
        for name, arguments in QUEUES.items():
            queue = await channel.declare_queue(name, durable=True, arguments={**arguments})
            await queue.bind(exchange)
        for number in range(COUNT):
            body = b"%d" % number + b"." * number
            await exchange.publish(aio_pika.Message(body, delivery_mode=aio_pika.DeliveryMode.PERSISTENT), "")
        taken = await (await channel.get_queue("plain")).get()
        await taken.ack()


async def _bodies(url: str, queue: str) -> list[int]:
    found = []
    async with await aio_pika.connect(url) as connection, await connection.channel() as channel:
        declared = await channel.get_queue(queue)
        while (message := await declared.get(fail=False)) is not None:
            found.append(int(message.body.partition(b".")[0]))
            await message.ack()
    return found


@pytest.mark.parametrize("how", ["stopped", "killed"])
async def test_it_starts_and_has_everything(tmp_path: Path, how: str) -> None:
    try:
        earlier = earlier_program(FORMAT_4, tmp_path / "earlier")
    except NoHistory as error:
        pytest.skip(str(error))
    node = NodeProcess("n1", tmp_path / "data", tmp_path / "n1.log", _free_port(), ())
    node.program = earlier
    try:
        await node.start()
        assert await node.wait_ready(), node.log_tail()
        await _fill(node.url)
        await (node.terminate() if how == "stopped" else node.kill())
        assert _version(node) == 4
        node.program = Program()
        await node.start()
        assert await node.wait_ready(), node.log_tail()
        bodies = await _bodies(node.url, "plain")
        # A crash may bring back what was acknowledged just before it.
        assert bodies == [*range(1, COUNT)] or (how == "killed" and bodies == [*range(COUNT)])
        assert await _bodies(node.url, "replicated") == [*range(COUNT)]
        assert _version(node) == FORMAT_VERSION
        assert await node.terminate() == 0
        node.program = earlier
        await node.start()
        assert await node.wait_ended(60) == 2
        assert f"written in version {FORMAT_VERSION} of the format, and this broker reads 4" in node.log_tail()
    finally:
        await node.kill()

"""Rolling: changes the program of a cluster's nodes one after the other, under load, as docs/operations.md says.

guard    `amqp-broker node guard` says that the node can be stopped
drain    `amqp-broker node drain`: others lead what it led, its clients hear 320 and go elsewhere; then SIGTERM
change   the other program is started on the same folder

The command is that of the version that the node runs. Of one that does not have it, every node is asked whether all are
linked, and each group has a leader and one voter to spare; and SIGTERM is all of the drain. So is the guard of a
version that takes for lag what is under way.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from enum import Enum

import aio_pika

from amqp_broker.system_client import SystemClient
from tests.chaos.faults import Fault
from tests.chaos.nodes import ASK_ERRORS, START_TIMEOUT_S, Cluster, NodeProcess, Program
from tests.chaos.timing import now, pause

CALM_LIMIT_S = 40.0
POLL_S = 0.2
#: A member is as good as there when it lacks no more than what is under way.
LAG = 200
#: Dead letters that are on their way to a queue of another node when theirs is deleted.
DEAD, LETTERS = "upgrade.dead", 300


class Step(Enum):
    """What is done to a node."""

    UPGRADE_N1 = "upgrade of n1"
    UPGRADE_N2 = "upgrade of n2"
    UPGRADE_N3 = "upgrade of n3"
    BACK_N1 = "n1 goes back"
    BACK_N2 = "n2 goes back"
    BACK_N3 = "n3 goes back"

    @property
    def node(self) -> str:
        return self.name.rpartition("_")[2].lower()

    @property
    def is_upgrade(self) -> bool:
        return self.name.startswith("UPGRADE")


class Rolling:
    """What `Campaign` wants of a scene. earlier, later: the two programs. told: the steps; commands: those of
    `amqp-broker node` that were run."""

    def __init__(self, cluster: Cluster, earlier: Program, later: Program) -> None:
        self.cluster = cluster
        self.earlier = earlier
        self._programs = {False: earlier, True: later}
        self.told: list[str] = []
        self.commands: list[str] = []
        self.complaints: list[str] = []

    async def make(self, kind: Step, seconds: float) -> Fault:
        """One step; its node is the only one that is ever away."""
        node = self.cluster.nodes[kind.node]
        others = tuple(self.cluster.others(node.name))
        made = Fault(kind, (node.name,), others, (node.name,), now())  # type: ignore[arg-type]
        self.told.append(kind.value)
        complaint = await self._guarded(node)
        made.start = now()
        complaint = complaint or await self._drained(node)
        if complaint:
            made.complaints.append(f"{kind.value}: {complaint}")
        status = await node.terminate()
        if status:
            made.complaints.append(f"{kind.value}: {node.name} ended with {status}:\n{node.log_tail()}")
        node.program = self._programs[kind.is_upgrade]
        await self.restart(made, [node.name])
        if not await node.wait_ready(START_TIMEOUT_S):
            made.complaints.append(f"{kind.value}: {node.name} does not get ready:\n{node.log_tail()}")
        made.healed = now()
        self.complaints += made.complaints
        if kind.is_upgrade:
            await self._use_what_is_new(node)
        await pause(seconds)
        return made

    async def _use_what_is_new(self, node: NodeProcess) -> None:
        """Have a node of the later version do what that one has new forms for, towards other nodes and on its disk."""

        def ask() -> None:
            with SystemClient(node.url) as client:
                client.request("objects.page", kind="connections")

        await asyncio.to_thread(ask)
        home = self.cluster.nodes[self.cluster.others(node.name)[-1]]
        async with await aio_pika.connect(home.url) as connection, await connection.channel() as channel:
            await channel.declare_queue(f"{DEAD}.{home.name}", durable=True)
        async with await aio_pika.connect(node.url) as connection, await connection.channel() as channel:
            letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": f"{DEAD}.{home.name}"}
            queue = await channel.declare_queue(f"upgrade.source.{node.name}", durable=True, arguments=letters)
            message = aio_pika.Message(b"letter", delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
            published = [channel.default_exchange.publish(message, queue.name) for _ in range(LETTERS)]
            await asyncio.gather(*published)
            taken = [await queue.get() for _ in range(LETTERS)]
            await taken[-1].channel.basic_nack(taken[-1].delivery_tag, multiple=True, requeue=False)
            await queue.delete()

    def formats(self) -> dict[str, int]:
        """The version of each node's folder."""
        nodes = self.cluster.nodes.values()
        return {node.name: json.loads((node.data / "FORMAT").read_text())["version"] for node in nodes}

    async def restart(self, fault: Fault, names: list[str]) -> None:
        """Start nodes that have ended."""
        fault.restarted += names
        for name in names:
            await self.cluster.nodes[name].start()

    async def _guarded(self, node: NodeProcess) -> str:
        """Wait until it may be stopped. Returns what is against it in the end, if anything is."""
        if node.program is self.earlier:
            return "" if await self.is_calm() else f"not every group could spare {node.name} within {CALM_LIMIT_S} s"
        return await self._command(node, "guard")

    async def _drained(self, node: NodeProcess) -> str:
        """It leads nothing and has no clients. Returns what is against that, if anything is."""
        has_command = (node.program.tree / "amqp_broker" / "cli" / "admin" / "nodes.py").exists()
        return await self._command(node, "drain") if has_command else ""

    async def _command(self, node: NodeProcess, command: str) -> str:
        """`amqp-broker node guard` or `drain`, in the node's version. Returns what it says if its status is not 0."""
        program, wait = node.program, f"--wait={CALM_LIMIT_S:.0f}"
        line = [sys.executable, "-P", "-m", "amqp_broker", "node", command, wait, "--url", node.url]
        environment = {**os.environ, **program.environment, "PYTHONPATH": str(program.tree)}
        process = await asyncio.create_subprocess_exec(
            *line, cwd=program.tree, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        said, _ = await process.communicate()
        self.commands.append(f"{command} {node.name}")
        return f"{command} {node.name}: status {process.returncode}: {said.decode()}" if process.returncode else ""

    async def is_calm(self) -> bool:
        """Whether the guard lets a node go, within a time."""
        deadline = now() + CALM_LIMIT_S
        while now() < deadline:
            if all([await self._is_calm_at(name) for name in self.cluster.names]):
                return True
            await pause(POLL_S)
        return False

    async def _is_calm_at(self, name: str) -> bool:
        try:
            status = await self.cluster.status(name)
        except ASK_ERRORS:
            return False
        linked = all(member["is_linked"] for member in status["members"])
        led = all(group["leader"] and not group["is_critical"] for group in status["groups"])
        return linked and led and all(lag < LAG for group in status["groups"] for lag in group["lag"].values())


"""Rounds: put clients on a cluster, make faults, wait until everything is served again, drain the queues, and check.

The nodes keep their data from round to round; a History is of one round, which begins and ends with empty queues.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import inf
from random import Random

import aio_pika
from aio_pika.abc import AbstractChannel

from tests.chaos.checker import Findings, check, lost_connections, write_outage
from tests.chaos.clients import Consumer, Publisher
from tests.chaos.faults import Fault, FaultKind, Scene
from tests.chaos.history import History, QueueKind, QueueSpec, classic_queues
from tests.chaos.lock_holders import LOCK_ARGUMENTS, TOKENS, LockHolders, generation_of
from tests.chaos.lock_log import LockLog, check_locks
from tests.chaos.nodes import ASK_ERRORS, Cluster
from tests.chaos.sessions import CLIENT_ERRORS, CONNECT_TIMEOUT_S, PlainSession, RobustSession
from tests.chaos.streams import ARGUMENTS as STREAM_ARGUMENTS
from tests.chaos.streams import StreamClients
from tests.chaos.timing import now, pause, until
from tests.kill.streams import COMPACTED, StreamLedger

QUORUM_QUEUES = tuple(f"chaos.quorum.{number}" for number in range(4))
LOCKS = ("chaos.lock.0", "chaos.lock.1")
QUORUM_ARGUMENTS: dict[str, str | int] = {"x-queue-type": "quorum", "x-delivery-limit": -1}
#: A publisher gives up waiting for a confirm after so long; the one of the robust connections is impatient.
PATIENT_S, IMPATIENT_S = 40.0, 6.0
RECOVERY_LIMIT_S = 40.0
#: Longer than a member that is gone keeps what it holds, and a client takes to come back.
QUIET_LIMIT_S = 20.0
STOP_PATIENCE_S = 30.0
SETUP_LIMIT_S = 30.0
BEFORE_S = 0.5
AFTER_S = 0.5
POLL_S = 0.25
#: A healthy cluster says within this time how many messages a queue has; and whether a lock is free, where it may be
#: without writes for no longer.
ASK_LIMIT_S = 5.0
#: After a kill -9 of a node, or while one can write nothing, clients of the others can write again within this time.
OUTAGE_LIMIT_S = 3.0
LIMITED = (
    FaultKind.KILL_LEADER, FaultKind.KILL_FOLLOWER, FaultKind.DISK_FULL, FaultKind.FILE_LIMIT, FaultKind.KILL_WORKER,
    FaultKind.KILL_WORKER_0, FaultKind.KILL_SUPERVISOR,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Limits:
    """workers: of each node; has_spread_groups: the groups of queues are at all of them. outage_s: writes may stop for
    so long when one node fails."""

    workers: int
    outage_s: float
    has_spread_groups: bool = False


@dataclass(slots=True)
class Round:
    """What a round was and what was found."""

    faults: list[Fault] = field(default_factory=list)
    #: The faults went by and the cluster served again, so that the queues could be drained.
    is_over: bool = False
    findings: Findings = field(default_factory=Findings)
    holds: int = 0
    errors: dict[str, int] = field(default_factory=dict)
    error_texts: dict[str, set[str]] = field(default_factory=dict)


def queues_of(cluster: Cluster) -> dict[str, QueueSpec]:
    """The queues that messages are published to: quorum queues, and classic ones at home on each node."""
    quorum = [QueueSpec(name, QueueKind.QUORUM) for name in QUORUM_QUEUES]
    return {spec.name: spec for spec in [*quorum, *classic_queues(cluster.names, cluster.workers)]}


class Workload:
    """All clients of a round."""

    def __init__(
        self,
        cluster: Cluster,
        history: History,
        log: LockLog,
        streams: StreamLedger | None,
        chance: Random,
        leisure: float = 1.0,
    ) -> None:
        self._cluster = cluster
        self._history = history
        nodes = list(cluster.nodes.values())
        quorum = [spec.name for spec in history.queues.values() if spec.kind is QueueKind.QUORUM]
        classic = [spec.name for spec in history.queues.values() if spec.kind is QueueKind.CLASSIC]
        self._lanes = [(node.name, queue) for node in nodes for queue in quorum]
        self._publishers: list[Publisher] = []
        self._consumers: list[Consumer] = []
        for index, node in enumerate(nodes):
            first = 100 * (index + 1)
            self._publishers += [
                Publisher(RobustSession(node), history, quorum, first, IMPATIENT_S, chance.random(), leisure),
                Publisher(PlainSession(node), history, quorum, first + 20, PATIENT_S, chance.random(), leisure),
                Publisher(PlainSession(node), history, classic, first + 40, PATIENT_S, chance.random(), leisure),
            ]
            if cluster.workers > 1:  # of one queue each: these connections move to the workers that have them
                own = [spec.name for spec in history.queues.values() if spec.home == node.name]
                self._publishers += [
                    Publisher(PlainSession(node), history, [queue], first + 60 + number, PATIENT_S, chance.random())
                    for number, queue in enumerate(own)
                ]
            for number, queue in enumerate(quorum):
                is_robust = (number + index) % 2 == 0
                name = "robust consumer" if is_robust else "plain consumer"
                self._consumers.append(
                    Consumer(node, history, name, [queue], Random(chance.random()), is_robust=is_robust)
                )
            self._consumers.append(
                Consumer(node, history, "plain consumer", classic, Random(chance.random()), is_robust=False)
            )
        self._holders = LockHolders(nodes, LOCKS, log, history, Random(chance.random()))
        seed = Random(chance.random())
        self._streams = [] if streams is None else [StreamClients(nodes, streams, history, seed, leisure)]

    async def check_streams(self, node: str) -> None:
        """When nobody publishes any more and all is calm: as this node reads them."""
        for each in self._streams:
            try:
                # Nodes hear of the last messages one after the other: the furthest has all that was confirmed.
                names = self._cluster.names
                said = [await self._cluster.ask(name, "stream.offsets", stream=COMPACTED) for name in names]
            except ASK_ERRORS as error:
                self._history.violated(f"a node does not say where {COMPACTED} ends when all is calm: {error!r}")
                continue
            await each.check(self._cluster.nodes[node], max(one["next"] for one in said))

    async def served(self, since: float, limit_s: float) -> list[tuple[str, str]]:
        """Wait until every node has confirmed for every quorum queue since this time. Returns those that have not."""

        def waiting() -> list[tuple[str, str]]:
            return [lane for lane in self._lanes if not self._has_confirmed(lane, since)]

        await until(lambda: not waiting(), limit_s)
        return waiting()

    def _has_confirmed(self, lane: tuple[str, str], since: float) -> bool:
        times = self._history.confirms[lane]
        return bool(times) and times[-1] > since

    async def stop_publishing(self, patience_s: float) -> None:
        """Begin nothing new; wait so long for what is not confirmed."""
        await asyncio.gather(
            *(each.stop(patience_s) for each in self._publishers),
            self._holders.close(),
            *(each.stop_publishing(patience_s) for each in self._streams),
        )

    async def close(self) -> None:
        await asyncio.gather(*(each.close() for each in [*self._consumers, *self._streams]))


class Campaign:
    """Rounds on one cluster. `outage_limit_s`: writes may stop for so long when one node fails, seconds. leisure: who
    publishes rests so many times as long as in a campaign. streams: what is known of them, over all rounds."""

    def __init__(
        self,
        cluster: Cluster,
        scene: Scene,
        chance: Random,
        outage_limit_s: float = OUTAGE_LIMIT_S,
        has_streams: bool = True,
        leisure: float = 1.0,
    ) -> None:
        self._cluster = cluster
        self._outage_limit_s = outage_limit_s
        self._scene = scene
        self._chance = chance
        self.streams = StreamLedger(print)
        self._has_streams = has_streams
        self._leisure = leisure

    async def prepare(self) -> None:
        """Declare everything."""
        for spec in queues_of(self._cluster).values():
            arguments: dict[str, str | int] = QUORUM_ARGUMENTS if spec.kind is QueueKind.QUORUM else {}
            await self._declare(spec.name, spec.home or self._cluster.names[0], arguments)
        for name in (*LOCKS, TOKENS):
            await self._declare(name, self._cluster.names[0], LOCK_ARGUMENTS)
        for name, arguments in STREAM_ARGUMENTS.items() if self._has_streams else ():
            await self._declare(name, self._cluster.names[0], arguments)

    async def _declare(self, queue: str, node: str, arguments: Mapping[str, str | int]) -> None:
        async def declare(channel: AbstractChannel) -> None:
            await channel.declare_queue(queue, durable=True, arguments={**arguments})

        await self._on(node, declare)

    async def run(self, kinds: Sequence[FaultKind], seconds: float | None = None) -> Round:
        """One round with these faults, one after the other, each of so many seconds (by chance, if not given)."""
        done = Round()
        history = History(queues_of(self._cluster))
        log = LockLog()
        self.streams.violated = history.violated
        streams = self.streams if self._has_streams else None
        workload = Workload(self._cluster, history, log, streams, self._chance, self._leisure)
        calm_since = drained_at = inf
        present: list[tuple[str, int]] = []
        done.is_over = await self._make_faults(done, kinds, seconds, workload, history)
        if done.is_over:
            calm_since = done.faults[-1].recovered
            await workload.stop_publishing(STOP_PATIENCE_S)
            await self._drain(history)
            await workload.check_streams(self._chance.choice(self._cluster.names))
            await workload.close()
            drained_at = now()
            await self._take_rest(history)
            present = await self._take_locks(history)
        else:
            await workload.stop_publishing(0)
            await workload.close()
        restarted = [name for fault in done.faults for name in (*fault.restarted, *fault.bereaved)]
        keeps_order = all(fault.kind is FaultKind.MOVES for fault in done.faults)
        done.findings = check(history, restarted, calm_since, drained_at, keeps_order=keeps_order)
        if done.is_over:
            disturbances = [each for fault in done.faults for each in fault.disturbances()]
            done.findings.violations += check_locks(log, disturbances, present)
        done.holds, done.errors, done.error_texts = len(log.holds), dict(history.errors), dict(history.error_texts)
        return done

    async def _make_faults(
        self, done: Round, kinds: Sequence[FaultKind], seconds: float | None, workload: Workload, history: History
    ) -> bool:
        """Returns False when the cluster does not serve, before a fault or after it; then nothing more can be said."""
        if waiting := await workload.served(now(), SETUP_LIMIT_S):
            history.violated(f"before any fault, not served within {SETUP_LIMIT_S} s: {waiting}")
            return False
        for kind in kinds:
            await pause(BEFORE_S)
            await self._compact()
            fault = await self._scene.make(kind, self._chance.uniform(1, 10) if seconds is None else seconds)
            done.faults.append(fault)
            for text in fault.complaints:
                history.violated(text)
            if not await self._recover(fault, workload, history):
                return False
            if fault.has_lost_folder:
                await self._declare_again(fault, history)
            await pause(AFTER_S)
            self._measure(fault, history)
        await self._compact()
        return True

    async def _compact(self) -> None:
        """All nodes begin to compact the stream that is, if this one hears of it."""
        if self._has_streams:
            with contextlib.suppress(*ASK_ERRORS):
                asked = self._chance.choice(self._cluster.names)
                await self._cluster.ask(asked, "stream.compact", vhost="/", name=COMPACTED)

    # -- after a fault -----------------------------------------------------------------------------------------------

    async def _recover(self, fault: Fault, workload: Workload, history: History) -> bool:
        """Wait until all nodes are ready and serve. A node that has ended by itself is a finding, and started again."""
        deadline = now() + RECOVERY_LIMIT_S
        for node in self._cluster.nodes.values():
            if not node.is_running and node.name not in fault.restarted:
                history.violated(f"{node.name} ended by itself with {node.ended_with}:\n{node.log_tail()}")
                await self._scene.restart(fault, [node.name])
            if not await node.wait_ready(deadline - now()):
                history.violated(f"{node.name} is not ready {RECOVERY_LIMIT_S} s after it started:\n{node.log_tail()}")
        if waiting := await workload.served(fault.healed, deadline - now()):
            history.violated(f"{fault.kind.value}: not served {RECOVERY_LIMIT_S} s after its end: {waiting}")
            for node in self._cluster.nodes.values():
                if not node.is_running:
                    history.violated(f"{node.name} ended by itself with {node.ended_with}:\n{node.log_tail()}")
        if not waiting:
            await self._know_locks(history)
            if self._cluster.workers > 1 and (wrong := await self._cluster.unsettled(deadline - now())):
                history.violated(f"{fault.kind.value}: {RECOVERY_LIMIT_S} s after its end {wrong}")
        fault.recovered = now()
        return not waiting

    async def _know_locks(self, history: History) -> None:
        """Wait until every node knows who holds the locks, whose groups need not be those of the other queues: what a
        queue is asked for is answered by its log, behind all that was decided while the node was not heard."""

        async def ask(channel: AbstractChannel, steps: list[str]) -> None:
            for lock in LOCKS:
                steps.append(f"declare {lock}")
                queue = await channel.declare_queue(lock, passive=True)
                steps.append(f"get from {lock}")
                message = await queue.get(fail=False)
                if message is not None:
                    await message.nack(requeue=True)
            steps.append("close")

        async def ask_again(node: str) -> None:
            failures: dict[str, None] = {}
            try:
                async with asyncio.timeout(RECOVERY_LIMIT_S):
                    while True:
                        steps = ["connect"]
                        try:
                            await self._on(node, partial(ask, steps=steps), max(ASK_LIMIT_S, self._outage_limit_s))
                            return
                        except CLIENT_ERRORS as error:
                            failures[f"{steps[-1]}: {error!r}"] = None
                        await pause(POLL_S)
            except TimeoutError:
                history.violated(
                    f"{node} does not say within {RECOVERY_LIMIT_S} s whether a lock is free: {', '.join(failures)}"
                )

        await asyncio.gather(*map(ask_again, self._cluster.names))

    async def _declare_again(self, fault: Fault, history: History) -> None:
        """What was stored on a node alone went with its folder: its classic queues."""
        for spec in history.queues.values():
            if spec.home in fault.victims:
                await self._declare(spec.name, spec.home, {})
                history.lost_queues[spec.name] = now()

    def _measure(self, fault: Fault, history: History) -> None:
        quorum = [spec.name for spec in history.queues.values() if spec.kind is QueueKind.QUORUM]
        nodes = fault.survivors or self._cluster.names
        fault.outage_s = write_outage(history.confirms, quorum, nodes, fault.start, fault.recovered)
        for text in lost_connections(history, fault.survivors, fault.start, fault.recovered):
            history.violated(f"{fault.kind.value} of {', '.join(fault.victims)}: {text}")
        if fault.kind in LIMITED and fault.outage_s > self._outage_limit_s:
            history.violated(
                f"{fault.kind.value} ({', '.join(fault.victims)} at {fault.start:.3f}): clients of {', '.join(nodes)} "
                f"could not write to a quorum queue for {fault.outage_s:.2f} s"
            )

    # -- the end -----------------------------------------------------------------------------------------------------

    async def _drain(self, history: History) -> None:
        """Wait until the consumers have emptied all queues and every confirmed message has come, or nothing comes."""
        deliveries, progress = -1, now()
        while True:
            depths = await self._depths(history.queues)
            missing = history.missing()
            if not missing and all(depth == 0 for depth in depths.values()):
                return
            if history.deliveries > deliveries:
                deliveries, progress = history.deliveries, now()
            if now() > progress + QUIET_LIMIT_S:
                left = {queue: depth for queue, depth in depths.items() if depth != 0}
                history.violated(
                    f"not drained, nothing comes for {QUIET_LIMIT_S} s: {len(missing)} confirmed messages were not "
                    f"delivered, such as {missing[:3]}; messages left (None: nobody says): {left}"
                )
                return
            await pause(POLL_S)

    async def _depths(self, queues: dict[str, QueueSpec]) -> dict[str, int | None]:
        """How many messages are ready in each queue; None where nobody says."""
        found: dict[str, int | None] = dict.fromkeys(queues)

        async def ask(name: str, spec: QueueSpec) -> None:
            async def declare(channel: AbstractChannel) -> None:
                declared = await channel.declare_queue(name, passive=True)
                found[name] = declared.declaration_result.message_count

            with contextlib.suppress(*CLIENT_ERRORS):
                await self._on(spec.home or self._chance.choice(self._cluster.names), declare, ASK_LIMIT_S)

        await asyncio.gather(*(ask(name, spec) for name, spec in queues.items()))
        return found

    async def _take_rest(self, history: History) -> None:
        """After the consumers have gone: what is still delivered is in the history, later than their end."""
        name, node = "last consumer", self._chance.choice(list(self._cluster.nodes.values()))
        consumer = Consumer(node, history, name, list(history.queues), Random(0), is_robust=False)
        await pause(AFTER_S)
        await self._drain(history)
        await consumer.close()

    async def _take_locks(self, history: History) -> list[tuple[str, int]]:
        """Empty the locks and the tokens. Returns what was in the locks."""
        present: list[tuple[str, int]] = []

        async def take(channel: AbstractChannel) -> None:
            for lock in (*LOCKS, TOKENS):
                queue = await channel.declare_queue(lock, passive=True)
                while (message := await queue.get(fail=False)) is not None:
                    if lock != TOKENS:
                        present.append((lock, generation_of(message.body)))
                    await message.ack()

        try:
            await self._on(self._chance.choice(self._cluster.names), take)
        except CLIENT_ERRORS as error:
            history.violated(f"the locks could not be emptied on a healthy cluster: {error!r}")
        return present

    async def _on(
        self, node: str, work: Callable[[AbstractChannel], Awaitable[None]], limit_s: float = SETUP_LIMIT_S
    ) -> None:
        """Do something on a channel of its own. Raises CLIENT_ERRORS."""
        async with asyncio.timeout(limit_s):
            connection = await aio_pika.connect(self._cluster.nodes[node].url, timeout=CONNECT_TIMEOUT_S)
            try:
                await work(await connection.channel())
            finally:
                with contextlib.suppress(*CLIENT_ERRORS):
                    await connection.close()

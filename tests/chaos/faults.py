"""The faults, each a coroutine that makes it, lets it last, and undoes it; the round waits for the recovery.

survivors   nodes whose clients are owed service meanwhile: those of the majority, where there is one
disturbed   nodes that the others may give up meanwhile, with all that their clients hold
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import shutil
import signal
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from random import Random

from amqp_broker.settings.workers import node_of_worker, worker_number
from tests.chaos.history import QueueSpec, classic_queues
from tests.chaos.links import Way
from tests.chaos.lock_log import Disturbance
from tests.chaos.nodes import ASK_ERRORS, Cluster, NodeProcess
from tests.chaos.timing import now, pause, until
from tests.kill.host_processes import send

DELAY_S = (0.01, 0.15)
SLOW_OCTETS_S = 512 * 1024
RESET_CHANCE = 0.003
#: Smaller than a segment of the journal: the next writes at its end fail.
FILE_LIMIT_BYTES = 1 << 20
WATCH_S = 0.1
#: A node that has started is ready, or has ended, after so long.
READY_S = 30.0
STATUS_GIVEN_UP = 3
#: A worker that was killed, or was stopped for so long that it is, is another process after so long.
AGAIN_S = 30.0
#: A queue is back at its node after so long.
BACK_S = 60.0
AGAIN_POLL_S = 0.2
#: After a move was asked for; most take less.
KILL_WITHIN_S = 0.1


class FaultKind(Enum):
    """What is done."""

    KILL_LEADER = "kill -9 of the leader"
    KILL_FOLLOWER = "kill -9 of a follower"
    KILL_ALL = "kill -9 of all at once"
    RESTART_ALL = "restart of all at once"
    PAUSE_LEADER = "SIGSTOP of the leader"
    PAUSE_FOLLOWER = "SIGSTOP of a follower"
    SPLIT = "split brain: one against two"
    ISOLATED_LEADER = "isolated leader"
    BRIDGE = "bridge: two see only the third"
    RING = "ring: each hears only one other"
    SLOW = "slow links"
    LOSSY = "lossy links"
    DISK_FULL = "disk full"
    FILE_LIMIT = "writes fail"
    SET_BACK = "folder set back to a copy"
    EMPTIED = "folder emptied"
    RESTORED = "a copy restored beside the cluster"
    MIXED = "two at once"
    KILL_WORKER = "kill -9 of a worker"
    KILL_WORKER_0 = "kill -9 of worker 0"
    KILL_SUPERVISOR = "kill -9 of a supervisor"
    PAUSE_WORKER = "SIGSTOP of a worker"
    MOVES = "classic queues move"
    KILL_MOVING = "kill -9 of a worker as a queue moves"


#: Those of nodes of several workers.
WORKER_FAULTS = (
    FaultKind.KILL_WORKER,
    FaultKind.KILL_WORKER_0,
    FaultKind.KILL_SUPERVISOR,
    FaultKind.PAUSE_WORKER,
    FaultKind.MOVES,
    FaultKind.KILL_MOVING,
)


def kinds_for(workers: int) -> list[FaultKind]:
    """What can be done to nodes of so many workers."""
    return [kind for kind in FaultKind if workers > 1 or kind not in WORKER_FAULTS]


@dataclass
class Fault:
    """One that was made. `recovered` is set by the round: everything served again."""

    kind: FaultKind
    victims: tuple[str, ...]
    survivors: tuple[str, ...]
    disturbed: tuple[str, ...]
    start: float
    healed: float = 0.0
    recovered: float = 0.0
    #: Nodes whose process ended, by the fault or by itself.
    restarted: list[str] = field(default_factory=list)
    #: Nodes of which a worker ended, and was started again by its supervisor.
    bereaved: list[str] = field(default_factory=list)
    outage_s: float = 0.0
    #: What was stored on the victim alone is gone: its classic queues.
    has_lost_folder: bool = False
    #: What was wrong while it was made.
    complaints: list[str] = field(default_factory=list)

    def disturbances(self) -> list[Disturbance]:
        end = self.recovered or self.healed or now()
        return [Disturbance(name, self.start, end) for name in self.disturbed]


class Scene:
    """A cluster on which faults are made. `say` tells what happens."""

    def __init__(self, cluster: Cluster, chance: Random, say: Callable[[str], None]) -> None:
        self.cluster = cluster
        self.chance = chance
        self._say = say

    async def make(self, kind: FaultKind, seconds: float) -> Fault:
        """Make a fault, and undo it after so many seconds."""
        return await FAULTS[kind](self, seconds)

    @contextlib.contextmanager
    def fault(
        self, kind: FaultKind, victims: Sequence[str], survivors: Sequence[str], disturbed: Sequence[str] | None = None
    ) -> Iterator[Fault]:
        """The time of a fault. disturbed: the victims, if not given."""
        made = Fault(kind, tuple(victims), tuple(survivors), tuple(victims if disturbed is None else disturbed), now())
        self._say(f"{kind.value}: {', '.join(victims)}")
        yield made
        made.healed = now()

    async def follower(self) -> str:
        return self.chance.choice(self.cluster.others(await self.cluster.leader()))

    async def restart(self, fault: Fault, names: Sequence[str]) -> None:
        """Start nodes that have ended."""
        fault.restarted += names
        await asyncio.gather(*(self.cluster.nodes[name].start() for name in names))

    def classic(self) -> list[QueueSpec]:
        """The queues that move, in an order by chance."""
        specs = classic_queues(self.cluster.names, self.cluster.workers)
        return self.chance.sample(specs, len(specs))

    async def move(self, fault: Fault, queue: str, home: str) -> None:
        """Where nothing is wrong, a queue moves."""
        if why := await self.cluster.move(queue, home, self.chance.choice(self.cluster.names)):
            fault.complaints.append(f"{queue} does not move to {home}: {why}")

    async def bring_back(self, fault: Fault, queue: QueueSpec) -> None:
        """Have a queue live on its own node again, whatever has happened there."""
        end, why = now() + BACK_S, ""
        while now() < end:
            try:
                home = await self.cluster.home_of(queue.name, queue.home)
            except ASK_ERRORS as error:
                why = str(error)
            else:
                if node_of_worker(home) == queue.home:
                    return
                why = await self.cluster.move(queue.name, queue.home, queue.home)
            await pause(AGAIN_POLL_S)
        fault.complaints.append(f"{queue.name} does not come back to {queue.home} within {BACK_S} s: {why}")

    async def partition(self, ways: Sequence[Way], seconds: float) -> None:
        """Cut these ways, silently or as a firewall that rejects does, and heal everything."""
        network = self.cluster.network
        if self.chance.random() < 0.5:
            network.cut(ways)
        else:
            network.refuse(ways)
        await pause(seconds)
        network.heal()


async def _kill(scene: Scene, kind: FaultKind, names: Sequence[str], seconds: float) -> Fault:
    with scene.fault(kind, names, scene.cluster.others(*names)) as fault:
        await asyncio.gather(*(scene.cluster.nodes[name].kill() for name in names))
        await pause(seconds)
        await scene.restart(fault, names)
    return fault


async def kill_leader(scene: Scene, seconds: float) -> Fault:
    return await _kill(scene, FaultKind.KILL_LEADER, [await scene.cluster.leader()], seconds)


async def kill_follower(scene: Scene, seconds: float) -> Fault:
    return await _kill(scene, FaultKind.KILL_FOLLOWER, [await scene.follower()], seconds)


async def kill_all(scene: Scene, seconds: float) -> Fault:
    """They are started again at once: what counts is that all go at the same time."""
    return await _kill(scene, FaultKind.KILL_ALL, scene.cluster.names, 0.1 * seconds)


async def restart_all(scene: Scene, seconds: float) -> Fault:
    names = scene.cluster.names
    with scene.fault(FaultKind.RESTART_ALL, names, []) as fault:
        statuses = await asyncio.gather(*(scene.cluster.nodes[name].terminate() for name in names))
        if any(statuses):
            fault.complaints.append(f"SIGTERM ended {dict(zip(names, statuses, strict=True))}: all should be 0")
        await pause(0.1 * seconds)
        await scene.restart(fault, names)
    return fault


async def _pause(scene: Scene, kind: FaultKind, name: str, seconds: float) -> Fault:
    node = scene.cluster.nodes[name]
    with scene.fault(kind, [name], scene.cluster.others(name)) as fault:
        node.pause()
        try:
            await pause(seconds)
        finally:
            node.resume()
    return fault


async def pause_leader(scene: Scene, seconds: float) -> Fault:
    return await _pause(scene, FaultKind.PAUSE_LEADER, await scene.cluster.leader(), seconds)


async def pause_follower(scene: Scene, seconds: float) -> Fault:
    return await _pause(scene, FaultKind.PAUSE_FOLLOWER, await scene.follower(), seconds)


def between(one: Sequence[str], others: Sequence[str]) -> list[Way]:
    """All ways between two sides."""
    return [way for a in one for b in others for way in ((a, b), (b, a))]


async def _isolate(scene: Scene, kind: FaultKind, name: str, seconds: float) -> Fault:
    others = scene.cluster.others(name)
    with scene.fault(kind, [name], others) as fault:
        await scene.partition(between([name], others), seconds)
    return fault


async def split(scene: Scene, seconds: float) -> Fault:
    return await _isolate(scene, FaultKind.SPLIT, scene.chance.choice(scene.cluster.names), seconds)


async def isolate_leader(scene: Scene, seconds: float) -> Fault:
    return await _isolate(scene, FaultKind.ISOLATED_LEADER, await scene.cluster.leader(), seconds)


async def bridge(scene: Scene, seconds: float) -> Fault:
    """Two nodes see the third, but not each other."""
    middle = scene.chance.choice(scene.cluster.names)
    one, other = scene.cluster.others(middle)
    with scene.fault(FaultKind.BRIDGE, [one, other], [middle]) as fault:
        await scene.partition(between([one], [other]), seconds)
    return fault


async def ring(scene: Scene, seconds: float) -> Fault:
    """What a node says reaches the next one only."""
    names = scene.chance.sample(scene.cluster.names, len(scene.cluster.names))
    passing = list(zip(names, [*names[1:], names[0]], strict=True))
    with scene.fault(FaultKind.RING, names, []) as fault:
        scene.cluster.network.cut(way for way in scene.cluster.network.ways if way not in passing)
        await pause(seconds)
        scene.cluster.network.heal()
    return fault


async def slow(scene: Scene, seconds: float) -> Fault:
    """All links, or those of one node."""
    network, names = scene.cluster.network, scene.cluster.names
    victims = names if scene.chance.random() < 0.5 else [scene.chance.choice(names)]
    with scene.fault(FaultKind.SLOW, victims, names, names) as fault:
        for way in network.ways:
            if set(way) & set(victims):
                network.direction(*way).delay_s = DELAY_S
                network.direction(*way).octets_s = SLOW_OCTETS_S
        await pause(seconds)
        network.heal()
    return fault


async def lossy(scene: Scene, seconds: float) -> Fault:
    network, names = scene.cluster.network, scene.cluster.names
    with scene.fault(FaultKind.LOSSY, names, names) as fault:
        for way in network.ways:
            network.direction(*way).reset_chance = RESET_CHANCE
        await pause(seconds)
        network.heal()
    return fault


async def _watch(scene: Scene, name: str, seconds: float) -> None:
    """Let a fault last whose victim may end by itself."""
    node = scene.cluster.nodes[name]
    end = now() + seconds
    while now() < end and node.is_running:
        await pause(WATCH_S)
    await pause(max(0.0, end - now()))


@contextlib.contextmanager
def _watched(fault: Fault, node: NodeProcess) -> Iterator[None]:
    """Note whether the node goes on with another process in the place of one of its workers."""
    before = node.workers()
    yield
    after = node.workers()
    if after and after != before:
        fault.bereaved.append(node.name)


async def disk_full(scene: Scene, seconds: float) -> Fault:
    """No octet is left on the small disk. Where there is none, files cannot grow."""
    name = scene.cluster.small_disk
    if name is None:
        return await file_limit(scene, seconds)
    node = scene.cluster.nodes[name]
    with scene.fault(FaultKind.DISK_FULL, [name], scene.cluster.others(name)) as fault:
        node.may_end = True
        with _watched(fault, node):
            ballast = scene.cluster.fill_disk()
            try:
                await _watch(scene, name, seconds)
            finally:
                ballast.unlink()
                node.may_end = False
        if not node.is_running:
            await scene.restart(fault, [name])
    return fault


async def file_limit(scene: Scene, seconds: float) -> Fault:
    """Files of a node cannot grow: it must stop, or go on without a false confirm."""
    name = scene.chance.choice(scene.cluster.names)
    node = scene.cluster.nodes[name]
    with scene.fault(FaultKind.FILE_LIMIT, [name], scene.cluster.others(name)) as fault:
        node.may_end = True
        with _watched(fault, node):
            # Of several workers one: who is started again in its place may write.
            process = scene.chance.choice(list(node.workers().values()))
            unlimited = resource.prlimit(process, resource.RLIMIT_FSIZE)
            resource.prlimit(process, resource.RLIMIT_FSIZE, (FILE_LIMIT_BYTES, unlimited[1]))
            try:
                await _watch(scene, name, seconds)
            finally:
                with contextlib.suppress(ProcessLookupError):
                    resource.prlimit(process, resource.RLIMIT_FSIZE, unlimited)
                node.may_end = False
        if not node.is_running:
            await scene.restart(fault, [name])
    return fault


async def _forget(scene: Scene, kind: FaultKind, seconds: float) -> Fault:
    """A node is killed, and comes back with less than it has promised: it is refused, and rejoins."""
    name = scene.chance.choice(scene.cluster.others(scene.cluster.small_disk or ""))  # that has no room for two
    node = scene.cluster.nodes[name]
    with scene.fault(kind, [name], scene.cluster.others(name)) as fault:
        fault.restarted.append(name)
        fault.has_lost_folder = True
        await node.kill()
        copied = node.data.with_name(f"{name}.copy")
        if kind is FaultKind.SET_BACK:
            await asyncio.to_thread(shutil.copytree, node.data, copied)
            await node.start()
            await node.wait_ready(READY_S)
            await pause(seconds)
            await node.kill()
        await asyncio.to_thread(shutil.rmtree, node.data)
        if kind is FaultKind.SET_BACK:
            await asyncio.to_thread(copied.rename, node.data)
        node.may_end = True
        await node.start()
        status = await node.wait_ended(READY_S)
        node.may_end = False
        if status != STATUS_GIVEN_UP:
            fault.complaints.append(f"{name} has forgotten, and ended with {status}:\n{node.log_tail()}")
            await node.kill()
        if complaint := await scene.cluster.rejoin(name):
            fault.complaints.append(complaint)
        await node.start()
    return fault


async def set_back(scene: Scene, seconds: float) -> Fault:
    return await _forget(scene, FaultKind.SET_BACK, seconds)


async def emptied(scene: Scene, seconds: float) -> Fault:
    return await _forget(scene, FaultKind.EMPTIED, seconds)


async def restored(scene: Scene, seconds: float) -> Fault:
    """A copy of a node's folder is made a cluster of its own by mistake, and takes the place of the node for a while:
    its name, its address, the secret. The others go on without the node."""
    name = scene.chance.choice(scene.cluster.others(scene.cluster.small_disk or ""))
    node = scene.cluster.nodes[name]
    with scene.fault(FaultKind.RESTORED, [name], scene.cluster.others(name)) as fault:
        fault.restarted.append(name)
        await node.kill()
        copied = node.data.with_name(f"{name}.restored")
        await asyncio.to_thread(shutil.copytree, node.data, copied)
        copy = await scene.cluster.restored_copy(name, copied)
        await copy.start()
        if not await copy.wait_ready(READY_S):
            fault.complaints.append(f"the copy of {name} does not become ready:\n{copy.log_tail()}")
        await pause(seconds)
        for each in scene.cluster.others(name):
            if not scene.cluster.nodes[each].is_running:
                log = scene.cluster.nodes[each].log_tail()
                fault.complaints.append(f"{each} has ended, as a restored copy was beside it:\n{log}")
        await copy.kill()
        await asyncio.to_thread(shutil.rmtree, copied)
        await node.start()
    return fault


async def _once_again(fault: Fault, node: NodeProcess, number: int, process: int) -> None:
    """Wait until a worker is another process than this one."""
    fault.bereaved.append(node.name)
    if not await until(lambda: node.workers().get(number, process) != process, AGAIN_S):
        fault.complaints.append(
            f"worker {number} of {node.name} is not started again within {AGAIN_S} s:\n{node.log_tail()}"
        )


async def _kill_worker(scene: Scene, kind: FaultKind, numbers: Sequence[int], seconds: float) -> Fault:
    name = scene.chance.choice(scene.cluster.names)
    node, number = scene.cluster.nodes[name], scene.chance.choice(numbers)
    with scene.fault(kind, [name], scene.cluster.others(name)) as fault:
        process = node.workers()[number]
        send([process], signal.SIGKILL)
        await _once_again(fault, node, number, process)
        await pause(0.3 * seconds)
    return fault


async def kill_worker(scene: Scene, seconds: float) -> Fault:
    return await _kill_worker(scene, FaultKind.KILL_WORKER, range(1, scene.cluster.workers), seconds)


async def kill_worker_0(scene: Scene, seconds: float) -> Fault:
    return await _kill_worker(scene, FaultKind.KILL_WORKER_0, [0], seconds)


async def kill_supervisor(scene: Scene, seconds: float) -> Fault:
    """Its workers leave, and it is started again."""
    name = scene.chance.choice(scene.cluster.names)
    node = scene.cluster.nodes[name]
    with scene.fault(FaultKind.KILL_SUPERVISOR, [name], scene.cluster.others(name)) as fault:
        if not await node.kill_supervisor():
            fault.complaints.append(f"workers of {name} outlive their supervisor:\n{node.log_tail()}")
        await pause(0.3 * seconds)
        await scene.restart(fault, [name])
    return fault


async def pause_worker(scene: Scene, seconds: float) -> Fault:
    """Any of them; for longer than `worker_timeout` it is killed."""
    name = scene.chance.choice(scene.cluster.names)
    node = scene.cluster.nodes[name]
    with scene.fault(FaultKind.PAUSE_WORKER, [name], scene.cluster.others(name)) as fault:
        number, process = scene.chance.choice(sorted(node.workers().items()))
        send([process], signal.SIGSTOP)
        try:
            await pause(seconds)
        finally:
            send([process], signal.SIGCONT)
        if node.workers().get(number) != process:
            await _once_again(fault, node, number, process)
    return fault


async def moves(scene: Scene, seconds: float) -> Fault:
    """Queues go from worker to worker, of any node, and back to a worker of their node."""
    names = scene.cluster.names
    with scene.fault(FaultKind.MOVES, [], names) as fault:
        end, moved = now() + seconds, []
        for queue in scene.classic():
            await scene.move(fault, queue.name, scene.chance.choice(scene.cluster.homes))
            moved.append(queue)
            if now() > end:
                break
        for queue in moved:
            await scene.bring_back(fault, queue)
    return fault


async def kill_moving(scene: Scene, seconds: float) -> Fault:
    """The worker that has it, or the one that is to have it."""
    queue = scene.classic()[0]
    asked = scene.chance.choice(scene.cluster.names)
    home = await scene.cluster.home_of(queue.name, asked)
    other = scene.chance.choice([each for each in scene.cluster.homes if each != home])
    victim = scene.chance.choice([home, other])
    name, number = node_of_worker(victim), worker_number(victim)
    node = scene.cluster.nodes[name]
    with scene.fault(FaultKind.KILL_MOVING, [name], scene.cluster.others(name)) as fault:
        process = node.workers()[number]
        moving = asyncio.create_task(scene.cluster.move(queue.name, other, asked))
        await pause(scene.chance.uniform(0, KILL_WITHIN_S))
        send([process], signal.SIGKILL)
        await moving
        fault.bereaved += {node_of_worker(home), node_of_worker(other)} - {name}  # either may have it since
        await _once_again(fault, node, number, process)
        await scene.bring_back(fault, queue)
        await pause(0.1 * seconds)
    return fault


async def mixed(scene: Scene, seconds: float) -> Fault:
    """One fault of a process and one of the network. Nobody is owed anything but that nothing is lost."""
    names = scene.cluster.names
    with scene.fault(FaultKind.MIXED, names, []) as fault:
        kinds = scene.chance.choice(PROCESS_FAULTS), scene.chance.choice(NETWORK_FAULTS)
        for part in await asyncio.gather(*(scene.make(kind, seconds) for kind in kinds)):
            fault.restarted += part.restarted
            fault.bereaved += part.bereaved
            fault.complaints += part.complaints
    return fault


PROCESS_FAULTS = (
    FaultKind.KILL_LEADER,
    FaultKind.KILL_FOLLOWER,
    FaultKind.KILL_ALL,
    FaultKind.PAUSE_LEADER,
    FaultKind.PAUSE_FOLLOWER,
)
NETWORK_FAULTS = (
    FaultKind.SPLIT,
    FaultKind.ISOLATED_LEADER,
    FaultKind.BRIDGE,
    FaultKind.RING,
    FaultKind.SLOW,
    FaultKind.LOSSY,
)

FAULTS: dict[FaultKind, Callable[[Scene, float], Awaitable[Fault]]] = {
    FaultKind.KILL_LEADER: kill_leader,
    FaultKind.KILL_FOLLOWER: kill_follower,
    FaultKind.KILL_ALL: kill_all,
    FaultKind.RESTART_ALL: restart_all,
    FaultKind.PAUSE_LEADER: pause_leader,
    FaultKind.PAUSE_FOLLOWER: pause_follower,
    FaultKind.SPLIT: split,
    FaultKind.ISOLATED_LEADER: isolate_leader,
    FaultKind.BRIDGE: bridge,
    FaultKind.RING: ring,
    FaultKind.SLOW: slow,
    FaultKind.LOSSY: lossy,
    FaultKind.DISK_FULL: disk_full,
    FaultKind.FILE_LIMIT: file_limit,
    FaultKind.SET_BACK: set_back,
    FaultKind.EMPTIED: emptied,
    FaultKind.RESTORED: restored,
    FaultKind.MIXED: mixed,
    FaultKind.KILL_WORKER: kill_worker,
    FaultKind.KILL_WORKER_0: kill_worker_0,
    FaultKind.KILL_SUPERVISOR: kill_supervisor,
    FaultKind.PAUSE_WORKER: pause_worker,
    FaultKind.MOVES: moves,
    FaultKind.KILL_MOVING: kill_moving,
}

"""Cluster: three nodes, each an `amqp-broker serve` with as many workers as wanted, that reach each other through a
Network of proxies.

Ports are below those that the kernel gives to outgoing connections, so that none of these takes the port of a node that
is down. A node's folder is kept over its lives; its log is one file.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from amqp_broker.client.errors import ClientError
from amqp_broker.settings.workers import worker_name
from amqp_broker.system_client import SystemClient, SystemRequestError
from tests.chaos.links import Network
from tests.chaos.timing import now, pause, until
from tests.kill.host_processes import kill_session, process_of_worker, processes_in, send, workers_of

PROJECT_ROOT = Path(__file__).resolve().parents[2]
HOST = "127.0.0.1"
NAMES = ("n1", "n2", "n3")
FIRST_PORT, LAST_PORT = 20000, 29999
READY = b"ready amqp://"
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 30.0
ASK_TIMEOUT_S = 5.0
#: A queue that is used moves within this time, or it is said why not.
MOVE_TIMEOUT_S = 20.0
ASK_AGAIN_S = 0.2
#: Why a node may not answer.
ASK_ERRORS = (ClientError, SystemRequestError, OSError, TimeoutError)
SMALL_DISK_BYTES = 192 << 20
MOST_WORKERS = 8
LOG_TAIL = 4000

#: Small logs, so that a minute of load cuts them and installs snapshots; little memory, so that queues page.
SETTINGS: dict[str, str] = {"memory-budget": "64MiB", "disk-free-limit": "4MiB", "log-level": "info"}
#: A worker that stands still for longer than most faults last is killed.
WORKER_SETTINGS: dict[str, str] = {"worker-timeout": "4s"}


class StartError(Exception):
    """A node did not become ready; the text has the end of its log."""


@dataclass(frozen=True)
class Program:
    """Which broker a node runs: that of the sources in `tree`."""

    tree: Path = PROJECT_ROOT
    flags: tuple[str, ...] = ("--management-listen=off", "--prometheus-listen=off")
    environment: Mapping[str, str] = field(default_factory=dict)


class NodeProcess:
    """One member: its processes if it runs, and its place on the disk. `program` is what the next start runs. What is
    done to it is done to all of its processes, but for what names a worker or the supervisor."""

    def __init__(self, name: str, data: Path, log: Path, port: int, flags: Sequence[str]) -> None:
        self.name = name
        self.data = data
        self.log = log
        self.port = port
        self.url = f"amqp://guest:guest@{HOST}:{port}/"
        self.is_ready = False
        #: It was not told to end, but may: a fault is on whose right answer is to stop.
        self.may_end = False
        self.flags = flags
        self.program = Program()
        self._process: asyncio.subprocess.Process | None = None
        self._watch: asyncio.Task[None] | None = None
        #: Its exit status, if it ended without being told to.
        self.ended_with: int | None = None

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    @property
    def pid(self) -> int:
        """Of the process that has the ports."""
        assert self._process is not None
        return self._process.pid

    def workers(self) -> dict[int, int]:
        """The processes of its workers that run, by their numbers; of a node of one process, that."""
        if not self.is_running:
            return {}
        running = workers_of(self.pid)
        if not running:
            return {0: self.pid}
        found = {}
        for number in range(MOST_WORKERS):
            with contextlib.suppress(OSError, ValueError):  # one that has just been started has no folder yet
                found[number] = process_of_worker(self.data, number)
        return {number: process for number, process in found.items() if process in running}

    async def start(self) -> None:
        """Start it; `is_ready` says when it accepts clients."""
        self.ended_with = None
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                *("-P", "-m", "amqp_broker", "serve", "--exit-with-parent", *self.program.flags),
                *(f"--node-name={self.name}", f"--listen={HOST}:{self.port}", f"--data-dir={self.data}"),
                *self.flags,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                cwd=self.log.parent,
                env={**os.environ, "PYTHONPATH": str(self.program.tree), **self.program.environment},
                start_new_session=True,
            )
        self._watch = asyncio.create_task(self._follow(self._process))

    async def _follow(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        while line := await process.stdout.readline():
            if line.startswith(READY):
                self.is_ready = True
        self.is_ready = False
        status = await process.wait()
        if process is self._process:
            self._process, self.ended_with = None, status

    async def wait_ready(self, seconds: float = START_TIMEOUT_S) -> bool:
        """Whether it accepts clients within this time."""
        await until(lambda: self.is_ready or not self.is_running, seconds)
        return self.is_ready

    async def wait_ended(self, seconds: float) -> int | None:
        """Its exit status, if it ends by itself within this time."""
        await until(lambda: not self.is_running and self._process is None, seconds)
        return self.ended_with

    async def kill(self) -> None:
        """SIGKILL."""
        await self._end(signal.SIGKILL)

    async def kill_supervisor(self) -> bool:
        """SIGKILL for the process that has the ports. Returns whether its workers leave by themselves then."""
        session = self.pid
        send([session], signal.SIGKILL)
        have_left = await until(lambda: not processes_in(session), STOP_TIMEOUT_S)
        await self.kill()
        return have_left

    async def terminate(self) -> int:
        """SIGTERM, and SIGKILL if that is not enough. Returns its exit status."""
        return await self._end(signal.SIGTERM)

    def pause(self) -> None:
        """SIGSTOP."""
        send(processes_in(self.pid), signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT; harmless if it is gone."""
        if self.is_running:
            send(processes_in(self.pid), signal.SIGCONT)

    async def _end(self, how: signal.Signals) -> int:
        process, self._process, self.is_ready = self._process, None, False
        if process is None:
            return 0
        if how is signal.SIGKILL:
            await asyncio.to_thread(kill_session, process.pid)
        else:
            send([process.pid], how)  # it may have ended by itself just now
        try:
            return await asyncio.wait_for(process.wait(), STOP_TIMEOUT_S)
        except TimeoutError:
            await asyncio.to_thread(kill_session, process.pid)
            return await process.wait()

    def log_tail(self) -> str:
        return self.log.read_text(errors="replace")[-LOG_TAIL:] if self.log.exists() else ""


class Cluster:
    """Three nodes in `folder`, and the network between them. `chance` chooses ports and what the network does.

    small_disk: the node whose data is on a file system of SMALL_DISK_BYTES, if one can be mounted (root can). program:
    what the nodes run at first. workers: of each node.
    """

    def __init__(
        self,
        folder: Path,
        chance: Random,
        settings: Mapping[str, str] | None = None,
        small_disk: str | None = None,
        program: Program | None = None,
        workers: int = 1,
    ) -> None:
        self.folder = folder
        self.workers = workers
        self._program = program or Program()
        self.network = Network(chance)
        self._chance = chance
        of_workers = {**WORKER_SETTINGS, "workers": str(workers)} if workers > 1 else {}
        self._settings = {**SETTINGS, **of_workers, **(settings or {})}
        self._mounted: list[Path] = []
        self._taken: set[int] = set()
        self._addresses: dict[str, tuple[str, str]] = {}  # where the others reach it, and where it listens
        self.nodes: dict[str, NodeProcess] = {}
        self.small_disk = small_disk if small_disk is not None and self._mount(folder / small_disk) else None

    async def start(self) -> None:
        """Start all nodes. Raises StartError with the end of a log if one does not become ready."""
        secret = self.folder / "secret"
        if not secret.exists():
            secret.touch(mode=0o600)
            secret.write_text(secrets.token_hex(32))
        proxies = {name: self._free_port() for name in NAMES}
        members = ",".join(f"{name}={HOST}:{port}" for name, port in proxies.items())
        for name, proxy in proxies.items():
            inner = self._free_port()
            await self.network.add(name, HOST, proxy, inner)
            self._addresses[name] = (f"{HOST}:{proxy}", f"{HOST}:{inner}")
            flags = [f"--cluster-listen={HOST}:{inner}", f"--cluster={members}", f"--cluster-secret-file={secret}"]
            flags += [f"--{key}={value}" for key, value in self._settings.items()]
            place = self.folder / name
            place.mkdir(exist_ok=True)
            self.nodes[name] = NodeProcess(name, place / "data", self.folder / f"{name}.log", self._free_port(), flags)
            self.nodes[name].program = self._program
        await asyncio.gather(*(node.start() for node in self.nodes.values()))
        for node in self.nodes.values():
            if not await node.wait_ready():
                how = f"not ready after {START_TIMEOUT_S} s" if node.is_running else f"ended with {node.ended_with}"
                raise StartError(f"{node.name} {how}:\n{node.log_tail()}")

    async def stop(self) -> dict[str, int]:
        """End everything, in good order where that works. Returns the exit status of each node that ran."""
        self.network.heal()
        running = [node for node in self.nodes.values() if node.is_running]
        for node in running:
            node.resume()
        statuses = await asyncio.gather(*(node.terminate() for node in running))
        await self.network.close()
        self._unmount()
        return {node.name: status for node, status in zip(running, statuses, strict=True)}

    # -- what is known -----------------------------------------------------------------------------------------------

    @property
    def names(self) -> list[str]:
        return list(self.nodes)

    def others(self, *names: str) -> list[str]:
        return [name for name in self.nodes if name not in names]

    @property
    def homes(self) -> list[str]:
        """Where classic queues may live: all workers of all nodes."""
        return [worker_name(name, number) for name in self.nodes for number in range(self.workers)]

    async def leader(self) -> str:
        """The node that leads most groups with queues, as far as the nodes know; any of them where none says."""
        for name in self._chance.sample(self.names, len(self.names)):
            if not self.nodes[name].is_ready:
                continue
            try:
                status = await self.status(name)
            except ASK_ERRORS:
                continue
            led = [group["leader"] for group in status["groups"] if group["queues"] and group["leader"] in self.nodes]
            if led:
                return max(self.names, key=led.count)
        return self._chance.choice(self.names)

    async def status(self, name: str) -> dict[str, Any]:
        """What this node says of the cluster. Raises ASK_ERRORS."""

        return await self.ask(name, "cluster.status")

    async def ask(self, node: str, verb: str, limit_s: float = ASK_TIMEOUT_S, /, **fields: object) -> dict[str, Any]:
        """What a node answers, by whichever of its workers. Raises ASK_ERRORS."""

        def request() -> dict[str, Any]:
            with SystemClient(self.nodes[node].url, timeout=limit_s) as client:
                return client.request(verb, **fields)

        return await asyncio.wait_for(asyncio.to_thread(request), limit_s)

    async def unsettled(self, limit_s: float) -> str:
        """Wait until every node says that all members are linked, that all groups have a leader, and that all workers
        answer. Returns what is not so after this time, if anything."""
        deadline = now() + limit_s
        while True:
            said = [await self._unsettled(name) for name in self.nodes]
            wrong = "; ".join(filter(None, said))
            if not wrong or now() > deadline:
                return wrong
            await pause(ASK_AGAIN_S)

    async def _unsettled(self, name: str) -> str:
        try:
            status = await self.ask(name, "cluster.status", brief=True)
            totals = await self.ask(name, "totals")
        except ASK_ERRORS as error:
            return f"{name} does not answer: {error!r}"
        away = [each["node"] for each in status["members"] if not each["is_linked"]]
        leaderless = [each["group"] for each in status["groups"] if each["leader"] is None]
        silent = sorted({*self.homes} - {*totals["nodes"]} | {*totals["stale"]})
        wrong = f"no link with {away}, no leader of groups {leaderless}, nothing from {silent}"
        return f"{name} says: {wrong}" if away or leaderless or silent else ""

    async def home_of(self, queue: str, name: str) -> str:
        """Where a classic queue lives, as this node says. Raises ASK_ERRORS."""
        return str((await self.ask(name, "queue.homes", vhost="/", name=queue))["home"])

    async def move(self, queue: str, home: str, name: str) -> str:
        """Have a classic queue move; this node is asked. Returns why it did not, if it did not."""
        try:
            await self.ask(name, "queue.rehome", MOVE_TIMEOUT_S, vhost="/", name=queue, home=home)
        except ASK_ERRORS as error:
            return str(error) or repr(error)
        return ""

    async def rejoin(self, name: str) -> str:
        """Bring back a member that does not run and has forgotten: `amqp-broker cluster rejoin`. Returns what was wrong
        with that, if anything."""
        node, asked = self.nodes[name], self.nodes[self._chance.choice(self.others(name))]
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-P", "-m", "amqp_broker", "cluster", "rejoin", "--drop-queues", f"--url={asked.url}%2F"),
            *(f"--node-name={name}", f"--data-dir={node.data}", f"--cluster-secret-file={self.folder / 'secret'}"),
            *(f"--cluster-listen={self._addresses[name][1]}", f"--address={self._addresses[name][0]}"),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(PROJECT_ROOT)},
        )
        _, said = await process.communicate()
        return f"{name} cannot rejoin: {said.decode()}" if process.returncode else ""

    async def restored_copy(self, name: str, data: Path) -> NodeProcess:
        """Make a copy of a node's folder a cluster of its own, and a node that can be started in the place of that one,
        which does not run."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-P", "-m", "amqp_broker", "cluster", "restore", f"--data-dir={data}"),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(PROJECT_ROOT)},
        )
        assert await process.wait() == 0
        log = self.folder / f"{name}.restored.log"
        return NodeProcess(name, data, log, self._free_port(), self.nodes[name].flags)

    def fill_disk(self) -> Path:
        """Leave no octet free on the small disk. Returns the ballast; whoever removes it makes room again."""
        assert self.small_disk is not None
        ballast = self.folder / self.small_disk / "ballast"
        with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):  # until there is no room
            while file.write(bytes(1 << 20)) == 1 << 20:
                pass
            while True:
                file.write(bytes(4096))
        return ballast

    # -- places ------------------------------------------------------------------------------------------------------

    def _free_port(self) -> int:
        while True:
            port = self._chance.randint(FIRST_PORT, LAST_PORT)
            with socket.socket() as probe:
                try:
                    probe.bind((HOST, port))
                except OSError:
                    continue
            if port not in self._taken:
                self._taken.add(port)
                return port

    def _unmount(self) -> None:
        for folder in self._mounted:
            subprocess.run(["umount", "-l", str(folder)], check=True)
        self._mounted = []

    def _mount(self, folder: Path) -> bool:
        if os.geteuid() or shutil.which("mount") is None:
            return False
        folder.mkdir(exist_ok=True)
        command = ["mount", "-t", "tmpfs", "-o", f"size={SMALL_DISK_BYTES}", "tmpfs", str(folder)]
        if subprocess.run(command, capture_output=True).returncode:
            return False
        self._mounted.append(folder)
        return True

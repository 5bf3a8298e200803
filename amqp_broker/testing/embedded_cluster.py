"""A cluster of one's own in child processes: `with running_cluster(3) as cluster:`, for tests of what happens when
nodes die and come back.

As `amqp_broker.testing.embedded`, on which it stands. Ports for the links are taken here and kept bound, so that nobody
else gets one while its node is down; two sockets may be bound to a port as long as one of them listens.

Invariant: `start` returns when all nodes accept clients, or stops them all and raises BrokerStartError.
"""

from __future__ import annotations

import os
import secrets
import socket
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Self

from amqp_broker.settings.kinds import Address, MemberAddress
from amqp_broker.system_client import SystemClient
from amqp_broker.testing.embedded import BrokerStartError, RunningBroker, Startable

_LOOK_S = 0.1


class ClusterNode:
    """One node of a RunningCluster. What it stores outlives `stop` and `kill`, and goes with the cluster."""

    def __init__(self, name: str, address: Address, broker: RunningBroker, reservation: socket.socket) -> None:
        self.name = name
        self.address = address
        self.broker = broker
        self._reservation = reservation

    @property
    def url(self) -> str:
        """As `RunningBroker.url`; the same after a restart."""
        return self.broker.url

    @property
    def is_running(self) -> bool:
        return self.broker.is_running

    @property
    def logs(self) -> str:
        """Everything it has logged so far, over restarts too."""
        return self.broker.logs

    def kill(self) -> None:
        """End it with SIGKILL, as a crash would."""
        self.broker.end(kill=True)

    def stop(self) -> None:
        """End it with SIGTERM, as an operator would."""
        self.broker.end()

    def start(self, timeout_s: float | None = None) -> None:
        """Start it after `kill` or `stop`, and wait until it accepts clients. Raises BrokerStartError; the node is
        down then, with its data."""
        self.broker.launch()
        try:
            self.broker.wait_until_ready(timeout_s)
        except BrokerStartError:
            self.broker.end(kill=True)
            raise

    def restart(self, *, kill: bool = False) -> None:
        """Stop it (kill: with SIGKILL) if it runs, and start it again."""
        self.broker.end(kill=kill)
        self.start()

    def close(self) -> None:
        """Stop it for good: temporary data go, and so does the port."""
        self.broker.stop()
        self._reservation.close()


class RunningCluster(Startable):
    """Nodes n1, n2, ... in child processes; a context manager, plain and async. Made by `running_cluster`."""

    def __init__(
        self,
        count: int,
        data_dir: str | os.PathLike[str] | None,
        start_timeout_s: float,
        settings: Mapping[str, object],
    ) -> None:
        if count < 1:
            raise ValueError(f"a cluster of {count} nodes: it takes one at least")
        self.nodes: list[ClusterNode] = []
        self._count = count
        self._data_dir = None if data_dir is None else Path(data_dir).absolute()
        self._start_timeout_s = start_timeout_s
        self._settings = dict(settings)
        self._secret: IO[bytes] | None = None

    @property
    def urls(self) -> list[str]:
        """The URLs of all nodes, in the order of their names' numbers."""
        return [node.url for node in self.nodes]

    def node(self, name: str) -> ClusterNode:
        """The node of this name. Raises KeyError."""
        return {node.name: node for node in self.nodes}[name]

    def start(self) -> Self:
        """Starts all nodes at once and waits until all accept clients. Raises BrokerStartError."""
        if self.nodes:
            raise RuntimeError("the cluster runs already")
        self._secret = tempfile.NamedTemporaryFile(prefix="amqp-broker-secret-")  # noqa: SIM115 - lives as long as the cluster
        self._secret.write(secrets.token_hex(32).encode())
        self._secret.flush()
        reservations = [_reserve() for _ in range(self._count)]
        members = [
            MemberAddress(f"n{number}", Address(*reservation.getsockname()))
            for number, reservation in enumerate(reservations, 1)
        ]
        try:
            for member, reservation in zip(members, reservations, strict=True):
                self.nodes.append(self._make(member, members, reservation))
            for each in self.nodes:
                each.broker.launch()
            for each in self.nodes:
                each.broker.wait_until_ready()
            self._wait_until_agreed()
        except BaseException:
            self.stop()
            raise
        return self

    def _wait_until_agreed(self) -> None:
        """Wait until the members have told each other what they can, so that they may."""
        deadline = time.monotonic() + self._start_timeout_s
        with SystemClient(self.nodes[0].url) as client:
            while time.monotonic() < deadline:
                status = client.request("cluster.status", brief=True)
                if all((member["speaks_level"] or 0) <= status["level"] for member in status["members"]):
                    return
                time.sleep(_LOOK_S)
        logs = "\n".join(node.logs for node in self.nodes)
        raise BrokerStartError("the nodes have not agreed on a level", None, logs)

    def add_node(self) -> ClusterNode:
        """Adds one node more, and waits until it accepts clients; it has a vote a moment later. Raises
        BrokerStartError, SystemRequestError, ClientError."""
        number = 1 + max(int(each.name.removeprefix("n")) for each in self.nodes)
        reservation = _reserve()
        member = MemberAddress(f"n{number}", Address(*reservation.getsockname()))
        asked = next(node for node in self.nodes if node.is_running)
        with SystemClient(asked.url) as client:
            deadline = time.monotonic() + self._start_timeout_s
            while not client.request("cluster.status", node=member.name)["has_left"] and time.monotonic() < deadline:
                time.sleep(_LOOK_S)  # another change of members is going on
            client.request("cluster.add", node=str(member))
        members = [*(MemberAddress(node.name, node.address) for node in self.nodes), member]
        node = self._make(member, members, reservation, cluster_join=True)
        self.nodes.append(node)
        node.start()
        return node

    def stop(self) -> None:
        """Stops all nodes and removes temporary data. Harmless when stopped."""
        nodes, self.nodes = self.nodes, []
        for node in nodes:
            node.close()
        if self._secret is not None:
            self._secret.close()
            self._secret = None

    def _make(
        self, member: MemberAddress, members: Sequence[MemberAddress], reservation: socket.socket, **settings: object
    ) -> ClusterNode:
        assert self._secret is not None
        own = {
            "node_name": member.name,
            "cluster": ",".join(map(str, members)),
            "cluster_listen": str(member.address),
            "cluster_secret_file": self._secret.name,
        }
        folder = None if self._data_dir is None else self._data_dir / member.name
        broker = RunningBroker(folder, self._start_timeout_s, {**self._settings, **own, **settings})
        return ClusterNode(member.name, member.address, broker, reservation)


def running_cluster(
    count: int = 3, data_dir: str | os.PathLike[str] | None = None, *, start_timeout_s: float = 30.0, **settings: object
) -> RunningCluster:
    """A cluster of `count` nodes in child processes, for `with` and `async with`; or call `start` and `stop`.

    Each node's data are in a folder of its name in `data_dir`, and are kept; without it they are temporary. Settings
    are those of `amqp_broker.running`, and go to every node. Raises ConfigError for a wrong setting, when it starts.
    """
    return RunningCluster(count, data_dir, start_timeout_s, settings)


def _reserve() -> socket.socket:
    """A free port of this machine, bound and never listened on."""
    reservation = socket.socket()
    reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reservation.bind(("127.0.0.1", 0))
    return reservation

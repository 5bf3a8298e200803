"""WorkerWorld: the workers of one node in one process, and clients whose sockets go from one to another."""

from __future__ import annotations

import random
from typing import Any

from amqp_broker.connection.steering import Leaving
from amqp_broker.protocol import methods
from amqp_broker.protocol.fields import Table
from amqp_broker.settings.config import Config
from amqp_broker.settings.workers import worker_name, worker_number
from tests.node.node_cluster import NodeCluster
from tests.node.node_driver import Client, NodeDriver, small_config
from tests.simulation.simulated_disk import SimulatedDisk


class SocketClient(Client):
    """What it says waits in its socket while nobody reads from that."""

    unread = b""
    is_under_way = False

    def send_octets(self, octets: bytes) -> None:
        self.unread += octets
        self.read()

    def read(self) -> None:
        if self.unread and not self.connection.is_paused and not self.is_under_way:
            octets, self.unread = self.unread, b""
            super().send_octets(octets)


class WorkerDriver(NodeDriver):
    """One worker."""

    world: WorkerWorld

    def raw_client(self) -> Client:
        client = SocketClient(self)
        self.clients.append(client)
        self.world.clients.append(client)
        return client

    def hand_over(self, leaving: Leaving) -> None:
        """The supervisor has the socket, or does not take it."""
        client: Any = leaving.connection.transport
        if self.world.refuses_sockets:
            self.node.kept(leaving.connection, self.now)
            return
        client.is_under_way = True
        leaving.connection.set_transport(None)
        self.node.moved(leaving.connection, self.now)
        self.world.sockets.append((leaving.home, leaving.token, client))


class WorkerWorld(NodeCluster):
    """n1 and n1/1 and so on. sockets: that are on their way. refuses_sockets: none is taken. holds_sockets: none
    arrives. lost: clients whose sockets were closed."""

    def __init__(self, count: int = 2, **settings: Any) -> None:
        self.names = [worker_name("n1", number) for number in range(count)]
        self._settings = {"workers": count, "worker_processes": count, "queue_groups": 2, **settings}
        self.nodes = {}
        self._links = {}
        self._stalled = {}
        self.sockets: list[tuple[str, bytes, SocketClient]] = []
        self.clients: list[SocketClient] = []
        self.refuses_sockets = self.holds_sockets = False
        self.lost: list[SocketClient] = []
        for number, name in enumerate(self.names):
            driver = WorkerDriver(self._config(name), SimulatedDisk(random.Random(number)), seed=number)
            driver.world = self
            self.nodes[name] = driver
        for name in self.names:
            self._link_up(name)
        self.run_until_ready()

    def _config(self, name: str) -> Config:
        return small_config(node_name=name, worker=worker_number(name), **self._settings)

    def leader(self, group_id: int = 0) -> str:
        """Worker 0 is all there is."""
        return self.names[0]

    def step(self) -> None:
        """And sockets arrive, and what is due happens, and clients are read."""
        super().step()
        for driver in self.nodes.values():
            driver.node.tick(driver.now)
        for client in self.clients:
            client.read()
        if not self.holds_sockets:
            self.bring_sockets()

    def bring_sockets(self) -> None:
        sockets, self.sockets = self.sockets, []
        for home, token, client in sockets:
            driver = self.nodes[home]
            found = driver.node.adopt(token, driver.now)
            if found is None:
                self.lost.append(client)
                continue
            connection, octets = found
            client.is_under_way = False
            client.goes_on(driver, connection)
            driver.node.receive_data(connection, octets, driver.now)

    def settle(self, steps: int = 12) -> None:
        """Let everything happen for which no time has to pass."""
        for _ in range(steps):
            self.step()

    def rest(self) -> None:
        """What has moved may move again."""
        self.run(11_000)

    def client(self, at: str, *channel_ids: int, **settings: Any) -> Client:
        return self.nodes[at].client(*channel_ids, **settings)

    def where(self, client: Client) -> str:
        """The worker that has a client."""
        found = [name for name, driver in self.nodes.items() if client.connection in driver.node.clients.all()]
        assert len(found) == 1, found
        return found[0]

    def declare(self, home: str, *names: str, **arguments: object) -> None:
        """Queues that live at a worker."""
        client = self.client(home, 1)
        client.send(1, *[declare_at_home(name, **arguments) for name in names])
        self.settle(30)
        assert client.names() == ["queue.declare-ok"] * len(names)
        self.nodes[home].lose(client)

    def bodies(self, home: str, name: str) -> list[bytes]:
        """What is ready in a queue, in order; it stays there."""
        queue = self.nodes[home].queue(name)
        found = []
        while (entry := queue.ready.pop()) is not None:
            found.append(entry)
        queue.ready.put_back(list(found))
        return [entry.message.body_bytes() for entry in found]


def declare_at_home(name: str, **arguments: object) -> Any:
    """queue.declare of a durable queue that lives where it is declared."""
    table = {"x-queue-master-locator": "client-local"} | {key.replace("_", "-"): v for key, v in arguments.items()}
    return methods.QueueDeclare(0, name, False, True, False, False, False, Table(table))

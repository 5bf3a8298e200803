"""A Node driven by hand: octets in, octets out, one turn and one sync at a time."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from amqp_broker.connection.steering import Leaving
from amqp_broker.flow.peer import Peer
from amqp_broker.flow.state import ENDING
from amqp_broker.links.members_file import read_members
from amqp_broker.metadata import commands
from amqp_broker.node import Node, Turn
from amqp_broker.protocol import methods
from amqp_broker.protocol.constants import PROTOCOL_HEADER
from amqp_broker.protocol.fields import Table
from amqp_broker.protocol.frames import encode_method_frame
from amqp_broker.protocol.properties import encode_properties
from amqp_broker.settings.config import Config
from amqp_broker.turn.file_work import FileWork
from amqp_broker.turn.sync_job import SyncJob
from tests.simulation.client import Event, SimulatedClient
from tests.simulation.settings import PASSWORD, PASSWORD_HASH, USER
from tests.simulation.simulated_disk import SimulatedDisk

START_MS = 1_700_000_000_000


def small_config(**settings: object) -> Config:
    """A valid Config, and then some settings below its bounds."""
    config = Config()
    for name, value in {"default_user": "", "disk_free_limit_bytes": 0, "audit_log": False, **settings}.items():
        object.__setattr__(config, name, value)
    return config


class Client:
    """A client's end of a connection: what it says goes to the node at once, what it hears is in `events`. closes:
    it closes the transport when it has heard the last."""

    def __init__(self, driver: NodeDriver) -> None:
        self._driver = driver
        self._reader = SimulatedClient("reader")
        self.heard = b""
        self.events: list[Event] = []
        self.is_closed = False
        self.closes = True
        peer = Peer("127.0.0.1", 1000 + len(driver.clients), "127.0.0.1", 5672, is_loopback=True)
        self.connection: Any = driver.node.open_connection(peer, driver.now)
        self.connection.transport = self

    def send_octets(self, octets: bytes) -> None:
        self._driver.node.receive_data(self.connection, octets, self._driver.now)

    def send(self, channel_id: int, *said: Any) -> None:
        """Send methods in one chunk."""
        self.send_octets(b"".join(encode_method_frame(channel_id, method) for method in said))

    def publish(self, channel_id: int, queue: str, body: bytes, *, persistent: bool = True) -> None:
        """basic.publish to the default exchange."""
        self.send_octets(publish_octets(channel_id, queue, body, persistent=persistent))

    def goes_on(self, driver: NodeDriver, connection: Any) -> None:
        """Another node has its connection from now on."""
        self._driver = driver
        self.connection = connection
        connection.transport = self

    def hear(self, octets: bytes) -> None:
        self.heard += octets
        self.events += self._reader.receive(octets)

    def names(self) -> list[str]:
        """The names of the methods heard so far; they are forgotten then."""
        return [event.method.name for event in self.take()]

    def take(self) -> list[Event]:
        """The methods heard so far; they are forgotten then."""
        events, self.events = self.events, []
        return events


class NodeDriver:
    """The node, its disk and its clients."""

    def __init__(self, config: Config | None = None, disk: SimulatedDisk | None = None, seed: int = 2) -> None:
        self._seed = seed
        self.config = config if config is not None else small_config()
        self.disk = disk if disk is not None else SimulatedDisk(random.Random(1))
        self.now = START_MS
        self.clients: list[Client] = []
        #: What turns had to say to other nodes, until somebody takes it there.
        self.to_peers: list[tuple[str, list[bytes]]] = []
        #: What the thread for files has been given while it stands still; None: it does not.
        self.held_files: list[FileWork] | None = None
        self.start()

    def start(self) -> None:
        """A new node on the disk."""
        self.clients.clear()
        self.to_peers.clear()
        self.node = Node(self.config, self.disk, self.now, random.Random(self._seed).randbytes)
        self.node.store.leave_slice, self.node.store.leave_bytes = 1, 200
        self.node.replication.acquaintances.take_folder(read_members(self.disk), joins=self.config.cluster_join)
        self.node.recover(self.now)
        for check in self.node.take_page_checks():
            check.run()
        if not self.node.is_ready:
            return  # one of several
        self.add_user()

    def add_user(self) -> None:
        """Somebody who may log in."""
        if self.node.broker.metadata.user(USER) is None:
            self.node.broker.propose(commands.put_user(USER, PASSWORD_HASH, ["administrator"]))
            self.node.broker.propose(commands.set_permission(USER, "/", ".*", ".*", ".*"))
        self.settle()

    def crash(self) -> None:
        """The machine goes down and comes up again."""
        self.disk.crash()
        self.start()

    def turn(self) -> Turn:
        """End the turn: everybody hears what there is to hear."""
        turn = self.node.end_turn(self.now)
        self.to_peers += turn.peers
        for connection in turn.dirty:
            connection.transport.hear(b"".join(connection.take_output()))
            if connection.state == ENDING and connection.transport.closes:
                turn.dropped.append(connection)
        for connection in turn.dropped:
            connection.transport.is_closed = True
            self.node.connection_lost(connection, self.now)
        for leaving in turn.leaving:
            self.hand_over(leaving)
        if not turn.checks:
            return turn
        for check in turn.checks:
            if self.held_files is not None and isinstance(check, FileWork):
                self.held_files.append(check)
            else:
                check.run()
                self.node.checked(check, self.now)
        return self.turn()

    def hand_over(self, leaving: Leaving) -> None:
        """A connection is to go to another worker: there is none."""
        self.node.kept(leaving.connection, self.now)

    def bring_files(self) -> None:
        """The thread for files does not stand still any more."""
        held, self.held_files = self.held_files or [], None
        for work in held:
            work.run()
            self.node.checked(work, self.now)
        self.turn()

    def take_sync(self) -> SyncJob:
        """A job that there has to be."""
        job = self.node.take_sync()
        assert job is not None
        return job

    def synced(self, job: SyncJob) -> None:
        """Run a job, bring it back, and end that turn."""
        job.run()
        self.node.synced(job, self.now)
        self.turn()

    def settle(self) -> None:
        """Turns and syncs until nobody waits."""
        for _ in range(100):
            turn = self.turn()
            if not turn.wants_sync:
                if self.node.background.fresh:
                    continue  # they begin in the next
                return
            job = self.node.take_sync()
            if job is None:
                return
            self.synced(job)
        raise AssertionError("the node does not come to rest")

    def wait(self, milliseconds: int) -> None:
        """Let time pass, with a tick, a turn and the syncs that are wanted at each deadline."""
        end = self.now + milliseconds
        while True:
            turn = self.turn()
            if turn.wants_sync and (job := self.node.take_sync()) is not None:
                self.synced(job)
                continue
            if turn.next_deadline is None or turn.next_deadline > end:
                break
            self.now = max(self.now + 1, turn.next_deadline)
            self.node.tick(self.now)
        self.now = end
        self.node.tick(self.now)
        self.turn()

    def lose(self, client: Client) -> None:
        self.node.connection_lost(client.connection, self.now)
        self.turn()

    def raw_client(self) -> Client:
        """A transport that has said nothing yet."""
        client = Client(self)
        self.clients.append(client)
        return client

    def client(
        self, *channel_ids: int, heartbeat: int = 0, capabilities: Sequence[str] = (), vhost: str = "/"
    ) -> Client:
        """A client with open channels."""
        client = self.raw_client()
        client.send_octets(handshake_octets(heartbeat, capabilities, vhost=vhost))
        for channel_id in channel_ids:
            client.send(channel_id, methods.ChannelOpen())
        self.turn()
        assert "connection.open-ok" in client.names()
        return client

    def queue(self, name: str) -> Any:
        return self.node.broker.vhosts["/"].queues[name]


def handshake_octets(
    heartbeat: int = 0, capabilities: Sequence[str] = (), frame_max: int = 4096, channel_max: int = 100,
    vhost: str = "/",
) -> bytes:  # fmt: skip
    """All that a client says until the connection is open."""
    properties = Table({"capabilities": dict.fromkeys(capabilities, True)})
    return PROTOCOL_HEADER + b"".join(
        encode_method_frame(0, method)
        for method in (
            methods.ConnectionStartOk(properties, "PLAIN", f"\0{USER}\0{PASSWORD}".encode(), "en_US"),
            methods.ConnectionTuneOk(channel_max, frame_max, heartbeat),
            methods.ConnectionOpen(vhost),
        )
    )


def publish_octets(
    channel_id: int, queue: str, body: bytes, *, persistent: bool = True, split: int = 4088
) -> bytes:
    """basic.publish to the default exchange, with its content."""
    section = encode_properties({"delivery_mode": 2 if persistent else 1})
    header = b"\x00\x3c\x00\x00" + len(body).to_bytes(8, "big") + section
    octets = encode_method_frame(channel_id, methods.BasicPublish(0, "", queue, False, False))
    octets += frame_octets(2, channel_id, header)
    for start in range(0, len(body), split):
        octets += frame_octets(3, channel_id, body[start : start + split])
    return octets


def frame_octets(kind: int, channel_id: int, payload: bytes) -> bytes:
    return bytes([kind]) + channel_id.to_bytes(2, "big") + len(payload).to_bytes(4, "big") + payload + b"\xce"


def declare(name: str, *, durable: bool = True, **arguments: object) -> Any:
    """queue.declare; arguments as x_max_length=1."""
    table = Table({key.replace("_", "-"): value for key, value in arguments.items()})
    return methods.QueueDeclare(0, name, False, durable, False, False, False, table)


def consume(name: str, tag: str = "tag", *, no_ack: bool = False) -> Any:
    return methods.BasicConsume(0, name, tag, False, no_ack, False, False, Table({}))

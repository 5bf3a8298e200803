"""Both ends: a node with its Home (home_world.py), and other nodes' HomeLinks to it, joined by links in memory."""

from __future__ import annotations

from typing import Any

from amqp_broker.protocol.fields import Table
from amqp_broker.queue_types.contract.declaration import QueueDeclaration
from amqp_broker.queue_types.proxy.consumer import ProxyConsumer
from amqp_broker.queue_types.remote.home_link import HomeLink
from amqp_broker.queue_types.remote.queue import RemoteQueue
from queues.arguments import QueueArguments
from queues.consumer import Consumer
from queues.effects import Refusal
from queues.message import Delivery, Message
from queues.queue import Queue
from queues.receipts import Receipt
from tests.queue_types.home_world import HomeWorld
from tests.queues.queue_world import message_named, name_of

HOME = "n1"


class Note(Receipt):
    """What became of one publish, in the log of its publisher."""

    def __init__(self, log: list[tuple[int, Refusal | None]], name: int) -> None:
        self._log = log
        self._name = name
        self.expected = 0

    def expect(self) -> None:
        self.expected += 1

    def complete(self, refusal: Refusal | None) -> None:
        self._log.append((self._name, refusal))


class RemoteClient(Consumer):
    """A client of another node. limit: how many unacknowledged deliveries it takes; is_paused: it reads nothing."""

    def __init__(
        self, prefetch: int = 0, no_ack: bool = False, priority: int = 0, is_exclusive: bool = False, tag: str = "tag"
    ) -> None:
        super().__init__(no_ack, priority)
        self.prefetch = prefetch
        self.is_exclusive = is_exclusive
        self.tag = tag
        self.is_paused = False
        self.is_gone = False
        self.refusal: Exception | None = None
        self.held: list[Delivery] = []
        self.got: list[tuple[int, bool]] = []

    def prefetch_limit(self) -> int:
        return self.prefetch

    def has_credit(self) -> bool:
        return not self.is_paused and (not self.prefetch or len(self.held) < self.prefetch)

    def deliver(self, entry: Delivery) -> None:
        self.held.append(entry)
        self.got.append((name_of(entry.message), entry.is_redelivered))

    def deliver_at_once(self, message: Message, is_redelivered: bool) -> None:
        self.got.append((name_of(message), is_redelivered))

    def on_queue_gone(self) -> None:
        self.is_gone = True
        self.held.clear()

    @property
    def names(self) -> list[int]:
        return [name for name, _ in self.got]

    def ack(self, count: int | None = None) -> None:
        """Acknowledge the first deliveries that it holds."""
        count = len(self.held) if count is None else count
        for entry in self.held[:count]:
            self.queue.ack(entry)
        del self.held[:count]
        self.queue.credit_returned(self)
        self.queue.dispatch(0)

    def return_all(self) -> None:
        """Requeue everything that it holds."""
        held, self.held = self.held, []
        self.queue.put_back(held, 0)
        self.queue.credit_returned(self)
        self.queue.dispatch(0)


def consume(queue: Queue, client: RemoteClient) -> None:
    """As a channel does."""

    def then(refusal: Exception | None) -> None:
        client.refusal = refusal
        client.is_gone = refusal is not None
        if refusal is None:
            queue.credit_returned(client)
            queue.dispatch(0)

    queue.consume(client, then)


class Node:
    """Another node: its link to the home, its proxies, and what became of its publishes."""

    def __init__(self, world: LinkWorld, name: str) -> None:
        self.world = world
        self.name = name
        self.out: list[bytes] = []
        self.frames = 0  # so many were sent
        self.log: list[tuple[int, Refusal | None]] = []
        self.link = HomeLink(name, HOME, self._send, world.home.driver.now)
        self._proxies: dict[str, RemoteQueue] = {}

    def _send(self, node: str, payload: bytes) -> bool:
        assert node == HOME
        if self.name not in self.world.linked:
            return False
        self.out.append(payload)
        self.frames += 1
        return True

    def proxy(self, name: str) -> RemoteQueue:
        """The queue as this node sees it."""
        queue = self.world.home.queue(name)
        known = self._proxies.get(name)
        if known is None or known.queue_id != queue.queue_id:
            known = self._proxies[name] = RemoteQueue(name, queue.queue_id, queue.is_durable, self.link)
            known.declaration = QueueDeclaration(name, queue.is_durable, False, None, Table({}), "/")
            known.settings = QueueArguments()
        return known

    def publish(self, name: str, *numbers: int, **facts: Any) -> None:
        """Publish messages of these names; `log` has what becomes of them."""
        for number in numbers:
            self.proxy(name).publish(message_named(number, **facts), Note(self.log, number), False, 0)

    def consume(self, name: str, client: RemoteClient) -> ProxyConsumer:
        """Consume as a channel does."""
        queue = self.proxy(name)
        consume(queue, client)
        holder: Any = queue.consumers.get(client)  # there is none if the home is down
        return holder

    @property
    def confirmed(self) -> list[int]:
        return [name for name, refusal in self.log if refusal is None]

    @property
    def nacked(self) -> list[tuple[int, str]]:
        return [(name, refusal.name) for name, refusal in self.log if refusal is not None]


class LinkWorld:
    """Steps in which every node has a turn, and frames arrive."""

    def __init__(self, *names: str, **settings: Any) -> None:
        self.home = HomeWorld(**settings)
        self.linked: list[str] = []
        self.nodes = {name: Node(self, name) for name in names or ("n2",)}
        for name in self.nodes:
            self.connect(name)

    def connect(self, name: str) -> None:
        self.linked.append(name)
        self.home.driver.now += 1
        self.nodes[name].link.peer_connected(self.home.driver.now)

    def cut(self, name: str) -> None:
        """The link is lost with everything on it; both ends notice."""
        self.linked.remove(name)
        self.nodes[name].out.clear()
        self.home.sent.pop(name, None)
        self.nodes[name].link.peer_disconnected(self.home.driver.now)
        self.home.home.peer_disconnected(name, self.home.driver.now)
        self.home.turn()

    def to_home(self, name: str, count: int | None = None) -> None:
        """So many frames of a node arrive at the home."""
        out = self.nodes[name].out
        count = len(out) if count is None else count
        arriving, out[:count] = out[:count], []
        for payload in arriving:
            self.home.home.receive_commands(name, payload, self.home.driver.now)

    def from_home(self, name: str, count: int | None = None) -> None:
        """So many frames of the home arrive at a node."""
        sent = self.home.sent.get(name, [])
        count = len(sent) if count is None else count
        arriving, sent[:count] = sent[:count], []
        for payload in arriving:
            self.nodes[name].link.receive_effects(payload, self.home.driver.now)

    def end_turn(self, name: str) -> None:
        self.nodes[name].link.end_turn(self.home.driver.now)

    def step(self, syncs: bool = True) -> None:
        """A turn of everybody, and all frames arrive."""
        for name in self.nodes:
            self.end_turn(name)
            self.to_home(name)
        if syncs:
            self.home.sync()
        self.home.turn()
        for name in self.nodes:
            self.from_home(name)

    def run(self, steps: int = 4) -> None:
        for _ in range(steps):
            self.step()

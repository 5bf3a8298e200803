"""A node whose classic queues other nodes use: a real Node and its Home, and peers that say what they are told to."""

from __future__ import annotations

from typing import Any

from amqp_broker.queue_types.remote.effects_codec import (
    Count,
    HomeEffect,
    Taken,
    decode_from_home,
    encode_count,
    encode_taken,
)
from amqp_broker.queue_types.remote.home import Home
from amqp_broker.turn.sync_job import SyncJob
from queues.effects import Confirmed, Delivered, GetAnswered
from queues.message import Message
from queues.page import AddressBook
from queues.quorum.commands import Attach, Batch, Command, Detach, Enqueue, Get, How, Settle, encode_batch
from tests.node.node_driver import NodeDriver, small_config
from tests.queues.queue_world import message_named, name_of


class HomeWorld:
    """The node, its home and what the home has sent."""

    def __init__(self, **settings: Any) -> None:
        self.driver = NodeDriver(small_config(**settings))
        self.node = self.driver.node
        self.home = self.new_home()
        self.home.start(self.driver.now)
        self.is_blocked = False
        self.sent: dict[str, list[bytes]] = {}
        self.client = self.driver.client(1)

    def new_home(self) -> Home:
        """A home of the node that nobody has used, in place of its own."""
        node, broker = self.node, self.node.broker
        return Home(
            broker.vhosts,
            self._find,
            broker.remove_queue,
            node.store.pager,
            node.timers,
            node.background,
            node.clock,
            self._send,
        )

    def _find(self, queue_id: int) -> Any:
        """As in a cluster, where the metadata have every queue: this node is alone, and they have the durable ones."""
        there = self.node.broker.vhosts["/"].queues.all_made()
        return next((queue for queue in there if queue.queue_id == queue_id), None)

    def _send(self, node: str, payload: bytes) -> bool:
        self.sent.setdefault(node, []).append(payload)
        return True

    def say(self, *methods: Any) -> None:
        """A client of the node itself says something, and is answered."""
        self.client.send(1, *methods)
        self.driver.settle()
        self.turn()

    def queue(self, name: str) -> Any:
        return self.driver.queue(name)

    def turn(self) -> None:
        """End a turn."""
        self.driver.turn()
        self.home.end_turn(self.node.store.journal.position, self.is_blocked, self.driver.now)

    def begin_sync(self) -> SyncJob | None:
        """End the turn and take everything that is to go to the disk; None if there is nothing."""
        self.turn()
        return self.node.take_sync()

    def finish_sync(self, job: SyncJob | None) -> None:
        """It has gone there; the turn does not end."""
        position = self.node.store.journal.position
        if job is not None:
            position = job.position
            job.run()
            self.node.synced(job, self.driver.now)
        self.home.synced(position)

    def sync(self) -> None:
        """Bring everything to the disk."""
        self.finish_sync(self.begin_sync())
        self.turn()

    def ready(self, name: str) -> list[int]:
        """The names of the messages that are ready, by fetching and putting them back where they were."""
        queue = self.queue(name)
        found = []
        while (entry := queue.ready.pop()) is not None:
            found.append(entry)
        queue.ready.put_back(list(found))
        return [name_of(entry.message) for entry in found]


class Peer:
    """Another node, one session of it. `heard` are the effects that came and were not taken."""

    def __init__(self, world: HomeWorld, name: str = "n2", session: int = 1) -> None:
        self.world = world
        self.name = name
        self.session = session
        self.sequence = 0
        self.octets = 0
        self.heard: list[HomeEffect] = []
        self._consumer = session << 20
        self._addresses = AddressBook()

    def send_octets(self, payload: bytes) -> None:
        self.world.home.receive_commands(self.name, payload, self.world.driver.now)

    def send(self, *commands: Command) -> None:
        """Commands in one frame."""
        batch = Batch(0, self.name, self.session, self.sequence + 1, 0, list(commands))
        self.sequence += len(commands)
        self.send_octets(encode_batch(batch))

    def say(self, *commands: Command) -> list[HomeEffect]:
        """Commands, the turn's end, and what came back."""
        self.send(*commands)
        return self.turn()

    def turn(self) -> list[HomeEffect]:
        self.world.turn()
        return self.take()

    def take(self) -> list[HomeEffect]:
        """What came since the last call."""
        effects: list[HomeEffect] = []
        for frame in self.world.sent.pop(self.name, []):
            session, found = decode_from_home(frame, self._addresses)
            assert session == self.session
            effects += found
        for effect in effects:
            if isinstance(effect, Delivered | GetAnswered) and effect.message is not None:
                self.octets += effect.message.size
        return effects

    def queue_id(self, name: str) -> int:
        return int(self.world.queue(name).queue_id)

    def publish(self, name: str, *numbers: int, **facts: Any) -> list[HomeEffect]:
        """Messages of these names, in one turn."""
        return self.say(*[self.enqueue(name, message_named(number, **facts)) for number in numbers])

    def enqueue(self, name: str, message: Message) -> Enqueue:
        return Enqueue((self.queue_id(name),), message)

    def new_consumer(self) -> int:
        self._consumer += 1
        return self._consumer

    def attach(self, name: str, prefetch: int = 0, **facts: Any) -> tuple[int, list[HomeEffect]]:
        number = self.new_consumer()
        return number, self.say(self.attaching(number, name, prefetch, **facts))

    def attaching(
        self,
        number: int,
        name: str,
        prefetch: int = 0,
        no_ack: bool = False,
        priority: int = 0,
        exclusive: bool = False,
    ) -> Attach:
        return Attach(number, self.queue_id(name), prefetch, no_ack, priority, exclusive, "tag")

    def detach(self, number: int, gives_back: bool = False) -> list[HomeEffect]:
        return self.say(Detach(number, gives_back))

    def get(self, name: str) -> GetAnswered:
        effects = self.say(Get(self.new_consumer(), self.queue_id(name)))
        [answer] = [effect for effect in effects if isinstance(effect, GetAnswered)]
        return answer

    def settle(self, consumer: int, *ids: int, how: How = How.ACK) -> list[HomeEffect]:
        return self.say(Settle(consumer, how, tuple((each, each) for each in ids)))

    def count(self, queue_id: int, is_use: bool = True) -> list[HomeEffect]:
        self.sequence += 1
        self.send_octets(encode_count(Count(self.session, self.sequence, queue_id, is_use)))
        return self.turn()

    def taken(self, *consumers: tuple[int, int], octets: int | None = None) -> list[HomeEffect]:
        """Everything was taken off the link, and so much of these consumers by their clients."""
        octets = self.octets if octets is None else octets
        self.send_octets(encode_taken(Taken(self.session, octets, consumers)))
        return self.turn()

    def lose_link(self) -> None:
        self.world.home.peer_disconnected(self.name, self.world.driver.now)
        self.world.turn()
        self.heard.clear()


def names(effects: list[HomeEffect]) -> list[int]:
    """The names of the messages that were delivered."""
    return [name_of(effect.message) for effect in effects if isinstance(effect, Delivered)]


def deliveries(effects: list[HomeEffect]) -> list[tuple[int, int, int, bool, int]]:
    """(consumer, delivery id, name, redelivered, count) of what was delivered."""
    return [
        (effect.consumer, effect.delivery_id, name_of(effect.message), effect.redelivered, effect.delivery_count)
        for effect in effects
        if isinstance(effect, Delivered)
    ]


def confirmed(effects: list[HomeEffect]) -> list[tuple[int, int]]:
    """(first, last) of what was confirmed."""
    return [(effect.first, effect.last) for effect in effects if isinstance(effect, Confirmed)]


def refusals(effects: list[HomeEffect]) -> list[tuple[int, str]]:
    """(sequence, refusal) of what was refused."""
    return [
        (sequence, refusal.name)
        for effect in effects
        if isinstance(effect, Confirmed)
        for sequence, refusal in effect.refused
    ]

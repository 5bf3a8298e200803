"""Connections that move from worker to worker: clients see, and queues hold, what they would if nobody had moved."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from amqp_broker.connection.expected import MOST_EXPECTED
from amqp_broker.connection.steering import ANSWER_MS, MOST_MOVES, SOCKET_MS
from amqp_broker.protocol import methods
from amqp_broker.protocol.fields import Table
from tests.example_counts import examples, seeds
from tests.node.node_driver import Client, consume, declare, frame_octets, handshake_octets, publish_octets
from tests.node.worker_world import SocketClient, WorkerWorld
from tests.simulation.settings import USER

pytestmark = pytest.mark.once

A, B = "n1", "n1/1"


@pytest.fixture
def world() -> WorkerWorld:
    made = WorkerWorld()
    made.declare(A, "here")
    made.declare(B, "there")
    return made


def publish_many(world: WorkerWorld, client: Client, queue: str, count: int) -> None:
    for number in range(count):
        client.publish(1, queue, b"%d" % number)
    world.settle()


# -- who moves, and when -----------------------------------------------------------------------------------------------


def test_who_consumes_moves_to_the_queue_before_it_is_touched(world: WorkerWorld) -> None:
    client = world.client(A, 1)
    client.send(1, methods.BasicQos(0, 7, False), consume("there"), methods.BasicQos(0, 9, True))
    world.settle()
    assert world.where(client) == B
    assert client.names() == ["basic.qos-ok", "basic.consume-ok", "basic.qos-ok"]
    channel = client.connection.channels[1]
    assert (channel.consumers["tag"].prefetch, channel.prefetch) == (7, 9)
    assert not world.nodes[A].node.clients.open_count
    assert world.nodes[B].queue("there").dispatcher.consumers
    assert A not in world.nodes[B].node.remote_queues.sessions


def test_who_consumes_here_stays(world: WorkerWorld) -> None:
    client = world.client(A, 1)
    client.send(1, consume("here"))
    world.settle()
    assert world.where(client) == A


def test_who_publishes_elsewhere_moves_after_a_few_messages(world: WorkerWorld) -> None:
    client = world.client(A, 1)
    publish_many(world, client, "there", 32)
    assert world.where(client) == A
    publish_many(world, client, "there", 30)
    assert world.where(client) == B
    assert world.bodies(B, "there") == [b"%d" % number for number in (*range(32), *range(30))]


def test_who_publishes_as_much_here_stays(world: WorkerWorld) -> None:
    client = world.client(A, 1)
    for number in range(200):
        client.publish(1, "here" if number % 5 == 0 else "there", b"%d" % number)
    world.settle()
    assert world.where(client) == A


def test_octets_count_and_not_messages(world: WorkerWorld) -> None:
    client = world.client(A, 1)
    for number in range(200):
        client.publish(1, "here" if number % 5 == 0 else "there", bytes(2000 if number % 5 else 1))
    world.settle()
    assert world.where(client) == B


def test_confirms_go_on_where_they_were(world: WorkerWorld) -> None:
    client = world.client(A, 1)
    client.send(1, methods.ConfirmSelect(False))
    publish_many(world, client, "there", 50)
    assert world.where(client) == B
    publish_many(world, client, "there", 3)
    acks = [event.method for event in client.take() if event.method.name == "basic.ack"]
    assert acks[-1].delivery_tag == 53
    assert expanded(acks) == list(range(1, 54))


def test_it_moves_a_few_times_and_then_stays(world: WorkerWorld) -> None:
    client = world.client(A, 1)
    seen = [A]
    for number in range(2 * MOST_MOVES):
        world.rest()
        name = "there" if number % 2 == 0 else "here"
        client.send(1, consume(name), methods.BasicCancel("tag", False))
        world.settle()
        seen.append(world.where(client))
    assert seen[: MOST_MOVES + 1] == [A, B, A, B]
    assert set(seen[MOST_MOVES + 1 :]) == {B}


def test_it_rests_before_it_moves_again(world: WorkerWorld) -> None:
    client = world.client(A, 1)
    for name in ("there", "here"):
        client.send(1, consume(name), methods.BasicCancel("tag", False))
        world.settle()
    assert world.where(client) == B


# -- who stays ---------------------------------------------------------------------------------------------------------


def has_a_consumer(client: Client) -> None:
    client.send(1, consume("here", "own"))


def holds_a_delivery(client: Client) -> None:
    client.publish(1, "here", b"held")
    client.send(1, methods.BasicGet(0, "here", False))


def has_an_exclusive_queue(client: Client) -> None:
    client.send(1, methods.QueueDeclare(0, "own", False, False, True, False, False, Table({})))


def has_a_transaction(client: Client) -> None:
    client.send(1, methods.TxSelect())
    client.publish(1, "here", b"later")


def waits_for_replies(client: Client) -> None:
    client.send(1, consume("amq.rabbitmq.reply-to", "replies", no_ack=True))


def says_half_a_message(client: Client) -> None:
    client.send(2, methods.ChannelOpen())
    client.send_octets(publish_octets(2, "here", b"half")[:-12])


def is_half_closed(client: Client) -> None:
    client.send(2, methods.ChannelOpen())
    client.send(2, methods.BasicAck(7, False))


def has_asked_the_broker(client: Client) -> None:
    client.send(1, methods.BasicPublish(0, "amq.system", "node.health", False, False))
    client.send_octets(frame_octets(2, 1, b"\x00\x3c\x00\x00" + bytes(8) + b"\x00\x00"))


@pytest.mark.parametrize(
    "state",
    [
        has_a_consumer, holds_a_delivery, has_an_exclusive_queue, has_a_transaction, waits_for_replies,
        says_half_a_message, is_half_closed, has_asked_the_broker,
    ],
)  # fmt: skip
def test_what_is_not_quiet_stays_and_is_served(world: WorkerWorld, state: Callable[[Client], None]) -> None:
    client = world.client(A, 1, 3)
    state(client)
    world.settle()
    client.take()
    client.send(3, consume("there", "far"))
    world.settle()
    assert world.where(client) == A
    assert client.names() == ["basic.consume-ok"]


def test_over_tls_nobody_moves(world: WorkerWorld) -> None:
    client = world.client(A, 1)
    secure = client.connection.peer.__class__("127.0.0.1", 1, "127.0.0.1", 5671, is_tls=True)
    session = client.connection.session
    connection = world.nodes[A].node.open_connection(secure, world.now)
    connection.session, connection.state = session, client.connection.state
    world.nodes[A].node.steering.opened(connection)
    assert connection.steered is None
    assert client.connection.steered is not None


def test_steering_can_be_off() -> None:
    world = WorkerWorld(steering="off")
    world.declare(B, "there")
    client = world.client(A, 1)
    client.send(1, consume("there"))
    world.settle()
    assert world.where(client) == A
    assert client.names() == ["basic.consume-ok"]


# -- what goes wrong ---------------------------------------------------------------------------------------------------


def begin_to_move(world: WorkerWorld) -> SocketClient:
    """A client whose state is on its way."""
    client = world.client(A, 1)
    client.send(1, consume("there"))
    world.nodes[A].turn()
    assert client.connection in world.nodes[A].node.steering.leaving
    assert isinstance(client, SocketClient)
    return client


def goes_on_at(world: WorkerWorld, client: Client, name: str) -> None:
    world.settle()
    assert world.where(client) == name
    assert client.names() == ["basic.consume-ok"]
    client.send(1, methods.BasicCancel("tag", False))
    world.settle()
    assert client.names() == ["basic.cancel-ok"]


def test_a_socket_that_cannot_be_handed_over_stays(world: WorkerWorld) -> None:
    world.refuses_sockets = True
    client = begin_to_move(world)
    goes_on_at(world, client, A)
    world.run(SOCKET_MS + 1000)
    assert not world.nodes[B].node.steering._expected


def test_who_is_refused_there_stays(world: WorkerWorld) -> None:
    world.nodes[B].node.facts.drain(True)
    goes_on_at(world, begin_to_move(world), A)


def test_no_answer_is_waited_for_in_vain(world: WorkerWorld) -> None:
    client = begin_to_move(world)
    world.nodes[A].to_peers = [(name, [each for each in frames if each[2] != 19]) for name, frames in
                               world.nodes[A].to_peers]  # fmt: skip
    world.settle()
    assert client.names() == []
    world.run(ANSWER_MS + 100)
    goes_on_at(world, client, A)


def test_a_link_that_is_lost_ends_the_move(world: WorkerWorld) -> None:
    client = begin_to_move(world)
    world.cut(A, B)
    world.settle()
    assert world.where(client) == A
    world.link(A, B)
    world.settle()
    assert client.names() == ["channel.close"], "the home was gone when it came to consume"


def test_a_socket_that_comes_too_late_is_closed(world: WorkerWorld) -> None:
    world.holds_sockets = True
    client = begin_to_move(world)
    world.settle()
    assert len(world.sockets) == 1
    world.run(SOCKET_MS + 100)
    world.bring_sockets()
    assert world.lost == [client]
    assert not any(driver.node.clients.open_count for driver in world.nodes.values())


def crowd(world: WorkerWorld, count: int) -> list[Client]:
    """They all want to move at the same moment."""
    clients = [world.client(A, 1) for _ in range(count)]
    for client in clients:
        client.send(1, consume("there"))
    return clients


def test_of_a_crowd_few_are_on_their_way_at_a_time_and_all_arrive(world: WorkerWorld) -> None:
    world.holds_sockets = True
    clients = crowd(world, 3 * MOST_EXPECTED)
    world.settle()
    assert len(world.sockets) == MOST_EXPECTED
    world.run(100)
    assert len(world.sockets) == MOST_EXPECTED, "none leaves for which there is no room"
    world.holds_sockets = False
    world.run(200)
    assert {world.where(client) for client in clients} == {B}
    assert [client.names() for client in clients] == [["basic.consume-ok"]] * len(clients)


def test_who_finds_no_room_for_long_goes_on_where_it_is(world: WorkerWorld) -> None:
    world.holds_sockets = True
    clients = crowd(world, MOST_EXPECTED + 10)
    world.run(ANSWER_MS + 100)
    assert [client.names() for client in clients[MOST_EXPECTED:]] == [["basic.consume-ok"]] * 10
    world.holds_sockets = False
    world.settle()
    assert [world.where(client) for client in clients] == [B] * MOST_EXPECTED + [A] * 10
    assert not world.lost


def test_crowds_of_several_workers_share_the_room() -> None:
    world = WorkerWorld(3)
    world.declare(B, "there")
    clients = [world.client(name, 1) for name in (A, "n1/2") for _ in range(MOST_EXPECTED)]
    for client in clients:
        client.send(1, consume("there"))
    world.holds_sockets = True
    world.settle()
    assert len(world.sockets) == MOST_EXPECTED
    world.holds_sockets = False
    world.run(200)
    assert {world.where(client) for client in clients} == {B}


def test_who_is_on_the_way_counts_where_connections_are_limited(world: WorkerWorld) -> None:
    node = world.nodes[B].node
    node.clients.max_connections = 5
    world.holds_sockets = True
    clients = crowd(world, 8)
    world.settle()
    assert len(world.sockets) == 5
    expected = node.steering._expected
    assert (len(expected), expected.of_user(USER), expected.in_vhost("/")) == (5, 5, 5)
    assert (expected.of_user("other"), expected.in_vhost("other")) == (0, 0)
    late = world.nodes[B].raw_client()
    late.send_octets(handshake_octets())
    world.nodes[B].turn()
    assert late.names()[-1] == "connection.close"
    world.holds_sockets = False
    world.settle()
    assert sorted(world.where(client) for client in clients) == [A] * 3 + [B] * 5


def test_what_the_client_is_told_meanwhile_ends_the_move(world: WorkerWorld) -> None:
    """What the other worker knows is not true any more when its answer comes."""
    client = begin_to_move(world)
    client.connection.output.put_raw(b"\x08\x00\x00\x00\x00\x00\x00\xce")
    client.connection.touch()
    goes_on_at(world, client, A)


def test_who_is_closed_meanwhile_does_not_move(world: WorkerWorld) -> None:
    client = begin_to_move(world)
    world.nodes[A].node.control.close_user(USER)
    world.settle()
    assert world.where(client) == A
    assert client.names() == ["connection.close"]
    assert not world.nodes[A].node.steering.leaving
    world.run(SOCKET_MS + 100)
    assert not world.nodes[B].node.steering._expected


def test_the_sums_of_a_node_do_not_move(world: WorkerWorld) -> None:
    client = world.client(A, 1)
    publish_many(world, client, "there", 100)
    assert world.where(client) == B
    for name, published in ((A, 100), (B, 100)):
        node = world.nodes[name].node
        live = sum(one.channels[1].published for one in node.clients.all() if one.channels)
        here = live + node.clients.sums.published
        assert 0 <= here <= published
    sums = [driver.node.clients.sums.published for driver in world.nodes.values()]
    assert sum(sums) + client.connection.channels[1].published == 100
    assert world.nodes[B].node.clients.moved == 1


# -- at every border ---------------------------------------------------------------------------------------------------


def expanded(acks: list[Any]) -> list[int]:
    """The numbers that are confirmed, in order."""
    found: list[int] = []
    for ack in acks:
        found += range(found[-1] + 1 if found else 1, ack.delivery_tag + 1) if ack.multiple else [ack.delivery_tag]
    return found


class Traffic:
    """One client's random life, an operation at a time, each of whole frames. heard: what it heard of each operation,
    without what depends on how long something takes: by channel, answers and returns in order, deliveries by consumer,
    and which publishes were confirmed. are_lasting: two of the queues are quorum queues, whose groups the two workers
    have."""

    def __init__(self, seed: int, moves: bool, are_lasting: bool = False) -> None:
        self.chance = random.Random(seed)
        self.moves = moves
        self.world = WorkerWorld(group_workers=(1, 0) if are_lasting else ())
        self.world.run(500)
        self.lasting = ("a1", "b1") if are_lasting else ()
        self.world.declare(A, *[name for name in ("a0", "a1") if name not in self.lasting])
        self.world.declare(B, *[name for name in ("b0", "b1") if name not in self.lasting])
        self.client = self.world.client(A, 1, 2, 3)
        self.client.send(1, *map(self.declaration, self.lasting))
        self.world.run(500)
        self.client.send(3, methods.TxSelect())
        self.client.send(2, methods.ConfirmSelect(False))
        self.world.settle()
        self.client.take()
        self.held: dict[int, list[int]] = {1: [], 2: [], 3: []}
        self.tags: dict[int, int] = {1: 0, 2: 0, 3: 0}
        self.consumers: dict[tuple[int, str], str] = {}
        self.stopped: set[int] = set()  # channels without deliveries
        self.count = 0
        self.confirmed = 0
        self.heard: list[Any] = []
        self.times_moved = 0

    def declaration(self, name: str) -> Any:
        lasting = {"x_queue_type": "quorum", "x_queue_leader_locator": "balanced"} if name in self.lasting else {}
        return declare(name, **lasting)

    def is_free(self, channel: int) -> bool:
        """Whether it has no consumer. What a queue elsewhere has sent to one that cannot take it waits at the worker of
        the connection: it is there for nobody else, and one that stops would show where it is."""
        return all(of != channel for of, _ in self.consumers)

    def operations(self) -> Iterator[list[bytes]]:
        """What is said, as frames; endless."""
        chance = self.chance
        while True:
            channel = chance.choice((1, 2, 2, 3))
            queue = chance.choice(("a0", "a1", "b0", "b1"))
            match chance.randrange(14):
                case 0 | 1 | 2 | 3:
                    frames = []
                    for _ in range(chance.randrange(1, 4)):
                        self.count += 1
                        body = b"%d " % self.count + bytes(chance.choice((0, 10, 5000)))
                        frames += split(publish_octets(channel, queue, body, persistent=chance.random() < 0.5))
                    yield frames
                case 4:
                    yield split(nowhere(channel, chance.random() < 0.5))
                case 5:
                    yield [method(channel, methods.BasicGet(0, queue, chance.random() < 0.5))]
                case 6 if self.is_free(channel) and channel not in self.stopped:
                    tag = f"tag{self.count}{channel}{queue}"
                    self.consumers[channel, tag] = queue
                    yield [method(channel, consume(queue, tag, no_ack=chance.random() < 0.3))]
                case 7 if self.consumers:
                    of, tag = chance.choice(list(self.consumers))
                    del self.consumers[of, tag]
                    yield [method(of, methods.BasicCancel(tag, False))]
                case 8 | 9 if self.held[channel]:
                    held, self.held[channel] = self.held[channel], []
                    how = chance.randrange(3)
                    said = (methods.BasicAck(held[-1], True), methods.BasicNack(held[-1], True, True),
                            methods.BasicNack(held[-1], True, False))[how]  # fmt: skip
                    after = [method(channel, chance.choice((methods.TxCommit, methods.TxCommit))())]
                    yield [method(channel, said), *(after if channel == 3 else ())]
                case 10:
                    yield [method(3, chance.choice((methods.TxCommit, methods.TxRollback))())]
                case 11:
                    yield [method(channel, methods.BasicQos(0, chance.randrange(3), chance.random() < 0.5))]
                case 12 if self.is_free(channel):
                    self.stopped ^= {channel}
                    yield [method(channel, methods.ChannelFlow(channel not in self.stopped))]
                case 13:
                    yield [method(channel, self.declaration(queue)),
                           method(channel, methods.QueuePurge(0, queue, False))][: chance.randrange(1, 3)]  # fmt: skip

    def run(self, count: int) -> None:
        for _, frames in zip(range(count), self.operations(), strict=False):
            for frame in frames:
                self.client.send_octets(frame)
                if self.moves:
                    self.move()
            self.world.settle()
            if self.lasting:
                self.world.run(60)
            self.listen()

    def move(self) -> None:
        """If it is quiet, it moves now."""
        at = self.world.where(self.client)
        connection, steering = self.client.connection, self.world.nodes[at].node.steering
        if connection.steered is not None:
            connection.steered.moves = connection.steered.next_at = 0
        else:
            steering.opened(connection)
        if steering.wish(connection, B if at == A else A):
            self.world.settle()
            for _ in range(3):
                if connection in steering.leaving:
                    self.world.run(20)
            self.times_moved += self.world.where(self.client) != at

    def listen(self) -> None:
        replies: dict[Any, list[Any]] = defaultdict(list)
        acks = []
        for event in self.client.take():
            said, channel = event.method, event.channel_id
            tag = getattr(said, "delivery_tag", 0)
            if said.name in ("basic.deliver", "basic.get-ok"):
                self.tags[channel] += 1
                assert tag == self.tags[channel], "delivery tags count up, whoever gives them"
                of = getattr(said, "consumer_tag", "get")
                replies[channel, of].append((event.body[:20], said.redelivered))
                self.held[channel].append(tag)
            elif said.name == "basic.ack":
                acks.append(said)
            else:
                replies[channel].append((said.name, event.body[:20], bytes(methods.encode_method(said))))
        for ack in acks:
            assert ack.delivery_tag > self.confirmed
            assert ack.multiple or ack.delivery_tag == self.confirmed + 1
            self.confirmed = ack.delivery_tag
        self.heard.append((dict(replies), self.confirmed))

    def queues(self) -> dict[str, list[bytes]]:
        """All that is left, when the client has gone."""
        self.world.nodes[self.world.where(self.client)].lose(self.client)
        self.world.settle()
        found = {name: self.world.bodies(home, name) for home, names in ((A, ("a0", "a1")), (B, ("b0", "b1")))
                 for name in names if name not in self.lasting}  # fmt: skip
        for name in self.lasting:
            reader = self.world.client(A, 1)
            reader.send(1, consume(name, no_ack=True))
            self.world.run(500)
            found[name] = [event.body for event in reader.take() if event.method.name == "basic.deliver"]
        return found


def method(channel: int, said: Any) -> bytes:
    return frame_octets(1, channel, methods.encode_method(said))


def nowhere(channel: int, is_mandatory: bool) -> bytes:
    octets = method(channel, methods.BasicPublish(0, "", "nowhere", is_mandatory, False))
    return octets + frame_octets(2, channel, b"\x00\x3c\x00\x00" + (2).to_bytes(8, "big") + b"\x00\x00") + frame_octets(
        3, channel, b"xy"
    )


def split(octets: bytes) -> list[bytes]:
    """The frames of it."""
    frames = []
    while octets:
        size = 8 + int.from_bytes(octets[3:7], "big")
        frames.append(octets[:size])
        octets = octets[size:]
    return frames


@pytest.mark.parametrize("are_lasting", [False, True])
@pytest.mark.parametrize("seed", seeds(range(examples(40))))
def test_moves_at_every_border_are_not_seen(seed: int, are_lasting: bool) -> None:
    staying, moving = Traffic(seed, False, are_lasting), Traffic(seed, True, are_lasting)
    for each in (staying, moving):
        each.run(60)
    assert moving.heard == staying.heard
    assert moving.queues() == staying.queues()
    assert moving.tags == staying.tags


@pytest.mark.parametrize("are_lasting", [False, True])
def test_the_traffic_meets_moves(are_lasting: bool) -> None:
    moving = [Traffic(seed, True, are_lasting) for seed in range(4)]
    for each in moving:
        each.run(60)
    assert sum(each.times_moved for each in moving) > 40


@pytest.mark.parametrize("seed", seeds(range(examples(40))))
def test_order_of_publication_is_order_of_the_queue(seed: int) -> None:
    """Nobody waits for anything: publishes are under way to three workers and the groups of three while the connection
    moves."""
    chance, world = random.Random(seed), WorkerWorld(3, queue_groups=3, group_workers=chance_of_groups(seed))
    homes = {"q0": A, "q1": B, "q2": "n1/2"}
    for name, home in homes.items():
        world.declare(home, name)
    client = world.client(A, 1, 2)
    lasting = ["lasting0", "lasting1", "lasting2"]
    for name in lasting:
        client.send(1, declare(name, x_queue_type="quorum", x_queue_leader_locator="balanced"))
        world.settle(30)
    client.send(2, methods.ConfirmSelect(False))
    world.settle(30)
    client.take()
    published: dict[tuple[int, str], list[bytes]] = defaultdict(list)
    moved = 0
    for number in range(250):
        channel, name = chance.choice((1, 2)), chance.choice((*homes, *lasting))
        body = b"%d %d" % (channel, number)
        client.publish(channel, name, body, persistent=chance.random() < 0.5)
        published[channel, name].append(body)
        if chance.random() < 0.3:
            world.step()
        if chance.random() < 0.2:
            at, connection = world.where(client) if not world.sockets else "", client.connection
            if at and connection.steered is not None:
                connection.steered.moves = connection.steered.next_at = 0
                moved += world.nodes[at].node.steering.wish(connection, chance.choice(list(homes.values())))
        if chance.random() < 0.05:
            world.run(30)
    world.run(200)
    assert not world.lost
    ready = {name: world.bodies(home, name) for name, home in homes.items()}
    reader = world.client(A, 1)
    for name in lasting:
        reader.send(1, consume(name, name, no_ack=True))
        world.run(300)
        ready[name] = [event.body for event in reader.take() if event.method.name == "basic.deliver"]
    for (channel, name), bodies in published.items():
        assert [each for each in ready[name] if each.startswith(b"%d " % channel)] == bodies
    assert moved


def test_who_has_messages_under_way_to_a_group_stays() -> None:
    """Those that others publish meanwhile do not count. The link to who leads is lost with what it had; the connection
    would go to a third worker, whose link is there."""
    third = "n1/2"
    world = WorkerWorld(3, group_workers=(1, 0))
    world.run(500)
    client, other = world.client(A, 1), world.client(A, 1)
    client.send(1, *[declare(name, x_queue_type="quorum", x_queue_leader_locator="balanced") for name in ("q", "r")])
    world.run(500)
    metadata = world.nodes[A].node.broker.metadata
    name = next(each for each in ("q", "r") if int(metadata.queue("/", each).queue_id) % 2 == 0)  # of group 1
    client.publish(1, name, b"first")
    world.cut(A, B)
    steering = world.nodes[A].node.steering
    assert steering.wish(client.connection, third)
    for _ in range(5):
        other.publish(1, name, b"other")
        world.run(10)
    assert world.where(client) == A
    world.link(A, B)
    world.run(2000)
    client.connection.steered.next_at = 0
    other.publish(1, name, b"other")
    world.nodes[A].turn()
    assert steering.wish(client.connection, third)
    for _ in range(10):
        other.publish(1, name, b"other")
        world.step()
    world.run(100)
    assert world.where(client) == third
    client.publish(1, name, b"second")
    world.run(300)
    reader = world.client(A, 1)
    reader.send(1, consume(name, no_ack=True))
    world.run(500)
    assert [event.body for event in reader.take() if event.body not in (b"", b"other")] == [b"first", b"second"]


def test_who_has_something_in_a_chunk_that_waits_for_the_disk_stays() -> None:
    """From the other worker the next message would be in the log before it."""
    world = WorkerWorld(2, group_workers=(0, 0))
    world.declare(A, "c")
    client, other = world.client(A, 1), world.client(A, 1)
    client.send(1, declare("s", x_queue_type="stream"))
    client.publish(1, "s", b"makes it")
    world.run(500)
    world.stall(A)
    other.send(1, methods.ConfirmSelect(False))
    other.publish(1, "c", b"syncs")
    world.step()
    client.publish(1, "s", b"first")
    assert world.nodes[A].node.steering.wish(client.connection, B)
    world.settle()
    client.publish(1, "s", b"second")
    world.settle()
    world.release(A)
    world.run(500)
    reader = world.client(A, 1)
    from_first = Table({"x-stream-offset": "first"})
    reader.send(
        1, methods.BasicQos(0, 10, False), methods.BasicConsume(0, "s", "t", False, False, False, False, from_first)
    )
    world.run(500)
    bodies = [event.body for event in reader.take() if event.method.name == "basic.deliver"]
    assert bodies == [b"makes it", b"first", b"second"]


def chance_of_groups(seed: int) -> tuple[int, ...]:
    """By group, the worker that has it."""
    return tuple(random.Random(seed).choice(((), (1, 0, 2), (2, 1, 0), (1, 1, 2))))

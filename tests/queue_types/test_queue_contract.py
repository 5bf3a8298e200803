"""What every queue does for a channel (queues/queue.py), of whatever type and wherever it is."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import pytest

from amqp_broker.channel.asking import as_exception
from amqp_broker.queue_types.proxy.command_sink import MOST_FETCHES, CommandSink
from amqp_broker.queue_types.proxy.consumer import ProxyConsumer
from queues.effects import GetAnswered, Refusal
from queues.outcomes import PublishOutcome
from queues.queue import Queue
from tests.node.node_driver import NodeDriver, declare
from tests.queue_types.link_world import LinkWorld, Note, RemoteClient, consume
from tests.queue_types.memory_queue import MemoryQueue
from tests.queues.queue_world import message_named, name_of


class Place(Protocol):
    """Where a queue `q` is used."""

    queue: Any

    def run(self) -> None:
        """Until nothing is on its way."""


class OnNode:
    """Of a node alone."""

    def __init__(self, **arguments: object) -> None:
        self.driver = NodeDriver()
        client = self.driver.client(1)
        client.send(1, declare("q", **arguments))
        self.driver.settle()
        assert client.names() == ["queue.declare-ok"]
        self.queue = self.driver.queue("q")

    def run(self) -> None:
        self.driver.settle()
        self.driver.wait(100)


class OfAnotherNode:
    """Another node is its home."""

    def __init__(self, **arguments: object) -> None:
        self.world = LinkWorld()
        self.driver = self.world.home.driver
        self.world.home.say(declare("q", **arguments))
        self.queue = self.world.nodes["n2"].proxy("q")
        self.queue.settings = self.world.home.queue("q").settings

    def run(self) -> None:
        self.world.run()


class OverStream(OnNode):
    """The messages are those of a stream."""

    def __init__(self, **arguments: object) -> None:
        self.driver = NodeDriver()
        client = self.driver.client(1)
        over: dict[str, object] = {"x_queue_type": "quorum", "x_stream_source": "s", "x_stream_offset": "first"}
        client.send(1, declare("s", x_queue_type="stream"), declare("q", **over, **arguments))
        self.driver.settle()
        assert client.names() == ["queue.declare-ok", "queue.declare-ok"]
        self.queue = self.driver.queue("q")


class InMemory:
    """A toy, in plain Python."""

    def __init__(self) -> None:
        self.queue = MemoryQueue("q", is_late=True)

    def run(self) -> None:
        while self.queue.answer():
            pass


#: Those that run the rules of a queue, with these arguments.
BY_THE_RULES: dict[str, Callable[..., Any]] = {
    "classic": OnNode,
    "quorum": partial(OnNode, x_queue_type="quorum"),
    "cursor": OverStream,
    "remote": OfAnotherNode,
}
KINDS: dict[str, Callable[[], Place]] = {
    "classic": OnNode,
    "quorum": lambda: OnNode(x_queue_type="quorum"),
    "remote": OfAnotherNode,
    "toy": InMemory,
}


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest) -> Place:
    return KINDS[request.param]()


def publish(place: Place, *names: int) -> list[tuple[int, Refusal | None]]:
    """The list gets what a receipt is told."""
    told: list[tuple[int, Refusal | None]] = []
    for name in names:
        place.queue.publish(message_named(name), Note(told, name), False, 1)
    place.run()
    return told


def ready(place: Place) -> int:
    told: list[Exception | None] = []
    place.queue.count(False, told.append)
    place.run()
    assert told == [None]
    return int(place.queue.message_count())


def consuming(place: Place, client: RemoteClient | None = None) -> RemoteClient:
    client = client or RemoteClient()
    consume(place.queue, client)
    place.run()
    return client


def fetch(place: Place, getter: RemoteClient) -> tuple[Any, int]:
    told: list[tuple[Exception | None, Any, int]] = []
    place.queue.fetch(getter, 1, lambda *answer: told.append(answer))
    place.run()
    [(refusal, delivery, left)] = told
    assert refusal is None
    return delivery, left


def test_every_one_is_a_queue(place: Place) -> None:
    assert isinstance(place.queue, Queue)
    assert (place.queue.name, place.queue.is_deleted) == ("q", False)


def test_publish_says_what_has_become_of_it(place: Place) -> None:
    told: list[tuple[int, Refusal | None]] = []
    outcome = place.queue.publish(message_named(1), Note(told, 1), False, 1)
    place.run()
    assert outcome in (PublishOutcome.TAKEN, PublishOutcome.STORED)
    assert told == ([] if place.queue.writes.is_local else [(1, None)])
    assert ready(place) == 1


def test_a_group_publishes_to_its_queues(place: Place) -> None:
    assert place.queue.writes.publish(message_named(1), [place.queue], None, False, 1) >= 0
    place.run()
    assert ready(place) == 1


def test_nothing_is_delivered_before_the_consumer_is_told(place: Place) -> None:
    publish(place, 1, 2)
    client = RemoteClient()
    told: list[tuple[Exception | None, list[int]]] = []
    place.queue.consume(client, lambda refusal: told.append((refusal, client.names)))
    place.run()
    assert told == [(None, [])]
    assert client.names == []
    place.queue.credit_returned(client)
    place.queue.dispatch(1)
    assert client.names == [1, 2]
    publish(place, 3)
    assert client.names == [1, 2, 3]
    client.ack()
    place.run()
    assert (ready(place), place.queue.unacked_count(), place.queue.consumer_count()) == (0, 0, 1)


def test_a_prefetch_that_is_changed(place: Place) -> None:
    publish(place, 1, 2, 3)
    client = consuming(place, RemoteClient(prefetch=1))
    assert client.names == [1]
    client.prefetch = 2
    place.queue.prefetch_changed(client)
    place.queue.credit_returned(client)
    place.queue.dispatch(1)
    place.run()
    if not isinstance(place.queue, MemoryQueue):
        assert client.names == [1, 2]


def test_fetch(place: Place) -> None:
    publish(place, 1, 2)
    getter = RemoteClient()
    delivery, left = fetch(place, getter)
    assert (name_of(delivery.message), delivery.is_redelivered, left) == (1, False, 1)
    assert delivery.consumer is getter
    place.queue.ack(delivery)
    place.run()
    delivery, left = fetch(place, getter)
    assert (name_of(delivery.message), left) == (2, 0)
    assert fetch(place, getter) == (None, 0)


@pytest.mark.parametrize("is_marked", [True, False])
def test_what_comes_back_is_marked_unless_nobody_has_had_it(place: Place, is_marked: bool) -> None:
    publish(place, 1, 2)
    delivery, _ = fetch(place, RemoteClient())
    if is_marked:
        place.queue.put_back([delivery], 1)
    else:
        place.queue.take_back([delivery], 1)
    place.queue.dispatch(1)
    place.run()
    client = consuming(place)
    assert client.got == [(1, is_marked), (2, False)]


def test_very_many_come_back_in_their_order(place: Place) -> None:
    publish(place, 1, 2, 3, 4)
    client = consuming(place)
    held, client.held = client.held, []
    place.queue.cancel(client, False, 1)
    place.queue.dispatch(1)
    deliveries = place.queue.begin_return([held[::-1]])
    while some := [each for each in (next(deliveries, None), next(deliveries, None)) if each is not None]:
        place.queue.put_back(some, 1)
        place.run()
    place.queue.end_return(1)
    place.run()
    assert ready(place) == 4
    assert consuming(place).got == [(1, True), (2, True), (3, True), (4, True)]


@pytest.mark.parametrize("in_slices", [True, False])
def test_who_leaves_gives_back_what_it_has_not_had(place: Place, in_slices: bool) -> None:
    client = consuming(place)
    client.is_paused = True
    publish(place, 1, 2)
    if in_slices:
        parted = place.queue.part(client, 1)
        if parted is not None:
            parted.tell()
    else:
        place.queue.cancel(client, True, 1)
    place.queue.dispatch(1)
    place.run()
    assert place.queue.count_unseen(client) == 0
    assert ready(place) == 2
    assert consuming(place).got == [(1, False), (2, False)]


def test_it_says_when_all_is_settled(place: Place) -> None:
    publish(place, 1)
    delivery, _ = fetch(place, RemoteClient())
    told: list[tuple[int, Refusal | None]] = []
    note = Note(told, 1)
    place.queue.reject(delivery, 1)
    place.queue.when_settled(note, True)
    place.run()
    assert told == ([] if place.queue.writes.is_local else [(1, None)])
    assert (ready(place), place.queue.unacked_count()) == (0, 0)


def test_clear(place: Place) -> None:
    publish(place, 1, 2, 3)
    told: list[tuple[Exception | None, int]] = []
    place.queue.clear(lambda *answer: told.append(answer))
    place.run()
    assert told == [(None, 3)]
    assert ready(place) == 0


@pytest.mark.parametrize("kind", BY_THE_RULES)
def test_who_wants_it_alone_is_refused_in_the_same_words(kind: str) -> None:
    place = BY_THE_RULES[kind]()
    consuming(place)
    see_in_exclusive_use(place, consuming(place, RemoteClient(is_exclusive=True)))
    assert place.queue.consumer_count() == 1 or kind == "remote"


@pytest.mark.parametrize("kind", BY_THE_RULES)
def test_nobody_has_it_alone_where_a_single_consumer_is_active(kind: str) -> None:
    place = BY_THE_RULES[kind](x_single_active_consumer=True)
    see_in_exclusive_use(place, consuming(place, RemoteClient(is_exclusive=True)))
    first, second = consuming(place), consuming(place)
    publish(place, 2)
    assert (first.names, second.names) == ([1, 2], [])


def see_in_exclusive_use(place: Place, client: RemoteClient) -> None:
    assert client.refusal is not None
    error: Any = as_exception(client.refusal)
    assert (error.reply_code, str(error)) == (403, "queue 'q' in vhost '/' in exclusive use")
    publish(place, 1)
    assert client.names == []


class HopefulSink(CommandSink):
    """What is asked of its log is always answered with: none, but there may be one."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[int] = []

    def new_consumer(self) -> int:
        return len(self.asked) + 1

    def submit(self, command: Any, receipt: Any = None) -> int:
        self.asked.append(command.consumer)
        return len(self.asked)


def test_fetch_does_not_go_on_for_ever() -> None:
    """Who asked may be gone long since, and each time is an entry of the log."""
    queue: Any = OnNode(x_queue_type="quorum").queue
    sink, told = HopefulSink(), []
    owner = ProxyConsumer(queue, sink, RemoteClient(), sink.new_consumer(), 0)
    sink.fetch(owner, 1, lambda *answer: told.append(answer))
    for number in range(1, 2 * MOST_FETCHES):
        sink.take_effect(GetAnswered(number, number, 0, None, False, 0, 7))
    assert sink.asked == list(range(1, MOST_FETCHES + 1))
    assert told == [(None, None, 7)]


@pytest.mark.parametrize("kind", BY_THE_RULES)
def test_fetch_comes_to_what_stands_behind_all_that_has_expired(kind: str) -> None:
    """However much more that is than is dropped in one step."""
    place = BY_THE_RULES[kind](x_message_ttl=1000)
    driver = place.driver
    publish(place, *range(1, 6001))
    driver.now += 600
    place.run()
    place.queue.publish(message_named(6001), None, False, driver.now)
    place.run()
    driver.now += 600
    getter, told = RemoteClient(), []
    place.queue.fetch(getter, driver.now, lambda *answer: told.append(answer))
    for _ in range(20):
        place.run()
    [(refusal, delivery, left)] = told
    assert (refusal, left, name_of(delivery.message)) == (None, 0, 6001)

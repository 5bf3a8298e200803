"""A node's use of the classic queues of another: what its channels get of it, and what a lost link means."""

from __future__ import annotations

from typing import Any

import pytest

from amqp_broker.queue_types.remote.counts import PATIENCE_MS, RemoteCounts
from amqp_broker.queue_types.remote.effects_codec import EffectsWriter, QueueCounted
from amqp_broker.queue_types.remote.home_link import FRAME_BYTES, IN_FLIGHT_BYTES
from amqp_broker.queue_types.remote.home_session import CONSUMER_WINDOW_BYTES
from queues.effects import Confirmed, Refusal, Refused
from queues.message import Delivery
from queues.timers import Timers
from raft.errors import PeerProtocolError
from tests.node.node_driver import declare
from tests.queue_types.link_world import LinkWorld, Node, RemoteClient
from tests.queues.queue_world import message_named, name_of


@pytest.fixture
def world() -> LinkWorld:
    made = LinkWorld()
    made.home.say(declare("q"))
    return made


@pytest.fixture
def node(world: LinkWorld) -> Node:
    return world.nodes["n2"]


def test_publish_and_confirm(world: LinkWorld, node: Node) -> None:
    node.publish("q", 1, 2)
    assert node.link.backlog_bytes > 0
    world.step(syncs=False)
    assert node.log == []
    world.run()
    assert (node.confirmed, node.nacked) == ([1, 2], [])
    assert node.link.backlog_bytes == 0
    assert world.home.ready("q") == [1, 2]


def test_one_command_for_several_queues(world: LinkWorld, node: Node) -> None:
    world.home.say(declare("other"))
    world.run()
    node.link.publish(message_named(1), [node.proxy("q"), node.proxy("other")], None, False, 0)
    node.link.end_turn(1)
    assert len(node.out) == 1
    world.run()
    assert world.home.ready("q") == world.home.ready("other") == [1]


def test_a_full_queue_nacks(world: LinkWorld, node: Node) -> None:
    world.home.say(declare("small", x_max_length=1, x_overflow="reject-publish"))
    node.publish("small", 1, 2)
    world.run()
    assert (node.confirmed, node.nacked) == ([1], [(2, "FULL")])


def test_consume_acknowledge(world: LinkWorld, node: Node) -> None:
    node.publish("q", 1, 2, 3)
    client = RemoteClient(prefetch=2)
    node.consume("q", client)
    world.run()
    assert client.got == [(1, False), (2, False)]
    client.ack(1)
    world.run()
    assert client.names == [1, 2, 3]
    client.ack()
    world.run()
    assert (world.home.queue("q").unacked, world.home.ready("q")) == (0, [])


def test_deliveries_before_the_client_knows_wait(world: LinkWorld, node: Node) -> None:
    """The home answers an Attach behind a persistent publish, and delivers before that."""
    node.publish("q", 1)
    client = RemoteClient()
    node.consume("q", client)
    world.step(syncs=False)
    assert client.got == []
    world.run()
    assert client.names == [1]


def test_without_acknowledgements(world: LinkWorld, node: Node) -> None:
    client = RemoteClient(no_ack=True)
    node.consume("q", client)
    node.publish("q", *range(1, 3001))
    world.run(8)
    assert client.names == list(range(1, 3001))
    assert world.home.queue("q").unacked == 0


def test_requeue(world: LinkWorld, node: Node) -> None:
    node.publish("q", 1, 2)
    client = RemoteClient(prefetch=2)
    node.consume("q", client)
    world.run()
    client.return_all()
    world.run()
    assert client.got == [(1, False), (2, False), (1, True), (2, True)]


def test_a_client_that_leaves_gives_back_what_it_has_not_had(world: LinkWorld, node: Node) -> None:
    node.publish("q", 1, 2)
    client = RemoteClient()
    node.consume("q", client)
    world.run()
    client.is_paused = True
    node.publish("q", 3)
    world.run()
    node.proxy("q").cancel(client, False, 0)
    world.run()
    assert world.home.ready("q") == [3]
    assert world.home.queue("q").unacked == 2
    other = RemoteClient()
    node.consume("q", other)
    world.run()
    assert other.got == [(3, False)]


def test_an_exclusive_consumer_is_refused(world: LinkWorld, node: Node) -> None:
    node.consume("q", RemoteClient(is_exclusive=True))
    world.run()
    holder = node.consume("q", RemoteClient())
    world.run()
    assert holder.refusal is Refusal.EXCLUSIVE


def test_the_queue_is_deleted_at_home(world: LinkWorld, node: Node) -> None:
    client = RemoteClient()
    node.consume("q", client)
    world.run()
    proxy = node.proxy("q")
    world.home.node.broker.declarations.remove_queue(world.home.node.broker.vhosts["/"], world.home.queue("q"))
    world.run()
    assert client.is_gone
    assert proxy.consumers == {}


def test_deliveries_of_a_queue_that_is_deleted_here_first(world: LinkWorld, node: Node) -> None:
    client = RemoteClient()
    node.consume("q", client)
    world.run()
    world.home.client.publish(1, "q", b"1 ")
    world.home.turn()
    node.proxy("q").delete()
    assert client.is_gone
    world.run()
    assert client.got == []
    assert (world.home.queue("q").unacked, len(node.link.delivery_owners)) == (0, 0)


def fetched(node: Node, name: str) -> list[tuple[Exception | None, Delivery | None, int]]:
    """basic.get; the list gets what it is answered."""
    answers: list[tuple[Exception | None, Delivery | None, int]] = []
    getter = RemoteClient()
    node.proxy(name).fetch(getter, 0, lambda *answer: answers.append(answer))
    return answers


def test_fetch(world: LinkWorld, node: Node) -> None:
    node.publish("q", 1, 2)
    answers = fetched(node, "q")
    world.run()
    [(refusal, entry, left)] = answers
    assert entry is not None
    assert (refusal, name_of(entry.message), entry.is_redelivered, left) == (None, 1, False, 1)
    node.proxy("q").put_back([entry], 0)
    answers = fetched(node, "q")
    world.run()
    entry = answers[0][1]
    assert entry is not None
    assert entry.is_redelivered
    node.proxy("q").ack(entry)
    world.run()
    assert world.home.ready("q") == [2]


def test_counts(world: LinkWorld, node: Node) -> None:
    node.publish("q", 1, 2, 3)
    node.consume("q", RemoteClient(prefetch=1))
    proxy = node.proxy("q")
    answers: list[Exception | None] = []
    proxy.count(True, answers.append)
    node.publish("q", 4)
    world.run()
    assert answers == [None]
    assert (proxy.message_count(), proxy.unacked_count(), proxy.consumer_count()) == (2, 1, 1)
    assert node.confirmed == [1, 2, 3, 4]


def test_counts_of_a_home_that_is_silent_are_not_waited_for_long(world: LinkWorld, node: Node) -> None:
    proxy = node.proxy("q")
    timers = Timers()
    done: list[str] = []
    counts = RemoteCounts(timers, 0)
    counts.ask(proxy)
    counts.asked().when_done(lambda result: done.append("silent"))
    timers.run(PATIENCE_MS - 1)
    assert done == []
    timers.run(PATIENCE_MS)
    assert done == ["silent"]
    world.run()
    counts = RemoteCounts(timers, 0)
    counts.ask(proxy)
    counts.asked().when_done(lambda result: done.append("counted"))
    world.run()
    timers.run(PATIENCE_MS)
    assert done == ["silent", "counted"]


def test_purge(world: LinkWorld, node: Node) -> None:
    node.publish("q", 1, 2, 3)
    answers: list[tuple[Exception | None, int]] = []
    node.proxy("q").clear(lambda refusal, count: answers.append((refusal, count)))
    world.run()
    assert answers == [(None, 3)]
    assert world.home.ready("q") == []


# -- the link is lost --------------------------------------------------------------------------------------------------


def test_a_lost_link_nacks_what_was_on_its_way(world: LinkWorld, node: Node) -> None:
    node.publish("q", 1)
    world.run()
    node.publish("q", 2)
    world.step(syncs=False)
    node.publish("q", 3)
    world.cut("n2")
    assert (node.confirmed, node.nacked) == ([1], [(2, "UNKNOWN"), (3, "UNKNOWN")])
    assert node.link.backlog_bytes == 0
    assert world.home.ready("q") == [1, 2]


def test_without_a_link_publishes_are_nacked_with_the_turn(world: LinkWorld, node: Node) -> None:
    world.cut("n2")
    node.publish("q", 1)
    assert node.log == []
    world.run()
    assert node.nacked == [(1, "UNKNOWN")]
    assert node.link.backlog_bytes == 0
    world.connect("n2")
    node.publish("q", 2)
    world.run()
    assert node.confirmed == [2]
    assert world.home.ready("q") == [2]


def test_a_lost_link_cancels_consumers_and_gives_back(world: LinkWorld, node: Node) -> None:
    node.publish("q", 1, 2)
    client = RemoteClient()
    node.consume("q", client)
    world.run()
    first, second = client.held
    proxy = node.proxy("q")
    world.cut("n2")
    assert client.is_gone
    assert world.home.ready("q") == [1, 2]
    world.connect("n2")
    again = RemoteClient()
    node.consume("q", again)
    world.run()
    proxy.ack(first)
    proxy.reject(second, 0)
    world.run()
    assert again.got == [(1, True), (2, True)]
    assert world.home.queue("q").unacked == 2


@pytest.mark.parametrize("is_cut_before", [True, False])
def test_who_waits_for_an_answer_is_told(world: LinkWorld, node: Node, is_cut_before: bool) -> None:
    def ask_all() -> list[Any]:
        told: list[Any] = []
        proxy.fetch(RemoteClient(), 0, lambda refusal, delivery, left: told.append(refusal))
        proxy.count(True, told.append)
        proxy.clear(lambda refusal, count: told.append(refusal))
        proxy.consume(RemoteClient(), told.append)
        return told

    proxy = node.proxy("q")
    if is_cut_before:
        world.cut("n2")
        told = ask_all()
        assert len(told) == 3  # that there is no way is known at once
    else:
        ask_all()
        world.step(syncs=False)
        node.publish("q", 1)
        told = ask_all()
        world.cut("n2")
    world.run()
    text = "home node 'n1' of durable queue 'q' in vhost '/' is down or inaccessible"
    assert [(each.reply_code, str(each)) for each in told] == 4 * [(404, text)]
    assert proxy.consumers == {}


def test_numbers_of_consumers_go_on(world: LinkWorld, node: Node) -> None:
    client = RemoteClient()
    first = node.consume("q", client).number
    world.run()
    world.cut("n2")
    world.connect("n2")
    assert node.consume("q", RemoteClient()).number > first


# -- what is on its way ------------------------------------------------------------------------------------------------


def test_no_more_is_sent_than_the_home_confirms(world: LinkWorld, node: Node) -> None:
    count = 3 * IN_FLIGHT_BYTES // 100_000
    node.publish("q", *range(count), body_size=100_000, is_persistent=False)
    node.link.end_turn(1)
    assert IN_FLIGHT_BYTES - 200_000 < sum(map(len, node.out)) <= IN_FLIGHT_BYTES + 100_000
    node.link.end_turn(1)
    assert sum(map(len, node.out)) <= IN_FLIGHT_BYTES + 100_000
    world.run(6)
    assert node.confirmed == list(range(count))


def test_a_count_stays_in_its_place(world: LinkWorld, node: Node) -> None:
    node.publish("q", 1)
    counted: list[int] = []
    proxy = node.proxy("q")
    for number in range(2, 5):
        proxy.count(True, lambda refusal: counted.append(proxy.message_count()))
        node.publish("q", number)
    world.run()
    assert counted == [1, 2, 3]
    assert node.confirmed == [1, 2, 3, 4]


def test_a_turn_of_more_than_a_frame(world: LinkWorld, node: Node) -> None:
    """Frames are full and not too large, and what has a receipt beside others gets its own fate."""
    small = {"x_max_length": 1, "x_overflow": "reject-publish"}
    world.home.say(declare("small", **small))
    proxy = node.proxy("q")
    for number in range(0, 60, 2):
        proxy.publish(message_named(number, 20_000), None, False, 0)
        node.publish("small" if number in (20, 30, 40) else "q", number + 1, body_size=20_000)
    world.end_turn("n2")
    assert len(node.out) == 2 + 60 * 20_000 // FRAME_BYTES  # the session's first, and one that is not full
    assert max(map(len, node.out)) <= FRAME_BYTES + 100
    world.run()
    assert node.nacked == [(31, "FULL"), (41, "FULL")]
    assert node.confirmed == [number for number in range(1, 60, 2) if number not in (31, 41)]
    assert world.home.ready("q") == [number for number in range(60) if number not in (21, 31, 41)]
    assert node.link.backlog_bytes == 0


def test_a_run_is_confirmed_in_parts(world: LinkWorld, node: Node) -> None:
    """A home may confirm any number of commands, wherever the frames ended."""
    node.publish("q", 1, 2, 3)
    node.proxy("q").publish(message_named(4), None, False, 0)
    world.end_turn("n2")
    assert len(node.out) == 2
    sent = node.link.backlog_bytes
    node.link.receive_effects(frame(world, Confirmed(0, 1, 2, (Refused(2, Refusal.FULL),))), 1)
    assert node.log == [(1, None), (2, Refusal.FULL)]
    assert node.link.backlog_bytes == sent
    node.publish("q", 5)
    world.end_turn("n2")
    node.link.receive_effects(frame(world, Confirmed(0, 3, 3, ())), 1)
    assert node.log[2:] == [(3, None)]
    with pytest.raises(PeerProtocolError, match="3 were confirmed, 5 were sent"):
        node.link.receive_effects(frame(world, Confirmed(0, 4, 6, ())), 1)
    world.cut("n2")
    assert node.log[3:] == [(5, Refusal.UNKNOWN)]
    assert node.link.backlog_bytes == 0


def test_what_comes_before_the_link_in_its_turn_is_of_its_session(world: LinkWorld, node: Node) -> None:
    world.cut("n2")
    node.publish("q", 1)
    world.connect("n2")
    node.publish("q", 2)
    world.run()
    assert node.confirmed == [1, 2]
    assert world.home.ready("q") == [1, 2]


def test_a_message_larger_than_everything_goes_alone(world: LinkWorld, node: Node) -> None:
    node.publish("q", 1)
    node.publish("q", 2, body_size=2 * IN_FLIGHT_BYTES)
    node.publish("q", 3)
    client = RemoteClient()
    node.consume("q", client)
    world.run(10)
    assert node.confirmed == [1, 2, 3]
    assert client.names == [1, 2, 3]


def test_a_client_that_reads_nothing_keeps_little_and_no_other_waiting(world: LinkWorld, node: Node) -> None:
    world.home.say(declare("other"))
    slow, fast = RemoteClient(), RemoteClient(no_ack=True)
    holder = node.consume("q", slow)
    node.consume("other", fast)
    world.run()
    slow.is_paused = True
    size = CONSUMER_WINDOW_BYTES // 10
    node.publish("q", *range(100), body_size=size)
    node.publish("other", *range(100), body_size=size)
    world.run(60)
    assert fast.names == list(range(100))
    assert slow.names == []
    assert CONSUMER_WINDOW_BYTES <= holder.waiting_bytes < CONSUMER_WINDOW_BYTES + 2 * size
    slow.is_paused = False
    for _ in range(60):
        node.proxy("q").credit_returned(slow)
        node.proxy("q").dispatch(0)
        world.run(2)
    assert slow.names == list(range(100))


def test_what_was_fetched_is_off_the_link(world: LinkWorld, node: Node) -> None:
    size = 1024 * 1024
    node.publish("q", *range(12), body_size=size, is_persistent=False)
    answers = [fetched(node, "q") for _ in range(12)]
    world.run(20)
    assert all(answer[0][1] is not None for answer in answers)
    client = RemoteClient()
    node.consume("q", client)
    node.publish("q", 99)
    world.run()
    assert client.names == [99]


def test_publishers_wait_while_the_home_is_short(world: LinkWorld, node: Node) -> None:
    world.home.is_blocked = True
    world.run()
    assert node.link.is_blocked
    node.publish("q", 1)
    world.run()
    assert node.confirmed == [1]  # what is on its way is taken
    world.cut("n2")
    assert not node.link.is_blocked
    world.connect("n2")
    world.run()
    assert node.link.is_blocked
    world.home.is_blocked = False
    world.run()
    assert not node.link.is_blocked


# -- a home that breaks the rules --------------------------------------------------------------------------------------


def frame(world: LinkWorld, effect: Confirmed | QueueCounted) -> bytes:
    writer = EffectsWriter(world.nodes["n2"].link.session)
    writer.put(effect)
    return writer.take()[0]


@pytest.mark.parametrize(
    ("effect", "reason"),
    [
        (Confirmed(0, 2, 2, ()), "confirms commands 2 to 2"),
        (Confirmed(0, 1, 2, ()), "0 were confirmed, 1 were sent"),
        (QueueCounted(1, 1, 1, 1, 1), "was not asked"),
    ],
)
def test_a_home_that_breaks_the_rules_loses_its_link(
    world: LinkWorld, node: Node, effect: Confirmed | QueueCounted, reason: str
) -> None:
    node.publish("q", 1)
    world.end_turn("n2")
    node.publish("q", 2)
    with pytest.raises(PeerProtocolError, match=reason):
        node.link.receive_effects(frame(world, effect), 1)
    with pytest.raises(PeerProtocolError, match="n1: frame from a home node"):
        node.link.receive_effects(b"\x02", 1)


def test_effects_of_an_older_session_mean_nothing(world: LinkWorld, node: Node) -> None:
    late = frame(world, Confirmed(0, 1, 1, ()))
    world.cut("n2")
    node.link.receive_effects(late, 1)
    world.connect("n2")
    node.publish("q", 1)
    world.end_turn("n2")
    node.link.receive_effects(late, 1)
    assert node.log == []


def test_what_waits_for_the_home_leaves_in_full_frames(world: LinkWorld, node: Node) -> None:
    """However many turns it has come in."""
    large, small = IN_FLIGHT_BYTES // 100_000 + 1, 400
    node.publish("q", *range(large), body_size=100_000, is_persistent=False)
    node.link.end_turn(1)
    before = node.frames
    for number in range(small):
        node.publish("q", large + number, body_size=10_000, is_persistent=False)
        node.link.end_turn(1)
    assert node.frames == before
    world.run(6)
    assert node.confirmed == list(range(large + small))
    assert node.frames - before < 20 + small * 10_000 // FRAME_BYTES

"""Queue groups on some of the nodes: guests publish, consume, get and acknowledge at whoever leads."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from amqp_broker.metadata import commands
from amqp_broker.protocol import methods
from amqp_broker.protocol.frames import encode_method_frame
from amqp_broker.protocol.properties import encode_properties
from amqp_broker.queue_types.groups.guest_counts import COUNT_MS
from amqp_broker.queue_types.groups.guest_frames import GOES_ON, Effects, decode_answer
from queues.background import SLICE
from queues.quorum.commands import How, Settle
from tests.node.node_cluster import NodeCluster
from tests.node.node_driver import consume, declare, frame_octets
from tests.queue_types.test_quorum_cluster import CONFIRM, answer, bodies, confirmed, publish
from tests.queues.quorum.digest import digest_of

GROUP = 1


def settle(cluster: NodeCluster) -> None:
    """Until the group is where the metadata say, and everybody knows what it is."""
    for _ in range(60):
        wanted = set(listed(cluster))
        voters = {name for name, driver in cluster.nodes.items() if not group(driver).raft.is_outside}
        guests = {name for name, driver in cluster.nodes.items() if group(driver).guest is not None}
        up = set(cluster.nodes)
        if voters == wanted & up and guests == up - wanted and all(group(d).leader for d in cluster.nodes.values()):
            return
        cluster.run(100)
    raise AssertionError((wanted, voters, guests))


def group(driver: Any) -> Any:
    return driver.node.groups.all[GROUP]


def listed(cluster: NodeCluster) -> tuple[str, ...]:
    driver = next(iter(cluster.nodes.values()))
    return driver.node.broker.metadata.group_members(GROUP)


def guest_of(cluster: NodeCluster) -> str:
    return next(name for name in cluster.nodes if name not in listed(cluster))


def put_list(cluster: NodeCluster, *nodes: str) -> None:
    leader = cluster.nodes[cluster.leader()].node
    leader.replication.propose(commands.put_group_members(GROUP, nodes, listed(cluster)))
    cluster.run(50)
    settle(cluster)


@pytest.fixture
def cluster() -> NodeCluster:
    made = NodeCluster(4, queue_groups=1, quorum_size=3)
    made.run_until_ready()
    settle(made)
    answer(made, made.nodes["n1"].client(1), declare("q", x_queue_type="quorum"))
    return made


def members_agree(cluster: NodeCluster) -> None:
    machines = [group(d).machine for d in cluster.nodes.values() if group(d).guest is None]
    assert len({digest_of(machine) for machine in machines}) == 1


def test_a_guest_has_nothing_of_the_group_and_uses_it_all_the_same(cluster: NodeCluster) -> None:
    guest = guest_of(cluster)
    client = cluster.nodes[guest].client(1)
    answer(cluster, client, CONFIRM)
    publish(client, b"one", b"two", b"three")
    cluster.run(100)
    assert confirmed(client) == 3
    assert not group(cluster.nodes[guest]).machine.queue_ids()
    (got,) = answer(cluster, client, methods.BasicGet(0, "q", True))
    assert got.name == "basic.get-ok"
    assert got.message_count == 2
    (ok,) = answer(cluster, client, methods.QueueDeclare(0, "q", True, False, False, False, False, {}))
    assert ok.message_count == 2
    client.send(1, consume("q"))
    cluster.run(100)
    assert bodies(client) == [b"two", b"three"]
    client.send(1, methods.BasicAck(3, True))
    cluster.run(200)
    leader = cluster.nodes[cluster.leader(GROUP)]
    assert (leader.queue("q").message_count(), leader.queue("q").unacked_count()) == (0, 0)
    (purged,) = answer(cluster, client, methods.QueuePurge(0, "q", False))
    assert purged.message_count == 0
    members_agree(cluster)


def test_what_a_guest_was_confirmed_outlives_the_leader(cluster: NodeCluster) -> None:
    guest = guest_of(cluster)
    client = cluster.nodes[guest].client(1)
    answer(cluster, client, CONFIRM, consume("q"))
    sent = [b"%d" % number for number in range(30)]
    publish(client, *sent[:10])
    cluster.run(20)
    cluster.kill(cluster.leader(GROUP))
    publish(client, *sent[10:])
    cluster.run(4000)
    found = client.take()
    assert max(event.method.delivery_tag for event in found if event.method.name == "basic.ack") == 30
    assert [event.body for event in found if event.method.name == "basic.deliver"] == sent
    members_agree(cluster)


def test_a_numbered_producer_of_a_guest_is_heard_once_over_a_change_of_leaders(cluster: NodeCluster) -> None:
    guest = guest_of(cluster)
    client = cluster.nodes[guest].client(1)
    answer(cluster, client, CONFIRM)
    for number in range(1, 6):
        publish(client, b"%d" % number, headers={"x-producer-id": "p", "x-producer-sequence": number})
    cluster.run(10)
    leader = cluster.leader(GROUP)
    cluster.cut(guest, leader)
    cluster.run(300)
    cluster.heal()
    cluster.run(1500)
    assert confirmed(client) == 5
    cluster.kill(cluster.leader(GROUP))
    cluster.run(3000)
    publish(client, b"5", headers={"x-producer-id": "p", "x-producer-sequence": 5})
    cluster.run(500)
    queue = cluster.nodes[cluster.leader(GROUP)].queue("q")
    assert queue.message_count() == 5
    assert confirmed(client) == 6


@pytest.mark.parametrize("is_member", [False, True])
def test_a_consumer_that_its_node_has_forgotten_is_ended(
    cluster: NodeCluster, is_member: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """However many deliveries come for it: it is said once, and what it was given goes to others."""
    guest = guest_of(cluster)
    name = next(each for each in cluster.names if (each != guest) is is_member)
    client = cluster.nodes[name].client(1)
    answer(cluster, client, consume("q"))
    here = group(cluster.nodes[name])
    here.delivery_owners.clear()
    sent = [b"%d" % number for number in range(50)]
    publish(cluster.nodes["n1"].client(1), *sent[:40])
    cluster.run(500)
    assert caplog.text.count("is not known here") == 1
    assert here.strayed == 40
    other = cluster.nodes["n2"].client(1)
    other.send(1, consume("q"))
    publish(cluster.nodes["n1"].client(1), *sent[40:])
    cluster.run(500)
    assert [event.body for event in other.take() if event.method.name == "basic.deliver"] == sent
    assert here.strayed == 40
    members_agree(cluster)


def test_a_member_that_leaves_goes_on_as_a_guest(cluster: NodeCluster) -> None:
    leader = cluster.leader(GROUP)
    leaving = next(name for name in listed(cluster) if name != leader)
    client = cluster.nodes[leaving].client(1)
    answer(cluster, client, CONFIRM, consume("q"))
    publish(client, b"before")
    cluster.run(50)
    rest = [name for name in cluster.names if name != leaving]
    publish(client, b"while")
    put_list(cluster, *rest)
    publish(client, b"after")
    cluster.run(300)
    found = client.take()
    assert [event.body for event in found if event.method.name == "basic.deliver"] == [b"before", b"while", b"after"]
    assert max(event.method.delivery_tag for event in found if event.method.name == "basic.ack") == 3
    client.send(1, methods.BasicAck(3, True))
    cluster.run(300)
    assert cluster.nodes[cluster.leader(GROUP)].queue("q").unacked_count() == 0
    assert group(cluster.nodes[leaving]).raft.members == ()


def test_a_guest_that_becomes_a_member_goes_on(cluster: NodeCluster) -> None:
    guest = guest_of(cluster)
    client = cluster.nodes[guest].client(1)
    answer(cluster, client, CONFIRM, consume("q"))
    publish(client, b"before")
    cluster.run(50)
    leader = cluster.leader(GROUP)
    put_list(cluster, guest, *[name for name in listed(cluster) if name != leader])
    publish(client, b"after")
    cluster.run(300)
    found = client.take()
    assert [event.body for event in found if event.method.name == "basic.deliver"] == [b"before", b"after"]
    assert max(event.method.delivery_tag for event in found if event.method.name == "basic.ack") == 2
    client.send(1, methods.BasicAck(2, True))
    cluster.run(300)
    assert cluster.nodes[cluster.leader(GROUP)].queue("q").unacked_count() == 0
    members_agree(cluster)


def test_a_guest_that_starts_again_is_a_guest_with_a_new_session(cluster: NodeCluster) -> None:
    guest = guest_of(cluster)
    client = cluster.nodes[guest].client(1)
    answer(cluster, client, CONFIRM)
    publish(client, b"one")
    cluster.run(100)
    client.send(1, consume("q"))
    cluster.run(100)
    assert bodies(client) == [b"one"]
    cluster.revive(guest, cluster.kill(guest))
    cluster.run(1500)
    settle(cluster)
    client = cluster.nodes[guest].client(1)
    client.send(1, consume("q"))
    cluster.run(300)
    assert bodies(client) == [b"one"]


def test_a_member_that_left_keeps_its_term_and_does_not_vote(cluster: NodeCluster) -> None:
    leader = cluster.leader(GROUP)
    leaving = next(name for name in listed(cluster) if name != leader)
    term = group(cluster.nodes[leader]).raft.term
    put_list(cluster, *[name for name in cluster.names if name != leaving])
    driver = cluster.nodes[leaving]
    assert group(driver).raft.term >= term
    cluster.revive(leaving, cluster.kill(leaving))
    cluster.run(1500)
    settle(cluster)
    raft = group(cluster.nodes[leaving]).raft
    assert raft.is_outside
    assert raft.last_index == 0
    assert raft.term >= term
    cluster.isolate(leaving)
    cluster.run(3000)
    assert group(cluster.nodes[leaving]).raft.term == raft.term
    assert not raft.is_leader


def publish_large(client: Any, size: int) -> None:
    octets = encode_method_frame(1, methods.BasicPublish(0, "", "q", False, False))
    octets += frame_octets(2, 1, b"\x00\x3c\x00\x00" + size.to_bytes(8, "big") + encode_properties({}))
    for start in range(0, size, 4000):
        octets += frame_octets(3, 1, b"x" * min(4000, size - start))
    client.send_octets(octets)


def test_what_is_refused_is_not_confirmed_where_only_a_part_of_its_entry_came(cluster: NodeCluster) -> None:
    guest = guest_of(cluster)
    client = cluster.nodes[guest].client(1)
    answer(cluster, client, declare("full", x_queue_type="quorum", x_max_length=1, x_overflow="reject-publish"))
    answer(cluster, client, CONFIRM)
    publish_large(client, 300_000)
    publish(client, b"first", key="full")
    cluster.run(200)
    assert confirmed(client) == 2
    leader = cluster.leader(GROUP)
    feeds = group(cluster.nodes[leader]).feeds
    send, heard = feeds._send, []

    def only_the_first(name: str, octets: bytes) -> bool:
        frame = decode_answer(octets)
        if isinstance(frame, Effects):
            heard.append(frame)
        return len(heard) > 1 or bool(send(name, octets))

    feeds._send = only_the_first
    publish(client, b"second", key="full")
    client.send(1, methods.BasicGet(0, "q", True))
    cluster.run(50)
    assert [frame.at == GOES_ON for frame in heard] == [True, False]
    feeds._send = send
    cluster.cut(guest, leader)
    cluster.run(20)
    cluster.heal()
    cluster.run(1000)
    found = sorted(event.method.name for event in client.take())
    assert found == ["basic.get-ok", "basic.nack"]


def delete(**conditions: bool) -> methods.Method:
    return methods.QueueDelete(0, "q", conditions.get("if_unused", False), conditions.get("if_empty", False), False)


def closed(client: Any) -> str:
    """Why the client's channel was closed."""
    (close,) = [event.method for event in client.take() if event.method.name == "channel.close"]
    return f"{close.reply_code} {close.reply_text}"


@pytest.mark.parametrize(("condition", "why"), [("if_empty", "not empty"), ("if_unused", "in use")])
def test_a_guest_without_a_leader_asks_the_next_one_before_it_deletes(
    cluster: NodeCluster, condition: str, why: str
) -> None:
    guest, leader = guest_of(cluster), cluster.leader(GROUP)
    busy = cluster.nodes[leader].client(1)
    if condition == "if_empty":
        publish(busy, b"one")
        cluster.run(100)
    else:
        answer(cluster, busy, consume("q"))
    cluster.cut(guest, leader)
    client = cluster.nodes[guest].client(1)
    client.send(1, delete(**{condition: True}))
    cluster.run(300)
    assert not client.take()
    cluster.heal()
    cluster.run(500)
    assert closed(client) == f"406 PRECONDITION_FAILED - queue 'q' in vhost '/' {why}"


@pytest.mark.parametrize("asked_after_ms", [0, 50, 300, 700])
def test_who_was_a_member_until_just_now_does_not_delete_what_is_not_empty(
    cluster: NodeCluster, asked_after_ms: int
) -> None:
    """It has heard nothing since it was removed, forgets what it had, and is a guest when it hears again."""
    leader = cluster.leader(GROUP)
    leaving = next(name for name in listed(cluster) if name != leader)
    publish(cluster.nodes[leader].client(1), b"one", b"two")
    cluster.run(200)
    client = cluster.nodes[leaving].client(1)
    rest = [name for name in cluster.names if name != leaving]
    proposals = cluster.nodes[cluster.leader()].node.replication
    proposals.propose(commands.put_group_members(GROUP, rest, listed(cluster)))
    while leaving in group(cluster.nodes[leader]).raft.members:
        cluster.run(10)
    cluster.run(asked_after_ms)
    client.send(1, delete(if_empty=True))
    cluster.run(2000)
    assert closed(client) == "406 PRECONDITION_FAILED - queue 'q' in vhost '/' not empty"
    assert group(cluster.nodes[leaving]).guest is not None


def test_a_guest_to_which_nobody_says_what_a_queue_holds_does_not_delete_it(cluster: NodeCluster) -> None:
    guest, leader = guest_of(cluster), cluster.leader(GROUP)
    publish(cluster.nodes[leader].client(1), b"one")
    cluster.run(100)
    cluster.cut(guest, leader)
    client = cluster.nodes[guest].client(1)
    client.send(1, delete(if_empty=True))
    cluster.run(1500)
    told = closed(client)
    assert told.startswith("406 PRECONDITION_FAILED - what queue 'q' in vhost '/' holds and who consumes from it is")
    assert all(name in told for name in listed(cluster))
    cluster.heal()
    cluster.run(500)
    client.send(1, methods.ChannelCloseOk())
    client.send(1, methods.ChannelOpen())
    cluster.run(20)
    client.take()
    client.send(1, delete(if_empty=True))
    cluster.run(300)
    assert closed(client) == "406 PRECONDITION_FAILED - queue 'q' in vhost '/' not empty"


@pytest.mark.parametrize("queue_type", ["quorum", "classic"])
def test_a_queue_made_anew_while_the_one_before_was_asked_is_asked_too(cluster: NodeCluster, queue_type: str) -> None:
    guest, leader = guest_of(cluster), cluster.leader(GROUP)
    other = cluster.nodes[leader].client(1)
    client = cluster.nodes[guest].client(1)
    vhost = cluster.nodes[guest].node.broker.vhosts["/"]
    asked = vhost.find_queue("q")
    assert asked is not None
    answers: list[Any] = []
    asked.count_for_certain = answers.append  # type: ignore[method-assign]
    client.send(1, delete(if_empty=True))
    cluster.run(20)
    answer(cluster, other, delete())
    answer(cluster, other, declare("q", x_queue_type=queue_type))
    publish(other, b"one")
    cluster.run(200)
    assert vhost.find_queue("q") not in (None, asked)
    (told,) = answers
    told(None)
    cluster.run(500)
    assert closed(client) == "406 PRECONDITION_FAILED - queue 'q' in vhost '/' not empty"


def test_questions_of_a_guest_that_nobody_answers_are_given_up_in_slices(cluster: NodeCluster) -> None:
    guest, leader = guest_of(cluster), cluster.leader(GROUP)
    driver = cluster.nodes[guest]
    cluster.cut(guest, leader)
    cluster.run(20)
    counts = group(driver).guest.counts
    answers: list[Any] = []
    asked_at = cluster.now
    for _ in range(2 * SLICE + 1):
        counts.count(1, answers.append, True, asked_at)
    assert counts.next_deadline() == asked_at + COUNT_MS
    counts.work(asked_at + COUNT_MS)
    job = driver.node.background.jobs[-1]
    for done in (SLICE, 2 * SLICE, 2 * SLICE + 1):
        assert job(asked_at + COUNT_MS) == (done <= 2 * SLICE)
        assert answers == [None] * done
    driver.node.background.remove(job)


OPENED = {
    "quorum": ([declare("w", x_queue_type="quorum")], {"consumer_timeout": 7000}),
    "stream": ([declare("w", x_queue_type="stream")], {"max_age": 7}),
    "over a stream": (
        [declare("s", x_queue_type="stream"), declare("w", x_queue_type="quorum", x_stream_source="s")],
        {"consumer_timeout": 7000},
    ),
}


def stale_opening(cluster: NodeCluster, declared: str) -> tuple[Any, Any, Any]:
    """Of a guest that knows less of the queue `w`: what makes it; the machine of the leader; and what is wanted."""
    declares, other = OPENED[declared]
    leader = cluster.leader(GROUP)
    client = cluster.nodes[leader].client(1)
    for each in declares:
        answer(cluster, client, each)
    cluster.run(200)
    machine = group(cluster.nodes[leader]).machine
    queue = cluster.nodes[guest_of(cluster)].queue("w")
    wanted = machine.settings_of(queue.queue_id)
    assert wanted == queue.wanted
    return queue.open_command()._replace(settings=replace(wanted, **other)), machine, wanted


def settings_while(cluster: NodeCluster, machine: Any, queue_id: int) -> list[Any]:
    """What is in force at the leader, step by step."""
    seen = []
    for _ in range(20):
        cluster.step()
        seen.append(machine.settings_of(queue_id))
    return seen


@pytest.mark.parametrize("declared", OPENED)
def test_a_guest_that_knows_less_changes_nothing(cluster: NodeCluster, declared: str) -> None:
    stale, machine, wanted = stale_opening(cluster, declared)
    of_guest = group(cluster.nodes[guest_of(cluster)])
    of_guest.submit(Settle(1, How.ACK, ((1, 1),)))  # something before it in the turn
    of_guest.submit_opening(stale)
    assert set(map(repr, settings_while(cluster, machine, stale.queue_id))) == {repr(wanted)}
    assert not of_guest.stream.unapplied


@pytest.mark.parametrize("declared", OPENED)
def test_what_is_set_back_all_the_same_the_leader_sets_right(cluster: NodeCluster, declared: str) -> None:
    """Also if it has lost the guest meanwhile."""
    stale, machine, wanted = stale_opening(cluster, declared)
    guest = guest_of(cluster)
    group(cluster.nodes[guest]).submit(Settle(1, How.ACK, ((1, 1),)))
    group(cluster.nodes[guest]).submit(stale)
    cluster.step()
    cluster.cut(guest, cluster.leader(GROUP))
    assert stale.settings in settings_while(cluster, machine, stale.queue_id)
    cluster.run(100)
    assert machine.settings_of(stale.queue_id) == wanted


def test_a_stream_that_was_deleted_before_it_was_opened_goes_again(cluster: NodeCluster) -> None:
    guest, leader = guest_of(cluster), cluster.leader(GROUP)
    client = cluster.nodes[guest].client(1)
    answer(cluster, client, declare("s", x_queue_type="stream"))
    queue = cluster.nodes[guest].queue("s")
    command, machine = queue.open_command(), group(cluster.nodes[leader]).machine
    answer(cluster, client, methods.QueueDelete(0, "s", False, False, False))
    cluster.run(200)
    assert machine.settings_of(queue.queue_id) is None
    group(cluster.nodes[guest]).submit(command)
    cluster.run(200)
    assert machine.settings_of(queue.queue_id) is None


def test_who_is_taken_off_the_list_before_it_votes_forgets_its_copy(cluster: NodeCluster) -> None:
    """And goes on as the guest that it has been all the time."""
    guest, leader = guest_of(cluster), cluster.leader(GROUP)
    before = listed(cluster)
    client = cluster.nodes[guest].client(1)
    answer(cluster, client, CONFIRM)
    publish(client, b"one", b"two")
    cluster.run(100)
    assert confirmed(client) == 2
    learner, leads = group(cluster.nodes[guest]), group(cluster.nodes[leader]).raft
    replication = cluster.nodes[cluster.leader()].node.replication
    replication.propose(commands.put_group_members(GROUP, [*before, guest], before))
    for _ in range(100):
        cluster.run(10)
        if learner.raft.last_index:
            break
    cluster.stall(guest)  # nothing gets to its disk: it cannot catch up
    cluster.run(1500)
    assert leads.learners == (guest,)
    assert learner.raft.last_index > 0
    replication.propose(commands.put_group_members(GROUP, before, [*before, guest]))
    cluster.run(1500)
    assert leads.learners == ()
    cluster.release(guest)
    cluster.run(1500)
    assert learner.raft.is_outside
    assert learner.raft.last_index == 0
    assert not learner.machine.queue_ids()
    publish(client, b"three")
    cluster.run(200)
    assert confirmed(client) == 3
    (got,) = answer(cluster, client, methods.BasicGet(0, "q", True))
    assert got.message_count == 2

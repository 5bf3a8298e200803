"""Quorum queues of a cluster: clients of any node, leaders that go, nodes that are cut off and come back."""

from __future__ import annotations

from typing import Any

import pytest

from amqp_broker.metadata import commands
from amqp_broker.protocol import methods
from amqp_broker.protocol.fields import Table
from amqp_broker.protocol.frames import encode_method_frame
from amqp_broker.protocol.properties import encode_properties
from queues.background import SLICE
from queues.page import AddressBook
from queues.quorum.commands import OpenQueue, decode_batch
from queues.quorum.settings import QuorumSettings
from raft.member import Member
from tests.node.node_cluster import NodeCluster
from tests.node.node_driver import Client, NodeDriver, consume, declare, frame_octets, small_config
from tests.queues.quorum.digest import digest_of

CONFIRM = methods.ConfirmSelect(False)


@pytest.fixture
def cluster() -> NodeCluster:
    made = NodeCluster(queue_groups=1)
    made.run_until_ready()
    answer(made, made.nodes["n1"].client(1), declare("q", x_queue_type="quorum"))
    return made


def answer(cluster: NodeCluster, client: Client, *said: Any) -> list[Any]:
    """What a client is answered, as methods."""
    client.send(1, *said)
    cluster.run(100)
    return [event.method for event in client.take()]


def names(found: list[Any]) -> list[str]:
    return [method.name for method in found]


def bodies(client: Client) -> list[bytes]:
    """The bodies of what was delivered; the rest is forgotten."""
    return [event.body for event in client.take() if event.method.name == "basic.deliver"]


def confirmed(client: Client) -> int:
    """Up to which publish a client has confirms, without a refusal; what it heard is forgotten."""
    tags = [0]
    for event in client.take():
        assert event.method.name == "basic.ack", event.method
        tags.append(event.method.delivery_tag)
    return max(tags)


def follower(cluster: NodeCluster) -> str:
    leader = cluster.leader(1)
    return next(name for name in cluster.nodes if name != leader)


def counts(cluster: NodeCluster, name: str = "q") -> set[tuple[int, int, int]]:
    """(ready, unacknowledged, consumers) as the nodes see it: one item if they agree."""
    queues = [driver.queue(name) for driver in cluster.nodes.values()]
    return {(queue.message_count(), queue.unacked_count(), queue.consumer_count()) for queue in queues}


def counts_at(cluster: NodeCluster, node: str) -> tuple[int, int, int]:
    queue = cluster.nodes[node].queue("q")
    return queue.message_count(), queue.unacked_count(), queue.consumer_count()


def agree(cluster: NodeCluster) -> None:
    """All machines are in the same state."""
    machines = [driver.node.groups.all[1].machine for driver in cluster.nodes.values()]
    assert len({digest_of(machine) for machine in machines}) == 1


def publish(client: Client, *sent: bytes, exchange: str = "", key: str = "q", **properties: Any) -> None:
    for body in sent:
        section = encode_properties({"delivery_mode": 2, **properties})
        octets = encode_method_frame(1, methods.BasicPublish(0, exchange, key, False, False))
        octets += frame_octets(2, 1, b"\x00\x3c\x00\x00" + len(body).to_bytes(8, "big") + section)
        client.send_octets(octets + frame_octets(3, 1, body))


def last_index(cluster: NodeCluster) -> int:
    leader = cluster.nodes[cluster.leader(1)]
    return int(leader.node.groups.all[1].raft.last_index)


@pytest.mark.parametrize(("prefetch", "rests"), [(0, True), (3, True), (2, False), (1, False)])
def test_an_acknowledgement_rests_while_nobody_waits_for_it(cluster: NodeCluster, prefetch: int, rests: bool) -> None:
    client = cluster.nodes[cluster.leader(1)].client(1)
    answer(cluster, client, CONFIRM, methods.BasicQos(0, prefetch, False), consume("q", no_ack=False))
    publish(client, b"1")
    cluster.run(100)
    client.take()
    before = last_index(cluster)
    client.send(1, methods.BasicAck(1, False))
    cluster.step()
    assert last_index(cluster) == before + (not rests)
    cluster.run(100)
    assert last_index(cluster) == before + 1
    assert counts(cluster) == {(0, 0, 1)}


@pytest.mark.parametrize(("unacked", "rest_ms"), [(9, 2), (4, 20)])
def test_an_acknowledgement_rests_shortly_where_the_consumer_holds_much(
    cluster: NodeCluster, unacked: int, rest_ms: int
) -> None:
    """The log gives the consumer more only when it knows of the acknowledgement."""
    leader = cluster.nodes[cluster.leader(1)]
    client = leader.client(1)
    answer(cluster, client, CONFIRM, methods.BasicQos(0, 10, False), consume("q", no_ack=False))
    publish(client, *numbers(1, unacked))
    cluster.run(100)
    before = last_index(cluster)
    client.send(1, methods.BasicAck(1, False))
    leader.turn()
    for passed in (rest_ms - 1, 1):
        assert last_index(cluster) == before
        leader.now += passed
        leader.node.tick(leader.now)
        leader.turn()
    assert last_index(cluster) == before + 1


def test_an_acknowledgement_does_not_rest_on_when_deliveries_use_up_the_prefetch(cluster: NodeCluster) -> None:
    leader = cluster.nodes[cluster.leader(1)]
    client = leader.client(1)
    answer(cluster, client, CONFIRM, methods.BasicQos(0, 10, False), consume("q", no_ack=False))
    publish(client, b"1")
    cluster.run(100)
    client.send(1, methods.BasicAck(1, False))
    leader.turn()
    group = leader.node.groups.all[1]
    assert (group.rest_ms, len(group.settling)) == (20, 1)
    other = next(driver for driver in cluster.nodes.values() if driver is not leader).client(1)
    publish(other, *numbers(2, 6))
    for _ in range(20):
        cluster.step()
    assert (group.rest_ms, len(group.settling)) == (2, 1)
    cluster.run(10)
    assert not group.settling


def test_an_acknowledgement_that_rests_is_in_the_log_before_what_the_channel_publishes(cluster: NodeCluster) -> None:
    client = cluster.nodes[cluster.leader(1)].client(1)
    answer(cluster, client, CONFIRM, consume("q", no_ack=False))
    publish(client, b"1")
    cluster.run(100)
    before = last_index(cluster)
    client.send(1, methods.BasicAck(1, False))
    cluster.step()
    publish(client, b"2")
    cluster.step()
    leader = cluster.nodes[cluster.leader(1)]
    log = leader.node.groups.all[1].raft.member.log
    data = log.entries_from(before + 1, 1)[0][0]
    assert [type(command).__name__ for command in decode_batch(data, AddressBook()).commands] == ["Settle", "Enqueue"]


def numbers(first: int, last: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, last + 1)]


def test_every_node_publishes_and_consumes(cluster: NodeCluster) -> None:
    consumers = [driver.client(1) for driver in cluster.nodes.values()]
    for client in consumers:
        assert names(answer(cluster, client, consume("q"))) == ["basic.consume-ok"]
    for driver in cluster.nodes.values():
        client = driver.client(1)
        answer(cluster, client, CONFIRM)
        publish(client, *numbers(1, 30))
        cluster.run(100)
        assert confirmed(client) == 30
    assert [len(bodies(client)) for client in consumers] == [30, 30, 30]
    assert counts(cluster) == {(0, 90, 3)}
    for client in consumers:
        answer(cluster, client, methods.BasicAck(0, True))
    assert counts(cluster) == {(0, 0, 3)}
    agree(cluster)


@pytest.mark.parametrize("is_leader", [True, False], ids=["leader", "follower"])
def test_get_purge_and_counts_on_any_node(cluster: NodeCluster, is_leader: bool) -> None:
    name = cluster.leader(1) if is_leader else follower(cluster)
    client = cluster.nodes[name].client(1)
    assert names(answer(cluster, client, methods.BasicGet(0, "q", False))) == ["basic.get-empty"]
    publish(client, *numbers(1, 5))
    [got] = answer(cluster, client, methods.BasicGet(0, "q", False))
    assert (got.message_count, got.redelivered) == (4, False)
    again = answer(cluster, client, methods.BasicNack(1, False, True), methods.BasicGet(0, "q", False))
    assert (again[0].message_count, again[0].redelivered) == (4, True)
    assert answer(cluster, client, methods.QueuePurge(0, "q", False)) == [methods.QueuePurgeOk(4)]
    assert answer(cluster, client, methods.QueueDelete(0, "q", False, False, False)) == [methods.QueueDeleteOk(0)]
    cluster.run(500)
    for driver in cluster.nodes.values():
        assert "q" not in driver.node.broker.vhosts["/"].queues
        assert driver.node.groups.all[1].machine.settings_of(1) is None


def test_publishers_go_on_when_the_leader_is_lost(cluster: NodeCluster) -> None:
    """Without reconnecting: what was not confirmed is confirmed later, once, and in order."""
    client = cluster.nodes[follower(cluster)].client(1)
    answer(cluster, client, CONFIRM)
    publish(client, *numbers(1, 10))
    cluster.step()
    cluster.kill(cluster.leader(1))
    publish(client, *numbers(11, 20))
    cluster.run(3000)
    assert confirmed(client) == 20
    client.send(1, consume("q"))
    cluster.run(100)
    assert bodies(client) == numbers(1, 20)
    agree(cluster)


def test_no_confirm_without_a_majority(cluster: NodeCluster) -> None:
    """The cut off leader's publishes are confirmed when it is back: they are in the queue once."""
    leader = cluster.leader(1)
    client = cluster.nodes[leader].client(1)
    answer(cluster, client, CONFIRM)
    cluster.isolate(leader)
    publish(client, *numbers(1, 5))
    cluster.run(3000)
    assert confirmed(client) == 0
    other = next(name for name in cluster.nodes if name != leader)
    writer = cluster.nodes[other].client(1)
    answer(cluster, writer, CONFIRM)
    publish(writer, b"other")
    cluster.run(500)
    assert confirmed(writer) == 1
    cluster.heal()
    cluster.run(3000)
    assert confirmed(client) == 5
    found = answer(cluster, writer, consume("q", no_ack=True))
    assert names(found) == ["basic.consume-ok", *["basic.deliver"] * 6]
    agree(cluster)


def test_what_the_clients_of_a_lost_node_held_goes_to_others(cluster: NodeCluster) -> None:
    """After node_down; with the count of its return."""
    lost = follower(cluster)
    holder = cluster.nodes[lost].client(1)
    answer(cluster, holder, methods.BasicQos(0, 2, False), consume("q"))
    writer = cluster.nodes[cluster.leader(1)].client(1)
    publish(writer, *numbers(1, 4))
    cluster.run(100)
    assert len(bodies(holder)) == 2
    cluster.kill(lost)
    reader = cluster.nodes[cluster.leader(1)].client(1)
    assert len(answer(cluster, reader, consume("q"))) == 3, "consume-ok and the two that nobody held"
    cluster.run(6000)
    found = [(each.method.redelivered, each.body) for each in reader.take()]
    assert found == [(True, b"1"), (True, b"2")]
    assert counts(cluster) == {(0, 4, 1)}
    agree(cluster)


def test_a_node_that_was_taken_for_dead_goes_on_in_a_new_session(cluster: NodeCluster) -> None:
    """Its consumer's deliveries went to another one: its acknowledgements of them count for nothing, others come."""
    cut = follower(cluster)
    slow, fast = cluster.nodes[cut].client(1), cluster.nodes[cluster.leader(1)].client(1)
    answer(cluster, slow, methods.BasicQos(0, 1, False), consume("q"))
    publish(fast, b"lock")
    cluster.run(100)
    assert bodies(slow) == [b"lock"]
    cluster.isolate(cut)
    cluster.run(6000)
    found = answer(cluster, fast, methods.BasicQos(0, 1, False), consume("q"))
    assert names(found) == ["basic.qos-ok", "basic.consume-ok", "basic.deliver"]
    cluster.heal()
    cluster.run(1000)
    slow.send(1, methods.BasicAck(1, False))
    cluster.run(500)
    assert counts(cluster) == {(0, 1, 2)}, "the second holder has it still"
    answer(cluster, fast, methods.BasicAck(1, False))
    assert counts(cluster) == {(0, 0, 2)}
    publish(fast, b"1", b"2")
    cluster.run(200)
    assert bodies(slow) + bodies(fast) in ([b"1", b"2"], [b"2", b"1"]), "both consume"
    agree(cluster)


def test_commands_on_their_way_to_a_lost_leader_are_answered_later(cluster: NodeCluster) -> None:
    """basic.get and basic.consume wait for the next leader."""
    name = follower(cluster)
    getting, consuming = cluster.nodes[name].client(1), cluster.nodes[name].client(1)
    publish(getting, b"1", b"2")
    cluster.run(100)
    cluster.kill(cluster.leader(1))
    getting.send(1, methods.BasicGet(0, "q", True))
    consuming.send(1, consume("q"))
    cluster.run(3000)
    assert names([event.method for event in getting.take()]) == ["basic.get-ok"]
    assert names([event.method for event in consuming.take()]) == ["basic.consume-ok", "basic.deliver"]


def test_dead_letters_survive_the_loss_of_the_leader(cluster: NodeCluster) -> None:
    """What had nowhere to go yet is published by the next one."""
    name = follower(cluster)
    client = cluster.nodes[name].client(1)
    arguments = Table(
        {
            "x-queue-type": "quorum", "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead",
            "x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish",
        }
    )
    answer(cluster, client, methods.QueueDeclare(0, "source", False, True, False, False, False, arguments))
    publish(client, b"1", b"2", key="source")
    for tag in (1, 2):
        answer(cluster, client, methods.BasicGet(0, "source", False), methods.BasicReject(tag, False))
    cluster.kill(cluster.leader(1))
    cluster.run(3000)
    answer(cluster, client, declare("dead", x_queue_type="quorum"))
    cluster.run(3000)
    client.send(1, consume("dead", no_ack=True))
    cluster.run(200)
    assert set(bodies(client)) == {b"1", b"2"}
    assert {driver.queue("source").statistics().dead_letters for driver in cluster.nodes.values()} == {0}
    agree(cluster)


def test_delayed_messages_survive_the_loss_of_the_leader(cluster: NodeCluster) -> None:
    """And of the node that took them."""
    client = cluster.nodes[cluster.leader(1)].client(1)
    answer(cluster, client, delaying(), methods.QueueBind(0, "q", "later", "", False, Table({})), CONFIRM)
    publish(client, b"second", exchange="later", headers=Table({"x-delay": 4000}))
    publish(client, b"first", exchange="later", headers=Table({"x-delay": 3500}))
    cluster.run(200)
    assert confirmed(client) == 2
    cluster.kill(cluster.leader(1))
    cluster.run(2500)
    reader = cluster.nodes[next(iter(cluster.nodes))].client(1)
    answer(cluster, reader, consume("q", no_ack=True))
    assert bodies(reader) == []
    cluster.run(3000)
    assert bodies(reader) == [b"first", b"second"]
    agree(cluster)


def delaying() -> methods.ExchangeDeclare:
    return methods.ExchangeDeclare(
        0, "later", "x-delayed-message", False, True, False, False, False, Table({"x-delayed-type": "fanout"})
    )


def test_an_exchange_that_is_declared_again_at_once_holds_back_what_it_is_given(cluster: NodeCluster) -> None:
    """What it held before goes with it; nothing of what comes then does."""
    name = follower(cluster)
    client, other = cluster.nodes[name].client(1), cluster.nodes[cluster.leader(1)].client(1)
    bind = methods.QueueBind(0, "q", "later", "", False, Table({}))
    answer(cluster, client, delaying(), bind, CONFIRM)
    publish(client, b"gone", exchange="later", headers=Table({"x-delay": 2000}))
    cluster.run(200)
    client.send(1, methods.ExchangeDelete(0, "later", False, False), delaying(), bind)
    for _ in range(20):
        cluster.step()
    answer(cluster, other, CONFIRM)
    for each in (client, other):
        publish(each, b"kept", exchange="later", headers=Table({"x-delay": 1000}))
    cluster.run(3000)
    other.take()
    other.send(1, consume("q", no_ack=True))
    cluster.run(100)
    assert bodies(other) == [b"kept", b"kept"]
    for driver in cluster.nodes.values():
        machine = driver.node.groups.all[1].machine
        known = [each for each in machine.queue_ids() if machine.settings_of(each) is not None]
        assert len(known) == 2, "the queue, and what the present exchange holds back"
    agree(cluster)


def test_a_deletion_that_was_never_committed_takes_nothing_that_is_held_back(cluster: NodeCluster) -> None:
    """The node that leads deletes the exchange, and is lost with its command."""
    leader = cluster.leader(1)
    client = cluster.nodes[leader].client(1)
    answer(cluster, client, delaying(), methods.QueueBind(0, "q", "later", "", False, Table({})), CONFIRM)
    publish(client, b"held", exchange="later", headers=Table({"x-delay": 6000}))
    cluster.run(200)
    for other in cluster.names:
        if other != cluster.leader():
            cluster.cut(cluster.leader(), other)
    client.send(1, methods.ExchangeDelete(0, "later", False, False))
    cluster.run(30)
    cluster.kill(leader)
    cluster.heal()
    cluster.run(8000)
    reader = cluster.nodes[next(iter(cluster.nodes))].client(1)
    reader.send(1, consume("q", no_ack=True))
    cluster.run(100)
    assert bodies(reader) == [b"held"]


def test_a_restarted_node_goes_on(cluster: NodeCluster) -> None:
    """Its old consumers are gone at once, and it has what came meanwhile."""
    name = follower(cluster)
    client = cluster.nodes[name].client(1)
    answer(cluster, client, consume("q"))
    writer = cluster.nodes[cluster.leader(1)].client(1)
    publish(writer, b"1")
    cluster.run(100)
    driver = cluster.kill(name)
    publish(writer, b"2", b"3")
    cluster.run(1000)
    cluster.revive(name, driver)
    cluster.run(3000)
    assert counts(cluster) == {(3, 0, 0)}
    client = cluster.nodes[name].client(1)
    answer(cluster, client, CONFIRM)
    publish(client, b"4")
    cluster.run(200)
    assert confirmed(client) == 1
    answer(cluster, client, consume("q", no_ack=True))
    assert counts(cluster) == {(0, 0, 1)}
    agree(cluster)


def test_exclusive_and_single_active_consumers_of_several_nodes(cluster: NodeCluster) -> None:
    """One is one on all nodes together."""
    first, second = (cluster.nodes[name].client(1) for name in ("n1", "n2"))
    exclusive = methods.BasicConsume(0, "q", "mine", False, False, True, False, Table({}))
    assert names(answer(cluster, first, exclusive)) == ["basic.consume-ok"]
    [closed] = answer(cluster, second, consume("q"))
    assert (closed.reply_code, closed.name) == (403, "channel.close")
    third = cluster.nodes["n3"].client(1)
    answer(cluster, third, declare("sac", x_queue_type="quorum", x_single_active_consumer=True))
    other = cluster.nodes["n2"].client(1)
    for client in (third, other):
        answer(cluster, client, consume("sac"))
    publish(first, *numbers(1, 3), key="sac")
    cluster.run(100)
    assert (bodies(third), bodies(other)) == (numbers(1, 3), [])
    cluster.nodes["n3"].lose(third)
    cluster.run(200)
    assert bodies(other) == numbers(1, 3)


def test_expiry_and_policies_come_from_the_leader(cluster: NodeCluster) -> None:
    """x-expires deletes the queue everywhere, and from the metadata; a policy is in force in the log."""
    client = cluster.nodes[follower(cluster)].client(1)
    answer(cluster, client, declare("short", x_queue_type="quorum", x_expires=500))
    cluster.run(2000)
    for driver in cluster.nodes.values():
        assert "short" not in driver.node.broker.vhosts["/"].queues
        assert driver.node.broker.metadata.queue("/", "short") is None
    node = cluster.nodes[cluster.leader()].node
    node.broker.propose(commands.set_policy("/", "cap", pattern="q", definition={"max-length": 2}))
    cluster.run(500)
    publish(client, *numbers(1, 5))
    cluster.run(200)
    assert counts(cluster) == {(2, 0, 0)}
    agree(cluster)


def test_a_queue_that_was_deleted_before_all_went_down_goes_from_the_log(
    cluster: NodeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next leader applied both logs again: that of the group first, when the metadata had not been read up to the
    deletion, and then nobody told it. The log kept the queue, with its messages, for ever."""
    client = cluster.nodes["n1"].client(1)
    publish(client, b"body")
    cluster.run(100)
    queue_id = cluster.nodes["n1"].queue("q").queue_id
    with monkeypatch.context() as patch:
        for driver in cluster.nodes.values():
            for group in driver.node.groups.all.values():
                patch.setattr(group, "_reconcile", lambda: None)
        assert names(answer(cluster, client, methods.QueueDelete(0, "q", False, False, False))) == ["queue.delete-ok"]
        downed = {name: cluster.kill(name) for name in list(cluster.nodes)}
    for name in downed:
        downed[name].start()
        cluster.nodes[name] = downed[name]
    with monkeypatch.context() as patch:  # no entry of the metadata is committed before those of the queues
        patch.setattr(Member, "campaign", _not_of_the_metadata(Member.campaign))
        cluster.heal()
        cluster.run(2000)
    cluster.run(4000)
    for driver in cluster.nodes.values():
        assert driver.node.is_ready
        assert driver.node.groups.all[1].machine.settings_of(queue_id) is None


def test_a_new_leader_compares_its_queues_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """And one whose id may be in use again comes first: its end is not to be behind what is said to the new one."""
    driver = NodeDriver(small_config(queue_groups=1))
    client = driver.client(1)
    for number in range(2 * SLICE + 1):
        client.send(1, declare(f"q{number}", x_queue_type="quorum"))
        driver.settle()
    group, now = driver.node.groups.all[1], driver.now
    ids = list(group.queues)
    assert len(ids) == 2 * SLICE + 1
    opened: list[int] = []
    dropped: list[int] = []

    def submit(command: OpenQueue, receipt: object = None) -> int:
        opened.append(command.queue_id)
        return len(opened)

    with monkeypatch.context() as patch:
        patch.setattr(group, "submit", submit)
        patch.setattr(group, "drop", dropped.append)
        for queue in group.queues.values():
            queue.wanted = QuorumSettings(consumer_timeout=7)
        group.queue_ended(ids[-1])
        group.compare()
        for done in (SLICE + 1, 2 * SLICE + 1):
            assert group.next_deadline() == now
            group.end_turn(now)
            assert dropped == ids[-1:]
            assert opened == [ids[-1], *ids[:-1]][:done]
    assert group.next_deadline() != now


def _not_of_the_metadata(campaign: Any) -> Any:
    def begin(self: Any, **how: Any) -> None:
        if self.group_id:
            campaign(self, **how)

    return begin


def test_letters_under_way_survive_a_transfer_that_was_given_up() -> None:
    """Nobody tells a leader of them again while it leads: only another leader, or it in a later term, hears of them."""
    cluster = NodeCluster(queue_groups=1)
    cluster.run_until_ready()
    name = cluster.leader(1)
    group = cluster.nodes[name].node.groups.all[1]
    resets = group.letters._term
    group.machine.role_changed(True, name, group.raft.term, group.clock.now)  # as when a transfer is given up
    group.absorb(group.clock.now)
    assert group.letters._term == resets


@pytest.mark.parametrize("is_from_leader", [True, False])
def test_the_leader_tells_how_long_an_entry_takes_whoever_sent_it(cluster: NodeCluster, is_from_leader: bool) -> None:
    leader = cluster.leader(1)
    group = cluster.nodes[leader].node.groups.all[1]
    client = cluster.nodes[leader if is_from_leader else follower(cluster)].client(1)
    answer(cluster, client, CONFIRM)
    cluster.run(1000)
    group.commit_ms = 80.0
    publish(client, b"1")
    cluster.run(100)
    assert confirmed(client) == 1
    assert group.commit_ms < 80  # the mean, into which it goes


DELETE_IF_EMPTY = methods.QueueDelete(0, "q", False, True, False)


def one_behind(cluster: NodeCluster) -> tuple[Client, str]:
    """The client of a member that has not heard of a message that is confirmed, and that member."""
    behind, leader = follower(cluster), cluster.leader(1)
    late, publisher = cluster.nodes[behind].client(1), cluster.nodes[leader].client(1)
    cluster.isolate(behind)
    answer(cluster, publisher, CONFIRM)
    publish(publisher, b"1")
    cluster.run(100)
    assert confirmed(publisher) == 1
    assert cluster.nodes[behind].queue("q").message_count() == 0
    return late, behind


def test_who_is_behind_does_not_delete_what_is_not_empty(cluster: NodeCluster) -> None:
    late, _ = one_behind(cluster)
    assert answer(cluster, late, DELETE_IF_EMPTY) == []
    cluster.heal()
    cluster.run(1500)
    (refused,) = [event.method for event in late.take()]
    assert (refused.name, refused.reply_code) == ("channel.close", 406)
    assert refused.reply_text.endswith("not empty"), refused.reply_text
    assert counts(cluster) == {(1, 0, 0)}


def test_who_hears_of_nobody_says_that_it_does_not_know_what_is_there(cluster: NodeCluster) -> None:
    late, _ = one_behind(cluster)
    late.send(1, DELETE_IF_EMPTY)
    cluster.run(1500)
    (refused,) = [event.method for event in late.take()]
    assert (refused.name, refused.reply_code) == ("channel.close", 406)
    assert "is not known here" in refused.reply_text
    cluster.heal()
    cluster.run(1500)
    assert counts(cluster) == {(1, 0, 0)}


def test_what_is_empty_and_unused_is_deleted_by_any_member(cluster: NodeCluster) -> None:
    client = cluster.nodes[follower(cluster)].client(1)
    said = answer(cluster, client, methods.QueueDelete(0, "q", True, True, False))
    assert names(said) == ["queue.delete-ok"]


def test_who_has_lost_its_session_is_current_once_its_next_one_is_heard(cluster: NodeCluster) -> None:
    """The consumer, which is attached again at the beginning of that one, has what was published meanwhile."""
    behind = follower(cluster)
    driver, publisher = cluster.nodes[behind], cluster.nodes[cluster.leader(1)].client(1)
    answer(cluster, driver.client(1), consume("q"))
    cluster.isolate(behind)
    found: list[tuple[int, int, int]] = []
    driver.node.groups.all[1].when_current(lambda: found.append(counts_at(cluster, behind)))
    while counts_at(cluster, cluster.leader(1))[2]:  # until the session, and its consumer with it, is given up
        cluster.run(100)
    publish(publisher, b"1", b"2")
    cluster.run(100)
    cluster.heal()
    cluster.run(2000)
    assert found == [(0, 2, 1)]

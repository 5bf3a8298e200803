"""The verbs about streams, asked of a node that has no copy: what they say and do is what they do at a member."""

from __future__ import annotations

import json
from typing import Any

import pytest

from amqp_broker.links.frame_kinds import FrameKind
from amqp_broker.management.verbs.stream_look import _read_figures, _written
from amqp_broker.protocol import methods
from queues.stream.settings import StreamSettings
from queues.stream.source import CompactionFigures, GroupFigures, ShareFigures, StreamFigures
from queues.stream.stream import Hold
from tests.management.users import add_user
from tests.node.node_cluster import NodeCluster
from tests.node.system_service import SystemService
from tests.queue_types.stream.test_damaged_pages import damage, log_of
from tests.queue_types.stream.test_groups_at_guests import member, queue_of
from tests.queue_types.stream.test_readers_at_guests import BODIES, fill
from tests.queue_types.stream.test_streams_of_a_node import declare
from tests.queue_types.test_guests import guest_of, listed, settle
from tests.queue_types.test_quorum_cluster import answer
from tests.queues.stream.stream_world import tiny_pages

__all__ = ["tiny_pages"]

STREAM = {"vhost": "/", "name": "s"}
PARTS = {"vhost": "/", "name": "p"}
LOOKS = {"stream.stat": {}, "stream.find": {"time": 1}}
CHANGES: dict[str, dict[str, Any]] = {
    "stream.trim": {"before": 7},
    "stream.seek": {"group": "g", "offset": 3},
    "stream.forget": {"group": "idle"},
    "stream.compact": {},
}
VERBS = {**LOOKS, **CHANGES}


@pytest.fixture
def cluster() -> NodeCluster:
    """Four nodes; `s`, and `p` with three partitions, are on three of them, each with 12 messages, and groups `g`, of a
    consumer at a member, and `idle`, of nobody."""
    made = NodeCluster(4, queue_groups=1, quorum_size=3, page_size_bytes=1500)
    made.run_until_ready()
    settle(made)
    client = made.nodes["n1"].client(1)
    answer(made, client, declare(x_stream_compact=True), declare("p", x_stream_partitions=3, x_stream_compact=True))
    for number in range(12):
        client.publish(1, "s", b"%d" % number)
        client.publish(1, "p", b"%d" % number)
    made.run(500)
    service = SystemService(made.nodes[made.leader(1)])
    for name in ("s", "p"):
        reader = member(made, made.leader(1), 5, name)
        reader.send(1, methods.BasicAck(2, True))
        made.run(300)
        assert ask(made, service, "stream.seek", vhost="/", name=name, group="idle", offset=1)["ok"]
    return made


def ask(cluster: NodeCluster, service: SystemService, verb: str, /, **fields: object) -> dict[str, Any]:
    service.send(verb, json.dumps(fields).encode())
    return heard(cluster, service)


def heard(cluster: NodeCluster, service: SystemService, milliseconds: int = 15_000) -> dict[str, Any]:
    for _ in range(milliseconds // 10):
        cluster.run(10)
        if answers := service.answers():
            return answers[0]
    raise AssertionError("no answer")


def desks(cluster: NodeCluster) -> tuple[SystemService, SystemService]:
    """At the guest, and at the member that leads."""
    return SystemService(cluster.nodes[guest_of(cluster)]), SystemService(cluster.nodes[cluster.leader(1)])


def without(found: Any, *names: str) -> Any:
    return {key: value for key, value in found.items() if key not in names}


@pytest.mark.parametrize("stream", [STREAM, PARTS])
@pytest.mark.parametrize("verb", LOOKS)
def test_what_there_is_to_be_seen_is_the_same(cluster: NodeCluster, verb: str, stream: dict[str, str]) -> None:
    at_guest, at_leader = desks(cluster)
    found, expected = (ask(cluster, desk, verb, **stream, **LOOKS[verb]) for desk in (at_guest, at_leader))
    assert found["ok"], found
    assert without(found, "consumers") == without(expected, "consumers")
    if verb == "stream.stat":
        assert (found["consumers"], expected["consumers"]) == (0, 1)
        assert (found["messages"], {each["name"] for each in found["groups"]}) == (12, {"g", "idle"})
        rows = found.get("partitions", [found])
        assert {row["node"] for row in rows} == {cluster.leader(1)}


def test_what_nobody_has_used_yet_has_nothing(cluster: NodeCluster) -> None:
    answer(cluster, cluster.nodes["n1"].client(1), declare("new"))
    for desk in desks(cluster):
        found = ask(cluster, desk, "stream.stat", vhost="/", name="new")
        assert (found["ok"], found["messages"], found["next_offset"]) == (True, 0, 0)
        assert ask(cluster, desk, "stream.trim", vhost="/", name="new", before=3)["first_offset"] == 0


def test_the_oldest_messages_go_on_all_members(cluster: NodeCluster) -> None:
    at_guest, _ = desks(cluster)
    assert ask(cluster, at_guest, "stream.trim", **STREAM, before=7)["first_offset"] == 7
    assert ask(cluster, at_guest, "stream.trim", **STREAM, before=1000)["first_offset"] == 12
    cluster.run(300)
    assert {queue_of(cluster, name).stream().first for name in listed(cluster)} == {12}
    parts = ask(cluster, at_guest, "stream.trim", **PARTS, before=2)["partitions"]
    assert parts == [{"name": f"p-{number}", "first_offset": 2} for number in range(3)]


def test_a_group_goes_on_elsewhere_and_at_the_end_if_that_is_beyond_it(cluster: NodeCluster) -> None:
    at_guest, at_leader = desks(cluster)
    for offset, position in ((3, 3), (1000, 12), (0, 0)):
        assert ask(cluster, at_guest, "stream.seek", **STREAM, group="idle", offset=offset)["position"] == position
        groups = {each["name"]: each for each in ask(cluster, at_leader, "stream.stat", **STREAM)["groups"]}
        assert groups["idle"]["position"] == position
    found = ask(cluster, at_guest, "stream.seek", **PARTS, group="new", offset=1000)["partitions"]
    assert found == [{"name": f"p-{number}", "position": 4} for number in range(3)]


@pytest.mark.parametrize("stream", [STREAM, PARTS])
def test_a_group_is_forgotten_once_and_not_while_somebody_reads(cluster: NodeCluster, stream: dict[str, str]) -> None:
    at_guest, at_leader = desks(cluster)
    assert ask(cluster, at_guest, "stream.forget", **stream, group="idle")["ok"]
    assert [each["name"] for each in ask(cluster, at_leader, "stream.stat", **stream)["groups"]] == ["g"]
    for group in ("idle", "g"):
        refused = ask(cluster, at_guest, "stream.forget", **stream, group=group)
        assert (refused["code"], "there is no such group, or consumers read with it" in refused["error"]) == (
            "failed", True,
        )  # fmt: skip


def test_it_is_compacted_by_all_members(cluster: NodeCluster) -> None:
    at_guest, _ = desks(cluster)
    assert ask(cluster, at_guest, "stream.compact", **STREAM)["next_offset"] == 12
    found = ask(cluster, at_guest, "stream.compact", **PARTS)["partitions"]
    assert [part["next_offset"] for part in found] == [4, 4, 4]
    answer(cluster, cluster.nodes["n1"].client(1), declare("plain"))
    refused = ask(cluster, at_guest, "stream.compact", vhost="/", name="plain")
    assert "is not compacted" in refused["error"]


def test_it_gets_more_partitions_and_they_are_seen(cluster: NodeCluster) -> None:
    at_guest, _ = desks(cluster)
    assert ask(cluster, at_guest, "stream.grow", **PARTS, partitions=4)["partitions"] == 4
    found = ask(cluster, at_guest, "stream.stat", **PARTS)["partitions"]
    assert [row["messages"] for row in found] == [4, 4, 4, 0]


def test_its_messages_are_looked_at(cluster: NodeCluster) -> None:
    at_guest, _ = desks(cluster)
    found = ask(cluster, at_guest, "queue.peek", **STREAM, **{"from": 9})
    assert [message["position"] for message in found["messages"]] == [9, 10, 11]


@pytest.mark.parametrize("stream", [STREAM, PARTS])
@pytest.mark.parametrize("verb", VERBS)
def test_the_member_that_leads_is_killed_meanwhile(cluster: NodeCluster, verb: str, stream: dict[str, str]) -> None:
    """Another one is asked; what is to be changed goes to the next leader."""
    at_guest, _ = desks(cluster)
    at_guest.send(verb, json.dumps({**stream, **VERBS[verb]}).encode())
    cluster.step()
    cluster.kill(cluster.leader(1))
    found = heard(cluster, at_guest)
    assert found["ok"], found
    if verb == "stream.trim":
        cluster.run(500)
        names = ("s",) if stream is STREAM else ("p-0", "p-1", "p-2")
        left = [name for name in listed(cluster) if name in cluster.nodes]
        assert {queue_of(cluster, node, name).stream().first for node in left for name in names} <= {4, 7}


@pytest.mark.parametrize("stream", [STREAM, PARTS])
@pytest.mark.parametrize("verb", VERBS)
def test_without_a_link_it_is_refused_and_nothing_is_done(
    cluster: NodeCluster, verb: str, stream: dict[str, str]
) -> None:
    guest = guest_of(cluster)
    at_guest, at_leader = desks(cluster)
    before = ask(cluster, at_leader, "stream.stat", **stream)
    cluster.isolate(guest)
    cluster.run(100)
    refused = ask(cluster, at_guest, verb, **stream, **VERBS[verb])
    assert not refused["ok"]
    assert f"has no copy on this node: ask one of {', '.join(sorted(listed(cluster)))}" in refused["error"]
    cluster.heal()
    cluster.run(3000)
    assert ask(cluster, at_leader, "stream.stat", **stream) == before
    assert ask(cluster, at_guest, verb, **stream, **VERBS[verb])["ok"]


@pytest.mark.parametrize("verb", LOOKS)
def test_who_does_not_know_the_question_is_passed_over(cluster: NodeCluster, verb: str) -> None:
    """As a member of an earlier version does not: another one is asked, and where none does it is refused."""
    at_guest, _ = desks(cluster)
    kind = int(FrameKind.MANAGEMENT)
    for count, name in enumerate(sorted(listed(cluster), key=lambda each: each != cluster.leader(1)), 1):
        cluster.nodes[name].node.tenants.receivers[kind] = lambda name, payload, now: None
        found = ask(cluster, at_guest, verb, **STREAM, **LOOKS[verb])
        assert found["ok"] is (count < 3), found
    assert "has no copy on this node: ask one of" in found["error"]


def test_a_member_that_cannot_read_its_page_is_passed_over(tiny_pages: None) -> None:
    cluster = NodeCluster(4, queue_groups=1, quorum_size=3, page_size_bytes=1500)
    cluster.run_until_ready()
    settle(cluster)
    answer(cluster, cluster.nodes["n1"].client(1), declare())
    fill(cluster, BODIES)
    leader = cluster.leader(1)
    for name in listed(cluster):
        log_of(cluster, name).seal()
        log_of(cluster, name).page_out(1 << 40)
    damage(cluster, leader, 0)
    at_guest, _ = desks(cluster)
    found = ask(cluster, at_guest, "stream.stat", **STREAM)
    assert (found["ok"], found["messages"], found["node"] != leader) == (True, len(BODIES), True)


@pytest.mark.parametrize("verb", VERBS)
def test_who_may_not_may_not_there_either(cluster: NodeCluster, verb: str) -> None:
    driver = cluster.nodes[cluster.leader()]
    add_user(driver, "stranger", "management", vhosts=())
    add_user(driver, "viewer", "viewer")
    cluster.run(500)
    for user in ("stranger", "viewer"):
        at_guest, at_member = (
            ask(cluster, each, verb, **STREAM, **VERBS[verb], as_user=user) for each in desks(cluster)
        )
        assert without(at_guest, "consumers") == without(at_member, "consumers")
        assert at_guest["ok"] is (user == "viewer" and verb in LOOKS)


def test_a_member_looks_itself_who_asks(cluster: NodeCluster) -> None:
    """The guest has not heard yet that somebody may not see the virtual host any more."""
    at_guest, _ = desks(cluster)
    guest = cluster.nodes[guest_of(cluster)].node
    add_user(cluster.nodes[cluster.leader()], "viewer", "viewer")
    cluster.run(500)
    for name in listed(cluster):
        cluster.nodes[name].node.broker.metadata._permissions.pop(("viewer", "/"), None)
    assert guest.broker.metadata.permission("viewer", "/") is not None
    refused = ask(cluster, at_guest, "stream.stat", **STREAM, as_user="viewer")
    assert (refused["ok"], refused["code"]) == (False, "not_authorised")


def test_a_stream_that_is_deleted_meanwhile_is_answered_for(cluster: NodeCluster) -> None:
    """Members do not say where it begins any more."""
    at_guest, _ = desks(cluster)
    for name in listed(cluster):
        cluster.nodes[name].node.tenants.receivers[int(FrameKind.STREAM_READ)] = lambda name, payload, now: None
    at_guest.send("stream.trim", json.dumps({**STREAM, "before": 1}).encode())
    cluster.run(500)
    assert not at_guest.answers()
    answer(cluster, cluster.nodes["n1"].client(1), methods.QueueDelete(0, "s", False, False, False))
    found = heard(cluster, at_guest)
    assert (found["ok"], found["code"]) == (False, "failed")


def test_figures_are_read_as_they_are_written() -> None:
    figures = StreamFigures(
        1, 9, 100, 200, 3, 4, StreamSettings(max_length_bytes=5, key="message-id"), 2, {"h": Hold(1, 2)},
        {"g\udc80": GroupFigures(1, "n1", 2)}, "n1", {"g": ShareFigures(2, ("n1", ""))}, CompactionFigures(1, 2, 3, 4),
    )  # fmt: skip
    for each in (figures, figures._replace(compaction=None), None):
        said = json.loads(json.dumps(_written(each)))
        assert _read_figures(said) == each
    assert _read_figures({**json.loads(json.dumps(_written(figures))), "newer": 1}) == figures
    with pytest.raises((KeyError, TypeError)):
        _read_figures({"first": 1})


@pytest.mark.parametrize("stream", [STREAM, PARTS])
@pytest.mark.parametrize("at", ["first", "last", "next", "1h", 0, 5, 1000, -2, -1000])
def test_a_place_is_the_same_offset(cluster: NodeCluster, at: object, stream: dict[str, str]) -> None:
    at_guest, at_leader = desks(cluster)
    found, expected = (ask(cluster, desk, "stream.find", **stream, at=at) for desk in (at_guest, at_leader))
    assert found["ok"], found
    assert found == expected
    offsets = {"first": 0, "next": 12, "1h": 0, 1000: 12, -2: 10, -1000: 0, 0: 0, 5: 5}
    if stream is STREAM and at in offsets:
        assert found["offset"] == offsets[at]  # type: ignore[index]  # it is in there


def test_segments_are_those_of_the_member_that_is_asked(cluster: NodeCluster) -> None:
    at_guest, at_leader = desks(cluster)
    found, expected = (ask(cluster, desk, "stream.segments", **STREAM) for desk in (at_guest, at_leader))
    assert found["ok"], found
    assert found == expected
    assert (found["node"], found["segments"][-1]["next_offset"], found["next"]) == (cluster.leader(1), 12, None)
    pages = [ask(cluster, at_guest, "stream.segments", **STREAM, limit=1)]
    while (following := pages[-1]["next"]) is not None:
        pages.append(ask(cluster, at_guest, "stream.segments", **STREAM, **{"from": following, "limit": 1}))
    rows = [row for page in pages for row in page["segments"]]
    assert [row["first_offset"] for row in rows] == [row["first_offset"] for row in found["segments"]]
    refused = ask(cluster, at_guest, "stream.segments", **PARTS)
    assert (refused["ok"], "queue 'p' in vhost '/' has 3 partitions" in refused["error"]) == (False, True), refused


@pytest.mark.parametrize(("verb", "fields"), [("stream.segments", {}), ("stream.find", {"at": "last"})])
def test_segments_and_places_are_looked_for_as_others_are(
    cluster: NodeCluster, verb: str, fields: dict[str, Any]
) -> None:
    """Members that do not know the question are passed over; viewers may ask, strangers may not."""
    add_user(cluster.nodes[cluster.leader()], "stranger", "management", vhosts=())
    add_user(cluster.nodes[cluster.leader()], "viewer", "viewer")
    cluster.run(500)
    at_guest, _ = desks(cluster)
    assert ask(cluster, at_guest, verb, **STREAM, **fields, as_user="viewer")["ok"]
    assert not ask(cluster, at_guest, verb, **STREAM, **fields, as_user="stranger")["ok"]
    kind = int(FrameKind.MANAGEMENT)
    for count, name in enumerate(sorted(listed(cluster), key=lambda each: each != cluster.leader(1)), 1):
        cluster.nodes[name].node.tenants.receivers[kind] = lambda name, payload, now: None
        found = ask(cluster, at_guest, verb, **STREAM, **fields)
        assert found["ok"] is (count < 3), found
    assert "has no copy on this node: ask one of" in found["error"]

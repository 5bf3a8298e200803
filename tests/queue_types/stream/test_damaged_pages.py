"""A page of a stream that cannot be read on one node, long after it was written: whoever reads there gets its messages
all the same, and it is whole again after that."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from amqp_broker.links.frame_kinds import FrameKind
from amqp_broker.queue_types.stream.mender import Found, as_page
from amqp_broker.queue_types.stream.page_exchange import PATIENCE_MS
from amqp_broker.queue_types.stream.page_frames import (
    Answer,
    AnswerKind,
    Request,
    decode_answer,
    decode_request,
    encode_answer,
    encode_request,
)
from queues.stream import compaction
from queues.stream.commands import Compact, Trim
from queues.stream.source import source_of
from queues.stream.tail import tail_octets
from queues.wire.reader import Malformed
from storage.errors import CorruptRecord
from storage.page_store import page_path
from tests.node.node_cluster import NodeCluster
from tests.node.node_driver import Client
from tests.node.system_service import SystemService
from tests.queue_types.stream.test_streams_of_a_node import consume, declare, qos
from tests.queues.stream.stream_world import tiny_pages

__all__ = ["tiny_pages"]
pytestmark = pytest.mark.usefixtures("tiny_pages")

BODIES = [b"%03d" % number * 60 for number in range(120)]
DAMAGED = 40


def a_cluster(sealed: Sequence[int] = (), **arguments: object) -> NodeCluster:
    """A stream of many pages, all of them but the newest on the disks alone. sealed: on n1 and n3 pages begin there."""
    cluster = NodeCluster(page_size_bytes=1500, stream_compression_ms=5000, stream_compaction_ms=5000)
    cluster.run_until_ready()
    cluster.run(1000)
    driver = cluster.nodes["n1"]
    client = driver.client(1)
    client.send(1, declare(**arguments))
    cluster.run(500)
    assert "queue.declare-ok" in client.names()
    for start in range(0, len(BODIES), 3):
        for body in BODIES[start : start + 3]:
            client.publish(1, "s", body)
        cluster.run(20)
        if start + 3 in sealed:
            log_of(cluster, "n1").seal()
            log_of(cluster, "n3").seal()
    cluster.run(500)
    for name in cluster.names:
        log_of(cluster, name).seal()
        log_of(cluster, name).page_out(1 << 40)
    return cluster


def queue_of(cluster: NodeCluster, name: str) -> Any:
    return cluster.nodes[name].node.broker.vhosts["/"].queues["s"]


def log_of(cluster: NodeCluster, name: str) -> Any:
    return queue_of(cluster, name).stream().log


def damage(cluster: NodeCluster, name: str, offset: int = DAMAGED) -> str:
    """An octet of the page with this offset is another one. Returns its file."""
    log = log_of(cluster, name)
    part = next(part for part in log.parts() if part.page.first <= offset <= part.page.last)
    assert part.page.data is None
    path = page_path(log.queue_id, part.page.location.segment)
    disk = cluster.nodes[name].disk
    octets = bytearray(disk.contents(path))
    octets[part.page.location.offset + 100] ^= 4
    disk.overwrite(path, bytes(octets))
    return path


def reading(cluster: NodeCluster, name: str, milliseconds: int = 1000) -> Client:
    reader = cluster.nodes[name].client(1, capabilities=("consumer_cancel_notify",))
    reader.send(1, qos(1000), consume())
    cluster.run(milliseconds)
    return reader


def found_by(reader: Client) -> tuple[list[bytes], list[str]]:
    """The bodies that have come, and what else did."""
    events = reader.take()
    return (
        [event.body for event in events if event.method.name == "basic.deliver"],
        [event.method.name for event in events if event.method.name != "basic.deliver"],
    )


WELL = ["basic.qos-ok", "basic.consume-ok"]


def test_who_reads_gets_it_from_another_node_and_the_page_is_whole_again(caplog: pytest.LogCaptureFixture) -> None:
    cluster = a_cluster()
    name = "n2"
    path = damage(cluster, name)
    with caplog.at_level(logging.WARNING):
        assert found_by(reading(cluster, name)) == (BODIES, WELL)
    told = [record.getMessage() for record in caplog.records]
    assert any(f"page of offsets {DAMAGED - 1} to" in each or path in each for each in told)
    assert any("are whole again, with what" in each for each in told)
    caplog.clear()
    log_of(cluster, name).page_out(1 << 40)
    assert found_by(reading(cluster, name)) == (BODIES, WELL)
    assert "cannot be read" not in caplog.text
    # A checkpoint has the new place.
    queue_of(cluster, name).group.raft.take_checkpoint()
    cluster.run(500)
    cluster.revive(name, cluster.kill(name))
    cluster.run(3000)
    log_of(cluster, name).page_out(1 << 40)
    cluster.nodes[name].client(1)
    assert found_by(reading(cluster, name))[0] == BODIES
    assert "cannot be read" not in caplog.text


def test_readers_that_wait_are_served_by_whoever_has_it(caplog: pytest.LogCaptureFixture) -> None:
    """The leader cannot read it either, and does not answer at first."""
    cluster = a_cluster()
    leader = queue_of(cluster, "n1").group.leader
    name, other = [each for each in cluster.names if each != leader]
    damage(cluster, name)
    damage(cluster, leader)
    with caplog.at_level(logging.WARNING):
        readers = [reading(cluster, name, 10), reading(cluster, name)]
    assert [found_by(reader) for reader in readers] == [(BODIES, WELL)] * 2
    assert f"cannot be had from {leader}" in caplog.text
    assert f"with what {other} has" in caplog.text


def test_who_meets_another_page_meanwhile_is_served_though_the_first_one_is_lost(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = a_cluster()
    for name in cluster.names:
        damage(cluster, name)
    damage(cluster, "n2", 90)
    lost = reading(cluster, "n2", 0)
    other = cluster.nodes["n2"].client(1, capabilities=("consumer_cancel_notify",))
    other.send(1, qos(1000), consume(x_stream_offset=80))
    cluster.run(1000)
    assert found_by(lost)[1] == [*WELL, "basic.cancel"]
    assert found_by(other)[0] == BODIES[80:]
    assert "are whole again" in caplog.text


def test_where_nobody_has_it_readers_are_told(caplog: pytest.LogCaptureFixture) -> None:
    cluster = a_cluster()
    for name in cluster.names:
        damage(cluster, name)
    reader = reading(cluster, "n1")
    bodies, others = found_by(reader)
    assert bodies == BODIES[: len(bodies)]
    assert DAMAGED - 10 < len(bodies) <= DAMAGED
    assert others == [*WELL, "basic.cancel"]
    assert "a consumer is cancelled" in caplog.text


def test_a_node_that_does_not_answer_is_not_waited_for_without_end() -> None:
    cluster = a_cluster()
    leader = queue_of(cluster, "n1").group.leader
    name = next(each for each in cluster.names if each != leader)
    damage(cluster, name)
    cluster.nodes[leader].node.tenants.receivers[int(FrameKind.STREAM_REQUEST)] = lambda *_: None
    reader = reading(cluster, name, PATIENCE_MS // 2)
    assert len(found_by(reader)[0]) <= DAMAGED
    cluster.run(PATIENCE_MS)
    bodies, others = found_by(reader)
    assert bodies[-1] == BODIES[-1]
    assert not others


@pytest.mark.parametrize("what", ["compressed", "compacted"])
def test_a_pass_that_meets_it_goes_on(what: str, caplog: pytest.LogCaptureFixture) -> None:
    arguments: dict[str, object] = {"x_stream_compression": "zlib"}
    if what == "compacted":
        arguments = {"x_stream_compact": True, "x_stream_key": "message-id"}
    cluster = a_cluster(**arguments)
    damage(cluster, "n3", len(BODIES) - 5)
    queue = queue_of(cluster, "n3")
    if what == "compacted":
        queue.group.submit(Compact(queue.queue_id))
    cluster.run(12_000)
    assert "are whole again" in caplog.text
    assert "any more" not in caplog.text
    log = log_of(cluster, "n3")
    if what == "compacted":
        assert log.compacted.below == len(BODIES)
    else:
        assert all(part.is_packed for part in log.parts())
    assert found_by(reading(cluster, "n3"))[0] == BODIES


def test_what_comes_is_a_page_only_if_it_has_its_offsets_and_octets() -> None:
    cluster = a_cluster()
    log = log_of(cluster, "n1")
    part = log.parts()[3]
    page = part.page
    chunks = [each.apart() for each in log.chunks(page.first)]
    stored = [each for each in chunks if each.first <= page.last]
    whole = tail_octets(stored)
    assert as_page(whole, part, page.first, False) == (Found(page.first, part.time, whole), "")
    rest = tail_octets(stored[1:])
    assert as_page(rest, part, stored[1].first + 1, False) == (Found(stored[1].first, stored[1].time, rest), "")
    later = tail_octets(chunks[len(stored) :][:1])
    for octets in (b"", rest, later, whole + later, whole[:-1], tail_octets([*stored, stored[0]])):
        found, why = as_page(octets, part, page.first, False)
        assert found is None
        assert why


def test_the_oldest_page_is_mended_with_what_is_left_of_it_elsewhere() -> None:
    sealed = (45, 48, 51)
    cluster = a_cluster(sealed)
    name = "n2"
    log = log_of(cluster, name)
    part, middle = next(
        (part, offset) for part in log.parts() for offset in sealed if part.page.first < offset <= part.page.last
    )
    queue = queue_of(cluster, name)
    queue.group.submit(Trim(queue.queue_id, middle))
    cluster.run(500)
    assert log.parts()[0] is part
    assert log_of(cluster, "n1").parts()[0].page.first > part.page.first
    damage(cluster, name, middle)
    assert found_by(reading(cluster, name)) == (BODIES[middle:], WELL)
    assert log.parts()[0].page.first == log_of(cluster, "n1").parts()[0].page.first
    assert log.octets_from(middle) == sum(each.taken for each in log.parts()) + log.tail_bytes
    queue.group.raft.take_checkpoint()
    cluster.run(500)
    cluster.revive(name, cluster.kill(name))
    cluster.run(3000)
    assert found_by(reading(cluster, name))[0] == BODIES[middle:]


def test_a_range_is_had_again_in_a_moment() -> None:
    cluster = a_cluster()
    damage(cluster, "n2")
    source = source_of(queue_of(cluster, "n2"))
    log = log_of(cluster, "n2")
    with pytest.raises(CorruptRecord) as damaged:
        for _ in log.chunks(0):
            pass
    assert source.mend(damaged.value)
    cluster.run(500)
    assert sum(stored.chunk.records for stored in log.chunks(0)) == len(BODIES)


class Slow:
    """A read that is done when it is looked at for the second time."""

    looked = False

    def done(self) -> bool:
        looked, self.looked = self.looked, True
        return looked

    def result(self) -> bytes:
        return b""


def test_a_pass_gives_way_to_what_is_to_be_mended(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long the pass would have taken, and it begins anew then."""
    cluster = a_cluster(x_stream_compact=True, x_stream_key="message-id")
    name = "n3"
    queue = queue_of(cluster, name)
    steps = compaction.Pass.steps
    begun: list[compaction.Pass] = []

    def endless(work: compaction.Pass) -> compaction.Steps:
        """The first pass there only looks."""
        if work._log is log_of(cluster, name) and not begun:
            begun.append(work)
            while True:
                yield from work._wait(Slow())
        return (yield from steps(work))

    monkeypatch.setattr(compaction.Pass, "steps", endless)
    queue.group.submit(Compact(queue.queue_id))
    cluster.run(1000)
    assert queue.compactor.is_under_way
    damage(cluster, name)
    assert found_by(reading(cluster, name)) == (BODIES, WELL)
    cluster.run(5000)
    assert log_of(cluster, name).compacted.below == len(BODIES)


@pytest.mark.parametrize("has_others", [True, False])
def test_who_asks_for_figures_has_the_page_mended(has_others: bool) -> None:
    """`stream.stat` reads the newest page, `stream.find` that of the time."""
    cluster = a_cluster()
    last = len(BODIES) - 1
    for verb, fields in (("stream.stat", {}), ("stream.find", {"time": log_of(cluster, "n2").parts()[-1].time + 1})):
        for name in cluster.names:
            log_of(cluster, name).page_out(1 << 40)
            if name == "n2" or not has_others:
                damage(cluster, name, last)
        service = SystemService(cluster.nodes["n2"])
        answers = []
        for _ in range(2):
            service.send(verb, json.dumps({"vhost": "/", "name": "s", **fields}).encode())
            cluster.run(500)
            answers += service.answers()
        first, second = answers
        assert first["ok"] is False
        assert "try again in a moment" in first["error"]
        assert second["ok"] is has_others
        if not has_others:
            assert "the checksum does not match" in second["error"]
            return
        cluster.run(60_000)


def test_frames_are_read_as_they_are_written() -> None:
    asked = bytes.fromhex("0100000000000000050000000000000002000000000000000a0000000000000014000005dc")
    assert encode_request(Request(5, 2, 10, 20, 1500)) == asked
    assert encode_answer(Answer(5, AnswerKind.REFUSED, b"no")) == bytes.fromhex("010000000000000005036e6f")
    request = Request(1 << 63, 7, 10, 20, 1 << 20)
    assert decode_request(encode_request(request)) == request
    for kind in AnswerKind:
        assert decode_answer(encode_answer(Answer(5, kind, b"octets"))) == Answer(5, kind, b"octets")
    with pytest.raises(Malformed, match="version 2; this program reads version 1: update it"):
        decode_request(b"\2" + encode_request(request)[1:])
    with pytest.raises(Malformed):
        decode_request(encode_request(request) + b"x")
    with pytest.raises(Malformed, match="unknown kind 9"):
        decode_answer(b"\1" + bytes(8) + b"\x09")


@pytest.mark.parametrize("has_others", [True, False])
@pytest.mark.parametrize("where", ["time", "last"])
def test_a_group_that_begins_in_it_waits_until_it_is_whole(has_others: bool, where: str) -> None:
    cluster = a_cluster()
    name = "n2"
    log = log_of(cluster, name)
    second = log.parts()[-1].time // 1000  # as exact as AMQP says it
    for each in (name,) if has_others else cluster.names:
        damage(cluster, each, len(BODIES) - 1 if where == "last" else log.page_of_time(second * 1000))
    start = "last" if where == "last" else datetime.fromtimestamp(second, UTC)
    reader = cluster.nodes[name].client(1, capabilities=("consumer_cancel_notify",))
    reader.send(1, qos(1000), consume(x_stream_group="g", x_stream_offset=start))
    cluster.run(3000)
    bodies, told = found_by(reader)
    if has_others:
        assert told == WELL
        assert bodies == BODIES[-len(bodies) :]
        assert bodies
    else:
        assert told == ["basic.qos-ok", "channel.close"]
    assert cluster.nodes[name].node.is_ready

"""When a node compresses a stream, its time and its disk in the test's hand: what it does where the disk cannot, when
the old places go, and that others have their turn."""

from __future__ import annotations

import errno
import logging
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from queues.stream.commands import Compact
from queues.stream.packing import Packed
from tests.leases.service_on_node import ServiceOnNode
from tests.node.node_driver import Client, NodeDriver, small_config
from tests.queue_types.stream.test_streams_of_a_node import a_stream, fill, set_policy
from tests.storage.page_files import disk_bytes

PACKED = {"x_stream_compression": "zlib"}
EVERY_MS = 1000
BODIES = [b"%04d" % number * 250 for number in range(60)]


def a_node(**settings: object) -> tuple[NodeDriver, Client]:
    """Its streams have small pages."""
    driver = NodeDriver(
        small_config(stream_compression_ms=EVERY_MS, stream_compaction_ms=EVERY_MS, page_size_bytes=4096, **settings)
    )
    return driver, a_stream(driver, **{**PACKED, "x_stream_compact": True, "x_stream_key": "message-id"})


def queue_of(driver: NodeDriver, name: str = "s") -> Any:
    return driver.node.broker.vhosts["/"].queues[name]


def put(driver: NodeDriver, client: Client, bodies: list[bytes] = BODIES) -> None:
    """A page of each four."""
    for start in range(0, len(bodies), 2):
        for number in (start, start + 1):
            fill(driver, client, bodies[number], message_id=str(number))


def cool(driver: NodeDriver) -> None:
    """All pages leave RAM."""
    log = queue_of(driver).stream().log
    log.seal()
    log.page_out(1 << 40)


def wait(driver: NodeDriver, seconds: int) -> None:
    driver.wait(1000 * seconds)


def parts_of(driver: NodeDriver) -> Any:
    return queue_of(driver).stream().log.parts()


def unreadable(driver: NodeDriver, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Pages cannot be read from now on. Returns what was tried."""
    tried: list[str] = []
    read = driver.disk.read

    def refuse(path: str, offset: int, length: int) -> bytes:
        if path.endswith(".seg"):
            tried.append(path)
            raise OSError(errno.EIO, "Input/output error")
        return read(path, offset, length)

    monkeypatch.setattr(driver.disk, "read", refuse)
    return tried


@pytest.mark.parametrize(
    ("what", "told"),
    [("compressed", "is not compressed here any more"), ("compacted", "is not compacted here any more")],
)
def test_a_sector_that_cannot_be_read_is_told_once_and_the_node_goes_on(
    what: str, told: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    driver, client = a_node()
    put(driver, client)
    cool(driver)
    if what == "compacted":
        driver.node.broker.vhosts["/"].queues["s"]._packer.end()
    tried = unreadable(driver, monkeypatch)
    with caplog.at_level(logging.ERROR):
        if what == "compacted":
            queue = queue_of(driver)
            queue.group.submit(Compact(queue.queue_id))
            driver.settle()
        wait(driver, 5)
    assert len([each for each in caplog.records if told in each.getMessage()]) == 1
    assert "Input/output error" in caplog.text
    count = len(tried)
    wait(driver, 5)
    assert len(tried) == count


def test_old_places_go_though_nothing_happens_in_the_stream() -> None:
    driver, client = a_node()
    put(driver, client)
    cool(driver)
    queue = queue_of(driver)
    queue.group.raft.take_checkpoint()
    driver.settle()
    wait(driver, 10)
    assert any(part.is_packed for part in parts_of(driver))
    store = queue.group.pager.page_store
    assert disk_bytes(store, queue.queue_id) < sum(map(len, BODIES)) / 2


def test_who_waits_in_line_is_before_the_next_pass_of_the_same_stream() -> None:
    driver, client = a_node()
    put(driver, client)
    packer, looked = queue_of(driver)._packer, []
    packer._wait = lambda delay_ms: looked.append("this one")

    class Waiting:
        def look_again(self) -> None:
            looked.append("another one")

    room = packer._room
    assert room.enter(packer)
    assert not room.enter(Waiting())
    packer._ended(queue_of(driver).stream(), None, Packed(64, 100, 10, 0, True))
    assert looked == ["another one", "this one"]


def test_after_a_compaction_only_what_it_has_written_is_looked_at_again() -> None:
    driver, client = a_node()
    chance = Random(7)
    bodies = [chance.randbytes(1000) for _ in BODIES]  # it does not pay to compress them
    put(driver, client, bodies)
    cool(driver)
    wait(driver, 10)
    queue = queue_of(driver)
    log = queue.stream().log
    before = {part.page.first for part in log.parts()}
    assert log.packed > 40
    queue._packer.end()
    for number in range(50, 60):
        fill(driver, client, bodies[number], message_id=str(number))
    cool(driver)
    queue.group.submit(Compact(queue.queue_id))
    driver.settle()
    wait(driver, 5)
    assert log.compacted.below > 60
    assert log.unpacked_octets < 70_000
    assert 40 < log.packed < 60
    assert {part.page.first for part in log.parts() if part.page.first < log.packed} <= before


def test_a_stream_says_as_many_octets_as_its_cuts_have_though_it_is_packed() -> None:
    driver, client = a_node()
    put(driver, client)
    service = ServiceOnNode(driver)
    cool(driver)
    said = service.ask("stream.offsets", stream="s").fields["bytes"]
    wait(driver, 10)
    assert queue_of(driver).stream().log.octets < said / 2
    assert service.ask("stream.offsets", stream="s").fields["bytes"] == said > sum(map(len, BODIES))


def test_a_policy_that_ends_it_and_one_that_begins_it_again() -> None:
    driver = NodeDriver(small_config(stream_compression_ms=EVERY_MS, page_size_bytes=4096))
    client = a_stream(driver)
    put(driver, client)
    cool(driver)
    wait(driver, 5)
    assert not any(part.is_packed for part in parts_of(driver))
    counts = []
    for kind in ("zlib", "none", "zlib"):
        set_policy(driver, stream_compression=kind)
        wait(driver, 10)
        counts.append(sum(part.is_packed for part in parts_of(driver)))
        put(driver, client)
        cool(driver)
    assert 10 < counts[0] == counts[1] < counts[2] == len(parts_of(driver)) - counts[0]


def test_a_pass_finds_out_that_it_is_not_wanted_any_more() -> None:
    driver, client = a_node()
    put(driver, client)
    cool(driver)
    queue = queue_of(driver)
    packer = queue._packer
    first = packer._begin
    def begin(stream: Any, steps: Any) -> None:
        def cut() -> Any:
            for number, pending in enumerate(steps):  # each is waited for
                if number == 5:
                    queue.wanted = replace(queue.wanted, compression="none")
                    queue._see_to_packing()
                yield pending

        first(stream, cut())

    packer._begin = begin
    wait(driver, 10)
    assert queue._packer is None
    assert not any(part.is_packed for part in parts_of(driver))
    assert packer._room.busy is None
    queue.wanted = replace(queue.wanted, compression="zlib")
    queue._see_to_packing()
    wait(driver, 10)
    assert all(part.is_packed for part in parts_of(driver))

"""When a node compacts a stream, its time and its disk in the test's hand: a pass begins only if it has something to
do."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from amqp_broker.queue_types.stream import compactor
from amqp_broker.queue_types.stream.rewriting_room import RewritingRoom
from queues.stream.commands import Compact, CompactedTo, HoldStream
from queues.stream.compaction import Pass
from tests.node.node_driver import Client, NodeDriver, small_config
from tests.queue_types.stream.test_streams_of_a_node import a_stream, consume, delivered, fill, qos

COMPACTED = {"x_stream_compact": True, "x_stream_key": "message-id", "x_stream_tombstone_age": "0s"}
EVERY_MS = 1000


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[Pass]:
    """All that were begun."""
    begun: list[Pass] = []

    def begin(*arguments: Any) -> Pass:
        begun.append(Pass(*arguments))
        return begun[-1]

    monkeypatch.setattr(compactor, "Pass", begin)
    return begun


def a_node(**settings: object) -> tuple[NodeDriver, Client]:
    driver = NodeDriver(small_config(stream_compaction_ms=EVERY_MS, **settings))
    client = a_stream(driver, **COMPACTED)
    return driver, client


def queue_of(driver: NodeDriver) -> Any:
    return driver.node.broker.vhosts["/"].queues["s"]


def submit(driver: NodeDriver, command: Any) -> None:
    queue_of(driver).group.submit(command)
    driver.settle()


def put(driver: NodeDriver, client: Client, *values: tuple[str, bytes]) -> None:
    for key, body in values:
        fill(driver, client, body, message_id=key)


def wait(driver: NodeDriver, seconds: int) -> None:
    driver.wait(1000 * seconds)


def test_what_is_asked_for_is_done_once_and_may_be_asked_for_again(passes: list[Pass]) -> None:
    driver, client = a_node()
    for below in (2, 4):
        put(driver, client, ("a", b"1"), ("a", b"2"))
        submit(driver, Compact(queue_of(driver).queue_id))
        wait(driver, 1)
        assert queue_of(driver).stream().log.compacted.below == below
        assert queue_of(driver).stream().log.compacted.wanted == 0
    assert len(passes) == 2


def test_a_tombstone_that_is_the_last_one_is_no_reason_for_a_pass(passes: list[Pass]) -> None:
    driver, client = a_node()
    put(driver, client, ("a", b"1"), ("a", b""))
    submit(driver, Compact(queue_of(driver).queue_id))
    wait(driver, 60)
    assert queue_of(driver).stream().log.compacted.tombstones == 1
    assert len(passes) == 1


def test_a_tombstone_stays_for_its_age_after_what_it_hides_is_gone_everywhere(passes: list[Pass]) -> None:
    """A reader may have got what it hides a moment before, however old both are, and be on its way to the end."""
    driver = NodeDriver(small_config(stream_compaction_ms=EVERY_MS))
    client = a_stream(driver, **{**COMPACTED, "x_stream_tombstone_age": "60s"})
    put(driver, client, ("a", b"1"), ("a", b""), ("b", b"2"))
    wait(driver, 300)
    assert not passes
    submit(driver, Compact(queue_of(driver).queue_id))
    compacted = queue_of(driver).stream().log.compacted
    wait(driver, 55)
    assert (compacted.below, compacted.tombstones) == (3, 1)
    wait(driver, 10)
    assert (compacted.below, compacted.tombstones) == (3, 0)
    assert len(passes) == 2


def test_what_is_held_is_gone_over_once(passes: list[Pass]) -> None:
    driver, client = a_node()
    put(driver, client, ("a", b"1"), ("a", b"2"), ("a", b"3"), ("a", b"4"))
    submit(driver, HoldStream(queue_of(driver).queue_id, "somebody", 2, driver.now + 3_600_000))
    submit(driver, Compact(queue_of(driver).queue_id))
    wait(driver, 60)
    assert queue_of(driver).stream().log.compacted.below == 2
    assert len(passes) == 1
    client.send(1, qos(10), consume())
    driver.settle()
    assert delivered(client) == [(1, b"2"), (2, b"3"), (3, b"4")]


def test_readers_wait_no_longer_than_what_is_held_lets_them(passes: list[Pass]) -> None:
    """What this node has said before it was installed lies within a page, and somebody holds what is before it."""
    driver, client = a_node()
    put(driver, client, ("a", b"1"), ("a", b"2"), ("a", b"3"), ("a", b"4"))
    queue = queue_of(driver)
    submit(driver, HoldStream(queue.queue_id, "somebody", 1, driver.now + 3_600_000))
    submit(driver, CompactedTo(queue.queue_id, 3))  # as it comes with the log behind the install
    assert not queue.stream().log.compacted.is_enough
    wait(driver, 5)
    assert queue.stream().log.compacted.is_enough
    client.send(1, qos(10), consume())
    driver.settle()
    assert delivered(client) == [(2, b"3"), (3, b"4")]
    assert len(passes) == 1


def test_a_message_that_cannot_be_read_ends_it_and_is_told_once(
    passes: list[Pass], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    driver, client = a_node()
    put(driver, client, ("a", b"1"), ("a", b"2"))

    def refuse(self: Any, part: Any) -> Any:
        raise ValueError("damage")
        yield

    monkeypatch.setattr(Pass, "_rewrite", refuse)
    submit(driver, Compact(queue_of(driver).queue_id))
    with caplog.at_level(logging.WARNING):
        wait(driver, 20)
    assert len(passes) == 1
    assert len([each for each in caplog.records if "is not compacted here any more" in each.getMessage()]) == 1


def test_a_full_disk_is_told_once_and_tried_again_with_time(
    passes: list[Pass], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    driver, client = a_node()
    put(driver, client, ("a", b"1"), ("a", b"2"))

    def refuse(self: Any, end: int) -> Any:
        raise OSError(28, "No space left on device")
        yield

    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING):
        patch.setattr(Pass, "_flush", refuse)
        submit(driver, Compact(queue_of(driver).queue_id))
        wait(driver, 20)
        assert 10 <= len(passes) <= 21
        told = [record.getMessage() for record in caplog.records if "the disk is full" in record.getMessage()]
        assert len(told) == 1
    wait(driver, 2)
    assert queue_of(driver).stream().log.compacted.below == 2


def test_streams_that_wait_for_a_pass_of_another_one_do_not_ask_again_and_again() -> None:
    room = RewritingRoom.__new__(RewritingRoom)
    room.busy, room.waiting = None, {}
    looked: list[str] = []

    class Waiting:
        def __init__(self, name: str) -> None:
            self.name = name

        def look_again(self) -> None:
            looked.append(self.name)

    first, second, third = [Waiting(name) for name in ("1", "2", "3")]
    assert room.enter(first)  # type: ignore[arg-type]
    assert not room.enter(second)  # type: ignore[arg-type]
    assert not room.enter(third)  # type: ignore[arg-type]
    assert not looked
    room.leave()
    assert looked == ["2"]
    assert room.enter(second)  # type: ignore[arg-type]
    room.leave()
    assert looked == ["2", "3"]


def test_a_look_costs_the_same_however_many_pages_there_are(
    passes: list[Pass], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes over no list of pages."""
    driver, client = a_node(stream_compaction_percent=100)
    put(driver, client, ("a", b"1"), ("b", b"2"))
    log = queue_of(driver).stream().log
    monkeypatch.setattr(type(log), "stored_parts", None)
    monkeypatch.setattr(type(log), "page_ends", None)
    wait(driver, 5)
    assert not passes

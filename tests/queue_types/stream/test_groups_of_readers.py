"""Groups of readers on one node: who reads, how far they are, what comes again; its time and its disk in the test's
hand."""

from __future__ import annotations

import pytest

from amqp_broker.protocol import methods
from amqp_broker.protocol.frames import encode_method_frame
from amqp_broker.protocol.properties import decode_properties, encode_properties
from queues.stream.groups import Member, ReaderGroup
from queues.stream.source import source_of
from tests.node.node_driver import Client, NodeDriver, frame_octets
from tests.queue_types.stream.test_streams_of_a_node import a_stream, consume, fill, qos


@pytest.fixture
def driver() -> NodeDriver:
    return NodeDriver()


def member(driver: NodeDriver, prefetch: int = 100, group: str = "g", **arguments: object) -> Client:
    client = driver.client(1)
    client.send(1, qos(prefetch), consume(x_stream_group=group, **arguments))
    driver.settle()
    return client


def got(client: Client) -> list[tuple[int, bool, bytes]]:
    """Delivery tag, whether it was delivered before, and body of what has come."""
    found = [event for event in client.take() if event.method.name == "basic.deliver"]
    return [(event.method.delivery_tag, event.method.redelivered, event.body) for event in found]


def bodies(client: Client) -> list[bytes]:
    return [body for _, _, body in got(client)]


def group_of(driver: NodeDriver, name: str = "g") -> ReaderGroup:
    queue = driver.queue("s")
    found = queue.stream().groups.get(name)
    assert found is not None
    return found


def published(body: bytes, headers: dict[str, str]) -> bytes:
    octets = encode_method_frame(1, methods.BasicPublish(0, "", "s", False, False))
    section = encode_properties({"headers": headers})
    octets += frame_octets(2, 1, b"\x00\x3c\x00\x00" + len(body).to_bytes(8, "big") + section)
    return octets + frame_octets(3, 1, body)


def numbers(first: int, behind: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, behind)]


def test_one_reads_and_the_next_goes_on_behind_what_it_has_settled(driver: NodeDriver) -> None:
    publisher = a_stream(driver)
    fill(driver, publisher, *numbers(0, 10))
    one, other = member(driver), member(driver)
    assert bodies(one) == numbers(0, 10)
    assert bodies(other) == []
    one.send(1, methods.BasicAck(4, True))
    driver.settle()
    driver.lose(one)
    driver.settle()
    assert got(other) == [(number - 3, True, b"%d" % number) for number in range(4, 10)]
    fill(driver, publisher, b"new")
    assert got(other) == [(7, False, b"new")]


def test_the_position_is_the_lowest_that_is_not_settled(driver: NodeDriver) -> None:
    publisher = a_stream(driver)
    fill(driver, publisher, *numbers(0, 10))
    reader = member(driver)
    for tag in (3, 2, 7, 10):
        reader.send(1, methods.BasicAck(tag, False))
    driver.wait(driver.config.stream_position_ms)
    assert group_of(driver).position == 0
    reader.send(1, methods.BasicAck(1, False))
    driver.settle()
    assert group_of(driver).position == 0  # it is stored now and then
    driver.wait(driver.config.stream_position_ms)
    assert (group_of(driver).position, group_of(driver).delivered) == (3, 10)


def test_what_a_filter_passes_over_moves_the_position(driver: NodeDriver) -> None:
    """Else it would be gone over again after a crash, and the group be behind for ever."""
    publisher = a_stream(driver)
    fill(driver, publisher, *numbers(0, 5), headers={"x-stream-filter-value": "red"})
    fill(driver, publisher, *numbers(5, 9), headers={"x-stream-filter-value": "blue"})
    reader = member(driver, x_stream_filter="blue")
    assert bodies(reader) == numbers(5, 9)
    driver.wait(driver.config.stream_position_ms)
    assert group_of(driver).position == 5
    reader.send(1, methods.BasicAck(4, True))
    fill(driver, publisher, *numbers(9, 12), headers={"x-stream-filter-value": "red"})
    driver.wait(2 * driver.config.stream_position_ms)
    assert bodies(reader) == []
    assert group_of(driver).position == 12
    driver.crash()
    assert group_of(driver).position == 12


def test_what_a_filter_passes_over_within_a_chunk_moves_the_position_too(driver: NodeDriver) -> None:
    """Where there are values besides, so that the chunk is looked at."""
    publisher = a_stream(driver)
    for value in ("red", "blue"):
        for body in numbers(0, 3):
            publisher.send_octets(published(body, {"x-stream-filter-value": value}))
    driver.settle()
    reader = member(driver, x_stream_filter="blue")
    assert bodies(reader) == numbers(0, 3)
    driver.wait(2 * driver.config.stream_position_ms)
    assert group_of(driver).position == 3


def test_retention_moves_the_position_of_a_reader_that_it_passes(driver: NodeDriver) -> None:
    publisher = a_stream(driver)
    fill(driver, publisher, *numbers(0, 4))
    reader = member(driver, x_stream_filter="none")
    source = source_of(driver.queue("s"))
    assert source is not None
    source.trim(4, lambda error, first: None)
    driver.wait(2 * driver.config.stream_position_ms)
    assert (group_of(driver).position, bodies(reader)) == (4, [])


def test_a_group_goes_on_where_it_was_after_a_restart(driver: NodeDriver) -> None:
    publisher = a_stream(driver)
    fill(driver, publisher, *numbers(0, 10))
    reader = member(driver)
    reader.send(1, methods.BasicAck(6, True))
    driver.settle()
    driver.wait(driver.config.stream_position_ms)
    driver.crash()
    assert bodies(member(driver, x_stream_offset="next")) == numbers(6, 10)
    assert bodies(member(driver, group="another", x_stream_offset="last")) == numbers(0, 10)  # the last chunk


def test_what_comes_back_comes_again_with_its_count_and_holds_the_position(driver: NodeDriver) -> None:
    publisher = a_stream(driver)
    fill(driver, publisher, *numbers(0, 3))
    reader = member(driver)
    assert bodies(reader) == numbers(0, 3)
    reader.send(1, methods.BasicNack(1, False, True), methods.BasicReject(2, False), methods.BasicAck(3, False))
    driver.settle()
    events = [event for event in reader.events if event.method.name == "basic.deliver"]
    headers = decode_properties(events[0].properties).headers
    assert headers is not None
    assert (headers["x-delivery-count"], headers["x-stream-offset"]) == (1, 0)
    assert got(reader) == [(4, True, b"0")]
    driver.wait(driver.config.stream_position_ms)
    assert group_of(driver).position == 0
    reader.send(1, methods.BasicAck(4, False))
    driver.settle()
    driver.wait(driver.config.stream_position_ms)
    assert group_of(driver).position == 3


def test_who_is_cancelled_may_settle_what_it_holds_for_a_while(driver: NodeDriver) -> None:
    publisher = a_stream(driver)
    fill(driver, publisher, *numbers(0, 4))
    one, late, other = member(driver, 2), member(driver, 2), member(driver)
    assert bodies(one) == numbers(0, 2)
    one.send(1, methods.BasicCancel("tag", False))
    driver.settle()
    assert bodies(late) == []
    one.send(1, methods.BasicAck(2, True))
    driver.settle()
    assert bodies(late) == numbers(2, 4)
    late.send(1, methods.BasicCancel("tag", False), methods.BasicAck(1, False))
    driver.settle()
    assert bodies(other) == []
    driver.wait(driver.config.stream_handover_ms)
    assert got(other) == [(1, True, b"3")]
    late.send(1, methods.BasicAck(2, False))  # too late: it is credit, and nothing else
    driver.settle()
    assert group_of(driver).position == 3


def test_without_acknowledgements_what_leaves_is_stored_as_done_before(driver: NodeDriver) -> None:
    publisher = a_stream(driver)
    fill(driver, publisher, *numbers(0, 600))
    reader = driver.client(1)
    reader.send(1, qos(10), methods.BasicConsume(
        0, "s", "tag", False, True, False, False, consume(x_stream_group="g").arguments
    ))  # fmt: skip
    driver.settle()
    assert bodies(reader) == numbers(0, 600)
    assert group_of(driver).position == 600
    driver.crash()
    assert bodies(member(driver)) == []


def test_groups_and_plain_readers_do_not_know_of_each_other(driver: NodeDriver) -> None:
    publisher = a_stream(driver)
    fill(driver, publisher, *numbers(0, 5))
    readers = [member(driver, group=name) for name in ("g", "h")]
    plain = driver.client(1)
    plain.send(1, qos(100), consume())
    driver.settle()
    for reader in (*readers, plain):
        assert bodies(reader) == numbers(0, 5)


def test_only_the_reader_of_the_present_moves_the_position() -> None:
    group = ReaderGroup(5)
    one, other = Member("a", 1), Member("b", 1)
    group.join(one)
    group.join(other)
    group.join(one)
    assert (group.reader, group.generation) == (one, 1)
    assert group.store(1, 7, 9)
    assert group.store(1, 6, 6)
    assert (group.position, group.delivered) == (7, 9)
    group.lose_all("a", 8)
    assert (group.reader, group.generation) == (other, 2)
    assert not group.store(1, 9, 9)
    assert group.position == 7
    group.seek(2)
    assert (group.position, group.delivered, group.generation) == (2, 2, 3)
    group.leave(other)
    assert group.reader is None


@pytest.mark.parametrize("name", ["", "x" * 256, 5, None, True])
def test_a_group_has_a_name(driver: NodeDriver, name: object) -> None:
    a_stream(driver)
    client = driver.client(1)
    client.send(1, qos(1), consume(x_stream_group=name))
    driver.settle()
    close = next(event.method for event in client.take() if event.method.name == "channel.close")
    assert close.reply_code == 406
    assert "x-stream-group" in close.reply_text


def test_after_a_crash_what_may_have_been_delivered_is_marked(driver: NodeDriver) -> None:
    publisher = a_stream(driver)
    fill(driver, publisher, *numbers(0, 3))
    reader = member(driver)
    assert bodies(reader) == numbers(0, 3)
    driver.crash()
    again = member(driver)
    assert got(again) == [(1, True, b"0"), (2, True, b"1"), (3, True, b"2")]


def test_who_seeks_has_the_reader_go_on_there(driver: NodeDriver) -> None:
    publisher = a_stream(driver)
    fill(driver, publisher, *numbers(0, 6))
    reader = member(driver)
    assert bodies(reader) == numbers(0, 6)
    source = source_of(driver.queue("s"))
    said: list[tuple[Exception | None, int]] = []
    source.seek("g", 4, lambda refusal, position: said.append((refusal, position)))
    driver.settle()
    assert said == [(None, 4)]
    assert got(reader) == [(7, False, b"4"), (8, False, b"5")]
    reader.send(1, methods.BasicAck(6, True))  # of before: credit, and nothing else
    driver.settle()
    assert group_of(driver).position == 4
    source.forget("g", lambda refusal, position: said.append((refusal, position)))
    driver.settle()
    assert "consumers read with it" in str(said[-1][0])
    driver.lose(reader)
    driver.settle()
    source.forget("g", lambda refusal, position: said.append((refusal, position)))
    driver.settle()
    assert said[-1] == (None, 0)
    assert source.figures().groups == {}


def test_who_has_left_while_it_asks_to_be_a_member_again_is_no_error(
    driver: NodeDriver, caplog: pytest.LogCaptureFixture
) -> None:
    a_stream(driver)
    client = member(driver)
    (reader,) = driver.queue("s").consumers.values()
    driver.lose(client)
    reader.join(reader._joined_again)  # the session was lost before
    driver.settle()
    assert not group_of(driver).members
    assert not caplog.records

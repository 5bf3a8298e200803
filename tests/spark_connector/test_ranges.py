"""Ranges of streams without Spark: how they are cut into parts, what is lost, what the readers ask a broker for."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.streaming.datasource import ReadMaxRows

from amqp_broker import running, running_cluster
from amqp_broker.client import Connection
from amqp_broker.protocol.fields import Table
from amqp_broker.protocol.methods import QueueDeclare, QueueDelete
from amqp_broker.system_client import SystemClient
from spark_connector.errors import DataLoss, Refused
from spark_connector.link import Answer
from spark_connector.offsets import Offsets, Position
from spark_connector.options import Options
from spark_connector.range_reader import RangeReader, RangeStreamReader
from spark_connector.range_source import StreamRange, _runs
from spark_connector.service import Service
from tests.robustness.broker import Broker
from tests.spark_connector.row_types import columns_of

ROWS = columns_of("body binary, offset bigint, partition int")
LIMIT = ReadMaxRows(1000)


@given(
    st.integers(0, 1000), st.integers(1, 500), st.lists(st.integers(0, 2000), max_size=40, unique=True),
    st.integers(1, 12),
)  # fmt: skip
def test_parts_leave_nothing_out(start: int, count: int, cuts: list[int], parts: int) -> None:
    found = _runs(start, start + count, sorted(cuts), min(parts, count))
    assert len(found) == min(parts, count)
    assert (found[0][0], found[-1][1]) == (start, start + count)
    assert all(one[1] == other[0] and one[0] < one[1] for one, other in itertools.pairwise(found))


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("ranges")) as running:
        yield running


@pytest.fixture
def url(broker: Broker) -> str:
    """A stream `s` without messages."""
    with broker.connect() as connection, connection.channel() as channel:
        channel.call(QueueDelete(queue="s"))
        channel.call(QueueDeclare(queue="s", durable=True, arguments=Table({"x-queue-type": "stream"})))
    return str(broker.url)


def publish(url: str, *bodies: bytes, **headers: object) -> None:
    with Connection.open(url) as connection, connection.channel() as channel:
        channel.confirm_select()
        for body in bodies:
            channel.publish("", "s", body, {"headers": headers} if headers else {})
        channel.wait_for_confirms()


def reader(url: str, **options: object) -> RangeStreamReader:
    written = {key: str(value) for key, value in options.items()}
    return RangeStreamReader(Options.parse({"uri": url, "queue": "s", "pollTimeout": "10ms", **written}), ROWS)


def rows(found: RangeStreamReader | RangeReader, parts: Any) -> list[tuple[int, bytes]]:
    batches = [batch for part in parts for batch in found.read(part)]
    return [(row["offset"], row["body"]) for batch in batches for row in batch.to_pylist()]


def batch_of(url: str, **options: object) -> list[bytes]:
    written = {key: str(value) for key, value in options.items()}
    found = RangeReader(Options.parse({"uri": url, "queue": "s", **written}), ROWS)
    return [body for _, body in rows(found, found.partitions())]


def position(offsets: dict[str, Any]) -> int:
    return Offsets.from_json(offsets)["s"].offset


def holds(url: str) -> list[dict[str, Any]]:
    with SystemClient(url) as client:
        return list(client.request("stream.stat", vhost="/", name="s")["holds"])


def trim(url: str, before: int) -> None:
    with SystemClient(url) as client:
        client.request("stream.trim", vhost="/", name="s", before=before)


@pytest.fixture
def partitioned(broker: Broker) -> Iterator[str]:
    """`p` has three partitions, and twelve messages with different keys."""
    arguments = Table({"x-queue-type": "stream", "x-stream-partitions": 3})
    with broker.connect() as connection, connection.channel() as channel:
        channel.call(QueueDeclare(queue="p", durable=True, arguments=arguments))
        channel.confirm_select()
        for number in range(12):
            channel.publish("", "p", b"%d" % number, {"headers": {"x-stream-key": f"key {number}"}})
        channel.wait_for_confirms()
    yield str(broker.url)
    with broker.connect() as connection, connection.channel() as channel:
        channel.call(QueueDelete(queue="p"))


def all_rows(found: RangeStreamReader | RangeReader, parts: Any) -> list[dict[str, Any]]:
    return [row for part in parts for batch in found.read(part) for row in batch.to_pylist()]


def test_a_node_that_is_behind_is_asked_again_and_nothing_is_passed_over(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one of a version answers that does not wait for what its range has."""
    publish(url, b"one", b"two")
    query = reader(url, failOnDataLoss="false", startingOffsets="earliest")
    begin = query.initialOffset()
    parts = query.partitions(begin, query.latestOffset(begin, LIMIT))
    receive, behind = Service.receive, [2]

    def answer(service: Service, name: str, verb: str, timeout: float = 30.0) -> Answer:
        found = receive(service, name, verb, timeout)
        if verb == "stream.fetch" and behind[0]:
            behind[0] -= 1
            return Answer(found.fields, {"x-end": 0, "x-first": 0, "x-next": 0}, b"")
        return found

    monkeypatch.setattr(Service, "receive", answer)
    assert rows(query, parts) == [(0, b"one"), (1, b"two")]
    assert behind == [0]


def test_latest_is_what_it_was_when_the_query_began(url: str) -> None:
    """Spark asks where a query begins until it has had a batch."""
    publish(url, b"old")
    query = reader(url, startingOffsets="latest")
    begin = query.initialOffset()
    assert query.latestOffset(begin, LIMIT) == begin
    publish(url, b"new")
    again = query.initialOffset()
    assert again == begin
    assert rows(query, query.partitions(again, query.latestOffset(again, LIMIT))) == [(1, b"new")]
    query.stop()


def test_a_stream_with_partitions_is_read_by_all_of_them(partitioned: str) -> None:
    columns = columns_of("queue string, partition int, offset bigint, body binary")
    table = RangeReader(Options.parse({"uri": partitioned, "queue": "p"}), columns)
    found = all_rows(table, table.partitions())
    assert sorted(int(row["body"]) for row in found) == list(range(12))
    assert {(row["queue"], row["partition"]) for row in found} == {("p-0", 0), ("p-1", 1), ("p-2", 2)}
    query = RangeStreamReader(Options.parse({"uri": partitioned, "queue": "p", "pollTimeout": "10ms"}), columns)
    begin = query.initialOffset()
    end = query.latestOffset(begin, LIMIT)
    assert sorted(Offsets.from_json(end)) == ["p-0", "p-1", "p-2"]
    assert sorted(all_rows(query, query.partitions(begin, end)), key=str) == sorted(found, key=str)
    query.stop()
    again = RangeStreamReader(Options.parse({"uri": partitioned, "queue": "p"}), columns)
    assert len(all_rows(again, again.partitions(begin, end))) == 12, "a batch that failed, by a query that goes on"
    again.stop()


def test_a_partition_that_is_added_is_read_from_its_first_message(partitioned: str) -> None:
    query = RangeStreamReader(Options.parse({"uri": partitioned, "queue": "p", "pollTimeout": "10ms"}), ROWS)
    end = query.latestOffset(query.initialOffset(), LIMIT)
    with SystemClient(partitioned) as client:
        client.request("stream.grow", vhost="/", name="p", partitions=5)
    with Connection.open(partitioned) as connection, connection.channel() as channel:
        channel.confirm_select()
        for number in range(12, 40):
            channel.publish("", "p", b"%d" % number, {"headers": {"x-stream-key": f"key {number}"}})
        channel.wait_for_confirms()
    rest = query.latestOffset(end, LIMIT)
    found = all_rows(query, query.partitions(end, rest))
    assert sorted(int(row["body"]) for row in found) == list(range(12, 40))
    assert {row["partition"] for row in found} == {0, 1, 2, 3, 4}
    query.stop()


def test_a_query_goes_on_where_its_checkpoint_is(url: str) -> None:
    publish(url, *[b"%d" % number for number in range(10)])
    first = reader(url)
    begin = first.initialOffset()
    end = first.latestOffset(begin, ReadMaxRows(4))
    assert (position(begin), position(end)) == (0, 4)
    assert rows(first, first.partitions(begin, end)) == [(number, b"%d" % number) for number in range(4)]
    first.stop()
    second = reader(url)
    rest = second.latestOffset(end, LIMIT)
    assert [offset for offset, _ in rows(second, second.partitions(end, rest))] == list(range(4, 10))
    assert [offset for offset, _ in rows(second, second.partitions(begin, end))] == list(range(4))
    assert second.latestOffset(rest, LIMIT) == rest
    second.stop()


def test_what_is_there_now_is_what_a_run_reads(url: str) -> None:
    publish(url, b"1", b"2")
    found = reader(url)
    found.prepareForTriggerAvailableNow()
    begin = found.initialOffset()
    publish(url, b"3")
    end = found.latestOffset(begin, LIMIT)
    assert position(end) == 2
    assert found.latestOffset(end, LIMIT) == end
    found.stop()


@pytest.mark.parametrize(
    ("options", "bodies"),
    [
        ({}, b"0 1 2 3"), ({"startingOffsets": "2"}, b"2 3"), ({"endingOffsets": '{"s": 1}'}, b"0"),
        ({"startingOffsets": "latest"}, b""), ({"startingOffsets": "1", "endingOffsets": "3"}, b"1 2"),
        ({"startingTimestamp": "2001-01-01T00:00:00Z"}, b"0 1 2 3"), ({"endingTimestamp": "5"}, b""),
        ({"startingTimestamp": "4000000000000"}, b""), ({"endingOffsets": "99"}, b"0 1 2 3"),
        ({"numPartitions": "1"}, b"0 1 2 3"), ({"maxMessagesPerPartition": "1"}, b"0 1 2 3"),
        ({"fetchSize": "1"}, b"0 1 2 3"),
    ],
)  # fmt: skip
def test_a_batch_is_between_its_ends(url: str, options: dict[str, str], bodies: bytes) -> None:
    publish(url, b"0", b"1", b"2", b"3")
    assert batch_of(url, **options) == bodies.split()


def test_only_what_has_the_value_is_read(url: str) -> None:
    publish(url, b"1", **{"x-stream-filter-value": "red"})
    publish(url, b"2", **{"x-stream-filter-value": "blue"})
    publish(url, b"3")
    assert batch_of(url, filterValues="red") == [b"1"]
    assert batch_of(url, filterValues="red,green", matchUnfiltered="true") == [b"1", b"3"]


def test_tasks_get_as_many_octets_each(url: str) -> None:
    publish(url, *[b"x" * 100_000 for _ in range(30)], *[b"y"] * 6000)
    parts = [part for part in RangeReader(
        Options.parse({"uri": url, "queue": "s", "numPartitions": "3"}), ROWS
    ).partitions() if isinstance(part, StreamRange)]  # fmt: skip
    assert len(parts) == 3
    assert parts[0].end < 20
    assert parts[-1].end == 6030


def test_a_batch_is_bounded_by_octets(url: str) -> None:
    publish(url, *[b"x" * 300_000 for _ in range(10)])
    found = reader(url, maxBytesPerBatch="1m")
    begin = found.initialOffset()
    assert 1 <= position(found.latestOffset(begin, LIMIT)) <= 4
    found.stop()


# -- holds


def test_a_hold_is_at_the_checkpoint_and_its_name_is_in_it(url: str) -> None:
    publish(url, *[b"x"] * 10)
    first = reader(url, holdTime="10s")
    begin = first.initialOffset()
    assert holds(url) == []
    end = first.latestOffset(begin, ReadMaxRows(4))
    (hold,) = holds(url)
    assert (hold["name"], hold["offset"]) == (begin["h"], 0)
    assert end["h"] == begin["h"]
    first.stop()
    second = reader(url)
    second.latestOffset(end, LIMIT)
    second.stop()
    (hold,) = holds(url)
    assert (hold["name"], hold["offset"]) == (begin["h"], 4)


def test_without_a_hold_there_is_none(url: str) -> None:
    publish(url, b"x")
    found = reader(url, hold="false")
    found.latestOffset(found.initialOffset(), LIMIT)
    found.stop()
    assert holds(url) == []


# -- what is lost


def test_what_retention_took_is_an_error_that_names_the_gap(url: str) -> None:
    publish(url, *[b"%d" % number for number in range(10)])
    found = reader(url)
    begin = found.initialOffset()
    end = found.latestOffset(begin, ReadMaxRows(4))
    trim(url, 6)
    for ask in (lambda: found.latestOffset(begin, LIMIT), lambda: found.partitions(begin, end)):
        with pytest.raises(DataLoss, match="queue 's': offsets 0 to 6 are gone, retention has taken them: it has 6"):
            ask()
    with pytest.raises(DataLoss, match="of the range 0 to 4 something is gone"):
        rows(found, [StreamRange("s", begin["q"]["s"]["g"], 0, 4)])
    with pytest.raises(DataLoss, match=r"offset 2 \(startingOffsets\) is gone: it has 6 to 10"):
        batch_of(url, startingOffsets="2")
    found.stop()
    careless = reader(url, failOnDataLoss="false")
    end = careless.latestOffset(begin, LIMIT)
    assert [body for _, body in rows(careless, careless.partitions(begin, end))] == [b"6", b"7", b"8", b"9"]
    assert rows(careless, [StreamRange("s", begin["q"]["s"]["g"], 0, 8)]) == [(6, b"6"), (7, b"7")]
    assert batch_of(url, startingOffsets="2", failOnDataLoss="false") == [b"6", b"7", b"8", b"9"]
    careless.stop()


def test_a_stream_made_anew_is_another_one(url: str) -> None:
    publish(url, b"1", b"2")
    found = reader(url)
    begin = found.initialOffset()
    end = found.latestOffset(begin, LIMIT)
    with Connection.open(url) as connection, connection.channel() as channel:
        channel.call(QueueDelete(queue="s"))
        channel.call(QueueDeclare(queue="s", durable=True, arguments=Table({"x-queue-type": "stream"})))
    publish(url, b"new")
    with pytest.raises(DataLoss, match="that was deleted"):
        found.latestOffset(end, LIMIT)
    found.stop()
    careless = reader(url, failOnDataLoss="false")
    assert careless.partitions(begin, end) == []
    again = careless.latestOffset(end, LIMIT)
    assert again["q"]["s"]["o"] == 1
    assert [body for _, body in rows(careless, careless.partitions(end, again))] == [b"new"]
    careless.stop()


def test_another_kind_of_queue_is_none(url: str, broker: Broker) -> None:
    with broker.connect() as connection, connection.channel() as channel:
        channel.call(QueueDeclare(queue="plain", durable=True))
    found = RangeStreamReader(Options.parse({"uri": url, "queue": "plain"}), ROWS)
    with pytest.raises(Refused, match="mode=stream reads queues that are streams"):
        found.initialOffset()


def test_a_restart_in_the_middle_is_waited_out() -> None:
    with running(log_level="error") as broker:
        with Connection.open(broker.url) as connection, connection.channel() as channel:
            channel.call(QueueDeclare(queue="s", durable=True, arguments=Table({"x-queue-type": "stream"})))
        publish(broker.url, *[b"%d" % number for number in range(100)])
        found = reader(broker.url, fetchSize="1k")
        begin = found.initialOffset()
        end = found.latestOffset(begin, LIMIT)
        got = []
        for part in found.partitions(begin, end):
            for number, batch in enumerate(found.read(part)):
                got += [row["body"] for row in batch.to_pylist()]
                if number == 0:
                    broker.restart(kill=True)
        assert got == [b"%d" % number for number in range(100)]
        assert found.latestOffset(end, LIMIT) == end
        found.stop()
        assert Offsets.from_json(end)["s"] == Position(end["q"]["s"]["g"], 100)


def test_a_node_that_is_killed_takes_nothing_along() -> None:
    """The query goes to another node, in the middle of a range and between two, and has each offset once."""
    with running_cluster(3, log_level="error") as cluster:
        urls = ",".join(cluster.urls)
        with Connection.open(cluster.urls[0]) as connection, connection.channel() as channel:
            channel.call(QueueDeclare(queue="s", durable=True, arguments=Table({"x-queue-type": "stream"})))
        publish(cluster.urls[0], *[b"%d" % number for number in range(300)])
        found = reader(urls, fetchSize="1k")
        at, got = found.initialOffset(), []
        for number, node in enumerate(cluster.nodes):
            end = found.latestOffset(at, ReadMaxRows(100))
            for part in found.partitions(at, end):
                for count, batch in enumerate(found.read(part)):
                    got += [(row["offset"], row["body"]) for row in batch.to_pylist()]
                    if count == 1 and number < 2:
                        node.kill()
            if number < 2:
                node.start()
            at = end
        found.stop()
        assert got == [(number, b"%d" % number) for number in range(300)]

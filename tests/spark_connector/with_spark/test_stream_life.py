"""The life of a streaming query: what is settled when, what comes again after a failure, what never does."""

from __future__ import annotations

import shutil
import time
from functools import partial

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame

from tests.spark_connector.with_spark.scene import Collector, Scene, numbered


def test_what_is_there_comes_once_and_in_order_and_nothing_is_left(scene: Scene) -> None:
    scene.publish(numbered(2500))
    got = Collector()
    scene.drain(scene.stream(maxMessagesPerBatch=1000, numPartitions=1).select("offset", "body"), got)
    assert [len(batch) for batch in got.batches.values()] == [1000, 1000, 500]
    assert got.bodies == numbered(2500)
    assert scene.counts() == (0, 0)
    scene.publish(numbered(10, 2500))
    scene.drain(scene.stream().select("offset", "body"), got)
    assert got.bodies == numbered(2510)


def test_nothing_to_do_is_done_at_once(scene: Scene) -> None:
    got = Collector()
    query = scene.drain(scene.stream(), got)
    assert not query.isActive
    assert got.bodies == []


def test_a_batch_that_failed_comes_again_with_the_same_rows_whatever_the_limit(scene: Scene) -> None:
    scene.publish(numbered(300))
    failed, good = Collector(fails_in=0), Collector()
    with pytest.raises(StreamingQueryException, match="as the test wants it"):
        scene.drain(scene.stream(maxMessagesPerBatch=100), failed)
    assert scene.counts() == (100, 200)  # the batch, and the next one, which was claimed ahead
    scene.drain(scene.stream(maxMessagesPerBatch=30), good)
    assert good.batches[0] == failed.batches[0]
    assert len(good.batches[1]) == 30
    assert good.bodies == numbered(300)
    assert scene.counts() == (0, 0)


def test_an_idle_query_settles_its_last_batch(scene: Scene) -> None:
    scene.publish(numbered(50))
    _, table = scene.to_memory(scene.stream().select("body"))
    scene.wait_until(lambda: len(scene.rows(table)) == 50)
    scene.wait_until(lambda: scene.counts() == (0, 0))


def test_it_stops_while_it_waits_for_messages(scene: Scene) -> None:
    scene.publish(numbered(1))
    query, table = scene.to_memory(scene.stream(pollTimeout="5s").select("body"))
    scene.wait_until(lambda: len(scene.rows(table)) == 1 and scene.counts() == (0, 0))
    begin = time.monotonic()
    query.stop()
    assert time.monotonic() - begin < 4.5, "it waits for messages, and not to be stopped"
    assert query.exception() is None


def test_two_actions_on_a_batch_see_the_same_rows(scene: Scene) -> None:
    scene.publish(numbered(200))
    seen = []

    def each(frame: DataFrame, batch: int) -> None:
        seen.append((frame.count(), sorted(row.offset for row in frame.collect()), frame.unionAll(frame).count()))

    scene.drain(scene.stream(), each)
    assert seen == [(200, list(range(200)), 400)]


def test_two_groups_share_a_queue_without_overlap(scene: Scene) -> None:
    _, first = scene.to_memory(scene.stream(group="one").select("body"))
    _, second = scene.to_memory(scene.stream(group="two").select("body"))

    def got() -> list[bytes]:
        return [bytes(row.body) for table in (first, second) for row in scene.rows(table)]

    for start in range(0, 400, 100):
        scene.publish(numbered(100, start))
        wanted = start + 100
        scene.wait_until(partial(lambda least: len(got()) >= least, wanted))
    assert sorted(got()) == sorted(numbered(400))


def test_the_younger_of_two_queries_on_a_group_wins(scene: Scene) -> None:
    older, table = scene.to_memory(scene.stream(pollTimeout="50ms"))
    scene.publish(numbered(1))
    scene.wait_until(lambda: len(scene.rows(table)) == 1)
    younger = Collector()
    scene.publish(numbered(5, 1))
    scene.drain(scene.stream(), younger)
    with pytest.raises(StreamingQueryException) as caught:
        older.awaitTermination(30)
    assert "queue 'q', group 'g'" in str(caught.value)
    assert "another query has taken the group over" in str(caught.value)


def test_a_queue_made_anew_is_no_silent_loss(scene: Scene) -> None:
    scene.publish(numbered(20))
    scene.drain(scene.stream(), Collector())
    scene.delete("q")
    scene.declare("q")
    scene.publish(numbered(5, 20))
    with pytest.raises(StreamingQueryException) as caught:
        scene.drain(scene.stream(), Collector())
    for said in ("queue 'q'", "the queue or the group was made anew", "failOnDataLoss=false"):
        assert said in str(caught.value)
    got = Collector()
    scene.drain(scene.stream(failOnDataLoss="false"), got)
    assert got.bodies == numbered(5, 20)
    assert scene.counts() == (0, 0)


def test_without_its_checkpoint_it_begins_with_what_is_not_settled(scene: Scene) -> None:
    scene.publish(numbered(30))
    failed, good = Collector(fails_in=1), Collector()
    with pytest.raises(StreamingQueryException):
        scene.drain(scene.stream(maxMessagesPerBatch=10), failed)
    shutil.rmtree(scene.checkpoint())
    scene.drain(scene.stream(), good)
    assert good.bodies == numbered(20, 10)
    assert scene.counts() == (0, 0)


def test_a_batch_is_bounded_in_octets(scene: Scene) -> None:
    scene.publish([b"x" * 10_000] * 100)
    got = Collector()
    scene.drain(scene.stream(maxBytesPerBatch="200k"), got)
    sizes = [len(batch) for batch in got.batches.values()]
    assert sum(sizes) == 100
    assert max(sizes) <= 21


def test_several_queues_and_one_that_comes_later(scene: Scene) -> None:
    for queue in ("a", "b"):
        scene.declare(queue)
        scene.publish(numbered(10), queue)
    got: list[tuple[str, bytes]] = []

    def each(frame: DataFrame, batch: int) -> None:
        got.extend((row.queue, bytes(row.body)) for row in frame.select("queue", "body").collect())

    def stream(queues: str) -> DataFrame:
        return scene.spark.readStream.format("amqp").options(uri=scene.url, queues=queues, group="g").load()

    scene.drain(stream("a,b"), each)
    scene.publish(numbered(3), "q")
    scene.drain(stream("a,b,q"), each)
    assert sorted(got) == sorted(
        [("a", body) for body in numbered(10)] + [("b", body) for body in numbered(10)]
        + [("q", body) for body in numbered(3)]
    )  # fmt: skip
    assert [scene.counts(queue) for queue in ("a", "b", "q")] == [(0, 0)] * 3


@pytest.mark.long
def test_a_fuller_batch_is_waited_for(scene: Scene) -> None:
    scene.publish(numbered(3))
    sizes: list[int] = []
    frame = scene.stream(minMessagesPerBatch=10, maxTriggerDelay="60s", pollTimeout="100ms")
    writer = frame.writeStream.foreachBatch(lambda batch, number: sizes.append(batch.count()))
    scene.started(writer.start())
    scene.wait_until(lambda: scene.ask("lease.stat", queue="q")["groups"] != [])
    assert scene.counts() == (3, 0)
    scene.publish(numbered(7, 3))
    scene.wait_until(lambda: bool(sizes))
    assert sizes == [10]


def test_progress_tells_how_far_the_queue_reaches(scene: Scene) -> None:
    scene.publish(numbered(5))
    query, table = scene.to_memory(scene.stream().select("body"))
    scene.wait_until(lambda: len(scene.rows(table)) == 5)

    def tells() -> bool:
        report = query.lastProgress
        return report is not None and '"o": 5' in str(report.sources[0].latestOffset)

    scene.wait_until(tells)

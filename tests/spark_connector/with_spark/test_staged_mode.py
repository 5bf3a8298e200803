"""mode=staged: any broker, at least once, through a shared folder."""

from __future__ import annotations

import pytest
from pyspark.errors import StreamingQueryException

from tests.spark_connector.with_spark.scene import Collector, Scene, numbered


def test_messages_of_any_broker_come_through_a_folder(scene: Scene) -> None:
    scene.publish(numbered(2500))
    got = Collector()
    frame = scene.stream(mode="staged", stagingDir=scene.folder / "staged", maxMessagesPerBatch=1000)
    scene.drain(frame, got)
    assert [len(batch) for batch in got.batches.values()] == [1000, 1000, 500]
    assert sorted(got.bodies) == sorted(numbered(2500))
    assert scene.counts() == (0, 0)
    assert list((scene.folder / "staged").rglob("*.blob")) == []


@pytest.mark.long
def test_a_batch_that_failed_comes_again_with_the_same_rows(scene: Scene) -> None:
    scene.publish(numbered(300))
    failed, good = Collector(fails_in=0), Collector()
    staged = {"mode": "staged", "stagingDir": scene.folder / "staged"}
    with pytest.raises(StreamingQueryException, match="as the test wants it"):
        scene.drain(scene.stream(**staged, maxMessagesPerBatch=100), failed)
    scene.drain(scene.stream(**staged, maxMessagesPerBatch=30), good)
    assert good.batches[0] == failed.batches[0]
    assert sorted(good.bodies) == sorted(numbered(300))


def test_a_missing_queue_is_named(scene: Scene) -> None:
    with pytest.raises(StreamingQueryException, match=r"queue 'nowhere'.*declare it, or correct option 'queue'"):
        scene.drain(scene.stream("nowhere", mode="staged", stagingDir=scene.folder / "staged"), Collector())

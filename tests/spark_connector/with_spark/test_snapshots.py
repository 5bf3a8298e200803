"""spark.read: a look at what is ready, which stays there."""

from __future__ import annotations

import json
from datetime import datetime

from tests.spark_connector.with_spark.scene import Scene, numbered


def test_a_snapshot_consumes_nothing_and_is_the_same_for_every_action(scene: Scene) -> None:
    scene.publish(numbered(2500))
    frame = scene.browse(numPartitions=2)
    assert frame.rdd.getNumPartitions() == 2
    first = sorted(bytes(row.body) for row in frame.select("body").collect())
    scene.publish(numbered(10, 5000))
    assert sorted(bytes(row.body) for row in frame.select("body").collect()) == first
    assert first == sorted(numbered(2500))
    assert frame.select("body").distinct().count() == 2500
    assert scene.counts() == (2510, 0)


def test_offsets_bound_a_snapshot(scene: Scene) -> None:
    scene.publish(numbered(10))
    everything = sorted((row.offset, bytes(row.body)) for row in scene.browse().select("offset", "body").collect())
    first = everything[0][0]

    def between(**options: object) -> list[tuple[int, bytes]]:
        rows = scene.browse(numPartitions=1, **options).select("offset", "body").collect()
        return [(row.offset, bytes(row.body)) for row in rows]

    assert between(startingOffsets=first + 3, endingOffsets=first + 7) == everything[3:7]
    assert between(startingOffsets=first + 3) == everything[3:]
    assert between(startingOffsets="latest") == between(endingOffsets="earliest") == []
    assert between(startingOffsets="0", endingOffsets=first + 100) == everything
    assert scene.counts() == (10, 0)


def test_an_empty_queue_is_an_empty_table(scene: Scene) -> None:
    assert scene.browse().collect() == []


def test_chosen_columns_and_sql(scene: Scene) -> None:
    scene.publish(numbered(3), properties={"app_id": "shop", "priority": 4})
    frame = scene.spark.read.format("amqp").schema("body binary, app_id string").options(uri=scene.url, queue="q")
    frame.load().createOrReplaceTempView("snapshot")
    found = scene.spark.sql("select app_id, cast(body as string) text from snapshot order by text").collect()
    assert [tuple(row) for row in found] == [("shop", "0"), ("shop", "1"), ("shop", "2")]


def test_headers_of_every_kind_come_as_json(scene: Scene) -> None:
    headers = {"n": 1, "s": "ü", "b": True, "f": 0.5, "x": b"\x00", "t": datetime(2020, 1, 2), "a": [1, {"k": None}]}
    scene.publish([b"x"], properties={"headers": headers})
    (row,) = scene.browse(headersFormat="json").selectExpr("headers", "get_json_object(headers, '$.a[0]') a").collect()
    assert json.loads(row.headers) == {**headers, "x": "AA==", "t": "2020-01-02T00:00:00Z"}
    assert row.a == "1"
    (row,) = scene.browse(headersFormat="variant").selectExpr("variant_get(headers, '$.n', 'int') n").collect()
    assert row.n == 1

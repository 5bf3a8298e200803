"""One Spark session for all tests here, as lean as it gets, and queues on the session's broker.

Starting Spark takes ten seconds: all of these are for one worker of a parallel run.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from amqp_broker.pytest_plugin import BrokerForTest
from spark_connector.local_session import local_session
from tests.spark_connector.with_spark.scene import Scene

_NUMBERS = itertools.count(1)


def pytest_itemcollected(item: pytest.Item) -> None:
    """It is told of the tests below its folder."""
    if item.get_closest_marker("xdist_group") is None:
        item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """local[2], without a web page, on compilers that start quickly."""
    with tempfile.TemporaryDirectory(prefix="spark-tests-") as folder:
        session = local_session(Path(folder), cores=2, level="error")
        yield session
        session.stop()


@pytest.fixture
def scene(spark: SparkSession, amqp_broker: BrokerForTest, tmp_path: Path) -> Iterator[Scene]:
    """The session, a virtual host, and a queue `q` in it."""
    scene = Scene(spark, amqp_broker.url, tmp_path, next(_NUMBERS))
    scene.declare("q")
    yield scene
    scene.close()

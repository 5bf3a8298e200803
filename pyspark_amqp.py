"""What makes Spark find format("amqp") by itself: it looks for modules named pyspark_* with a `DefaultSource`.

Nothing has to be called where the package is installed in the environment of the driver and of all executors. Where
Spark cannot look, `register(spark)` does it by hand.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from spark_connector.data_source import AmqpDataSource


class DefaultSource(AmqpDataSource):
    """The source that Spark registers."""


def register(spark: SparkSession) -> None:
    """Makes format("amqp") known to a session that was started before the package was installed. It ships no code:
    docs/spark.md says how executors that lack the package get it."""
    spark.dataSource.register(DefaultSource)

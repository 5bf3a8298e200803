"""What the campaign submits to Spark: queue `in` to queue `out` in transactions, and queue `in2` into Parquet files.

    spark-submit ... application.py URL FOLDER
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from tests.spark_connector.chaos.hooked_source import HookedSource
from tests.spark_connector.chaos.moments import folder

#: Small fetches: half a range is a number of them.
BATCH = {
    "maxMessagesPerBatch": "200", "maxMessagesPerPartition": "50", "brokerRetryTimeout": "60s", "fetchSize": "1k",
}  # fmt: skip


def main(url: str, work: Path) -> None:
    spark = SparkSession.builder.appName("chaos").getOrCreate()
    java = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()  # type: ignore[union-attr]
    new = folder() / "driver.new"
    new.write_text(f"{java} {os.getpid()}")
    new.rename(folder() / "driver.pid")
    spark.dataSource.register(HookedSource)

    def stream(queue: str) -> object:
        return spark.readStream.format("hooked").options(uri=url, queue=queue, group="chaos", **BATCH).load()

    frame = stream("in").selectExpr("body", "'out' routing_key", "message_id")  # type: ignore[attr-defined]
    writer = frame.writeStream.format("hooked").options(uri=url, delivery="transactional", brokerRetryTimeout="60s")
    writer.option("checkpointLocation", str(work / "checkpoint-out")).start()
    plain = spark.readStream.format("amqp").options(uri=url, queue="in2", group="chaos", **BATCH).load()
    files = plain.selectExpr("cast(body as string) id").writeStream.format("parquet")
    files = files.option("path", str(work / "files")).option("checkpointLocation", str(work / "checkpoint-files"))
    files.start()
    spark.streams.awaitAnyTermination()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))

"""From source lines and commits to a table: stock clients publish and enrich, Spark ingests and computes.

    this project's files and its git history
      -> aio-pika publishes them, one message each, into the queue `raw`
      -> a pool of aio-pika workers takes, enriches, publishes into `enriched`, acks
      -> Spark drains `enriched` into Parquet files, each message once
      -> Spark computes a table from the files
      -> Spark publishes the changes into the stream `changes`, in transactions
      -> two queries of Spark read the stream, each all of it: a count, and the newest by its offsets

`make spark-demo` runs it with all that it needs.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aio_pika

import amqp_broker
from amqp_broker.client import Connection
from amqp_broker.protocol.fields import Table
from amqp_broker.protocol.methods import QueueDeclare

ROOT = Path(__file__).resolve().parent.parent
IN_FLIGHT = 500


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


# -- the data set ------------------------------------------------------------------------------------------------------


def source_lines() -> Iterator[dict[str, Any]]:
    """Every line of the project's Python files."""
    for path in sorted(ROOT.rglob("*.py")):
        name = path.relative_to(ROOT)
        if name.parts[0] in ("build", "dist") or name.parts[0].startswith("."):
            continue
        for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            yield {"kind": "line", "file": str(name), "number": number, "text": text}


def changes() -> Iterator[dict[str, Any]]:
    """Every file of every commit, with the lines that were added and removed; none outside of a git checkout."""
    command = ["git", "log", "--no-merges", "--numstat", "--format=@%h %cI %s"]
    try:
        log = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return
    commit = moment = subject = ""
    for line in log.splitlines():
        if line.startswith("@"):
            commit, moment, subject = line[1:].split(" ", 2)
        elif line.count("\t") == 2 and not line.startswith("-"):
            added, removed, name = line.split("\t")
            yield {
                "kind": "change", "file": name, "commit": commit, "at": moment, "subject": subject,
                "added": int(added), "removed": int(removed),
            }  # fmt: skip


# -- stock clients -----------------------------------------------------------------------------------------------------


async def publish(url: str, items: Iterator[dict[str, Any]]) -> int:
    """All items into `raw`, confirmed, some hundred at a time."""
    count = 0
    async with await aio_pika.connect_robust(url) as connection:
        channel = await connection.channel()
        await channel.declare_queue("raw", durable=True)
        await channel.declare_queue("enriched", durable=True)
        waiting: list[Any] = []
        for item in items:
            waiting.append(channel.default_exchange.publish(_message(item), "raw"))
            count += 1
            if len(waiting) == IN_FLIGHT:
                await asyncio.gather(*waiting)
                waiting.clear()
        await asyncio.gather(*waiting)
    return count


async def work(url: str, workers: int, count: int) -> None:
    """A pool of workers; returns when they have enriched so many."""
    left = asyncio.Semaphore(0)

    async def worker() -> None:
        async with await aio_pika.connect_robust(url) as connection:
            channel = await connection.channel()
            await channel.set_qos(prefetch_count=200)
            queue = await channel.declare_queue("raw", durable=True)

            async def handle(message: aio_pika.abc.AbstractIncomingMessage) -> None:
                async with message.process():  # acked when the result is confirmed
                    await channel.default_exchange.publish(_message(enriched(json.loads(message.body))), "enriched")
                left.release()

            await queue.consume(handle)
            await stop.wait()

    stop = asyncio.Event()
    pool = [asyncio.create_task(worker()) for _ in range(workers)]
    for _ in range(count):
        await left.acquire()
    stop.set()
    await asyncio.gather(*pool)


def _message(item: dict[str, Any]) -> aio_pika.Message:
    return aio_pika.Message(
        json.dumps(item).encode(), content_type="application/json", type=item["kind"],
        delivery_mode=aio_pika.DeliveryMode.PERSISTENT,
    )  # fmt: skip


def enriched(item: dict[str, Any]) -> dict[str, Any]:
    """What a worker adds: the package, what kind of line it is, how many words it has."""
    package = item["file"].partition("/")[0] if "/" in item["file"] else "(top)"
    found = {**item, "package": package}
    if item["kind"] == "line":
        text = item["text"].strip()
        found["sort"] = "blank" if not text else "comment" if text.startswith("#") else "code"
        found["words"] = len(text.split())
    return found


# -- Spark -------------------------------------------------------------------------------------------------------------

SCHEMA = """kind string, file string, package string, sort string, words int, commit string, at timestamp,
            added int, removed int"""
TABLE = """
select l.package, l.files, l.code, round(100 * l.comments / (l.code + l.comments), 1) as `comments %`,
       coalesce(c.commits, 0) as commits, coalesce(c.added, 0) as added, coalesce(c.removed, 0) as removed,
       c.liveliest as `most often changed`
from (select package, count(distinct file) files, count_if(sort = 'code') code, count_if(sort = 'comment') comments
      from data where kind = 'line' group by package) l
left join (select package, sum(commits) commits, sum(added) added, sum(removed) removed, max_by(file, commits) liveliest
           from (select package, file, count(distinct commit) commits, sum(added) added, sum(removed) removed
                 from data where kind = 'change' group by package, file) group by package) c
on l.package = c.package
order by l.code desc
"""


def ingest_and_compute(url: str, folder: Path, scratch: Path) -> None:
    """The stream into Parquet, and the table from it."""
    from spark_connector.local_session import local_session

    spark = local_session(scratch, cores=os.cpu_count() or 1)
    begin = time.monotonic()
    source = spark.readStream.format("amqp").option("uri", url)
    messages = source.option("queue", "enriched").option("group", "demo").load()
    rows = messages.select(from_json_of(SCHEMA).alias("row")).select("row.*")
    rows.writeStream.format("parquet").option("path", str(folder / "data")).option(
        "checkpointLocation", str(folder / "checkpoint")
    ).trigger(availableNow=True).start().awaitTermination()
    data = spark.read.parquet(str(folder / "data"))
    say(f"Spark has {data.count()} rows in Parquet, after {time.monotonic() - begin:.1f} s; the table:\n")
    data.createOrReplaceTempView("data")
    spark.sql(TABLE).show(30, truncate=48)
    from_queue_to_stream(spark, url, folder)
    spark.stop()


def from_queue_to_stream(spark: Any, url: str, folder: Path) -> None:
    """What was ingested goes on into a stream, exactly once; and is read there by as many as want."""
    with Connection.open(url) as connection, connection.channel() as channel:
        channel.call(QueueDeclare(queue="changes", durable=True, arguments=Table({"x-queue-type": "stream"})))
    data = spark.readStream.schema(spark.table("data").schema).parquet(str(folder / "data"))
    rows = data.where("kind = 'change'").selectExpr("to_json(struct(*)) body", "'changes' routing_key")
    rows.writeStream.format("amqp").option("uri", url).option("delivery", "transactional").option(
        "checkpointLocation", str(folder / "changes-checkpoint")
    ).trigger(availableNow=True).start().awaitTermination()
    read = spark.read.format("amqp").option("uri", url).option("queue", "changes")
    found = read.schema("body binary, offset bigint").load().selectExpr("count(*) n", "max(offset) newest").first()
    say(f"the stream has {found.n} changes, the newest at offset {found.newest}; and a query of its own:")
    stream = spark.readStream.format("amqp").option("uri", url).option("queue", "changes").load()
    counted = stream.select(from_json_of(SCHEMA).alias("row")).groupBy("row.package").count()
    counted.writeStream.format("memory").queryName("counted").outputMode("complete").trigger(
        availableNow=True
    ).start().awaitTermination()
    spark.sql("select package, count changes from counted order by count desc").show(10)


def from_json_of(schema: str) -> Any:
    """The body of a message as a row."""
    from pyspark.sql.functions import col, from_json

    return from_json(col("body").cast("string"), schema)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--lines", type=int, default=20_000, help="how many source lines at most [20000]")
    parser.add_argument("--workers", type=int, default=4, help="consumers that enrich [4]")
    parser.add_argument("--to", type=Path, default=Path("spark-demo"), help="where the Parquet files go [./spark-demo]")
    asked = parser.parse_args()
    shutil.rmtree(asked.to, ignore_errors=True)
    every = max(1, sum(1 for _ in source_lines()) // asked.lines + 1) if asked.lines else 1
    items = [item for number, item in enumerate(source_lines()) if number % every == 0] + list(changes())
    scratch = tempfile.TemporaryDirectory(prefix="spark-demo-")
    with amqp_broker.running(log_level="warning") as broker, scratch as folder:
        say(f"a broker runs on {broker.url}")
        begin = time.monotonic()
        count = asyncio.run(publish(broker.url, iter(items)))
        say(f"aio-pika has published {count} messages, confirmed, in {time.monotonic() - begin:.1f} s")
        begin = time.monotonic()
        asyncio.run(work(broker.url, asked.workers, count))
        say(f"{asked.workers} aio-pika workers have enriched them in {time.monotonic() - begin:.1f} s; starting Spark")
        ingest_and_compute(broker.url, asked.to.absolute(), Path(folder))
    say(f"the files are in {asked.to}/data")


if __name__ == "__main__":
    main()

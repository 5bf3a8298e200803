"""What is in a queue, into files, exactly once: `amqp-broker drain`.

    DIR/batch=000012/part-*.parquet   a batch: whole and synced, or not there
    DIR/_drain.json                   which queue, which lease group, which format
    DIR/_checkpoint, DIR/_unfinished  Spark's notes; a batch that is being written

A batch is written aside, synced and renamed; then Spark notes that it is done; then it is settled at the broker. One
that Spark runs again has the same rows, so a folder that is there already is that batch. Readers leave out names that
begin with "_"; the rest is theirs.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from amqp_broker.octets.whole_file import sync
from spark_connector.errors import ConnectorError, Refused
from spark_connector.local_session import local_session
from spark_connector.options import Options
from spark_connector.service import Service, explained

NOTE: Final = "_drain.json"
_POLL_S: Final = 1


@dataclass(frozen=True)
class Drain:
    """What to do: the messages of `queue` into `folder`. body: how octets are written where a format has only text.
    tls: the connector's options for amqps://, by name."""

    url: str
    queue: str
    folder: Path
    format: str = "parquet"
    body: str = "text"
    batch: int = 100_000
    cores: int = 2
    tls: Mapping[str, str] = field(default_factory=dict)


def drain(order: Drain, on_progress: Callable[[int, int], None]) -> int:
    """Drains what is there now, and goes on where an earlier drain into the folder stopped. Returns how many messages
    it wrote. on_progress(done, total) is called now and then. Raises ConnectorError, PySparkException."""
    group = _group(order)
    total = _waiting(order, group)
    on_progress(0, total)
    with tempfile.TemporaryDirectory(prefix="amqp-broker-drain-") as scratch:
        session = local_session(Path(scratch), cores=order.cores, name=f"drain {order.queue}")
        try:
            done = _run(order, group, session, total, on_progress)
        finally:
            session.stop()
    shutil.rmtree(order.folder / "_unfinished", ignore_errors=True)
    return done


def _group(order: Drain) -> str:
    """The lease group of this folder, noted in it. Raises ConnectorError for a folder that holds something else."""
    note = order.folder / NOTE
    mine = {"queue": order.queue, "format": order.format, "body": order.body}
    if note.exists():
        found = json.loads(note.read_text(encoding="utf-8"))
        if {name: found.get(name) for name in mine} != mine or not (order.folder / "_checkpoint").exists():
            said = f"queue '{found.get('queue')}', format {found.get('format')}, body {found.get('body')}"
            raise ConnectorError(
                f"{order.folder} belongs to another drain ({said}), or has lost its checkpoint: give another folder"
            )
        return str(found["group"])
    if order.folder.exists() and any(order.folder.iterdir()):
        raise ConnectorError(f"{order.folder} is not empty and no earlier drain wrote it: give a new folder")
    (order.folder / "_checkpoint").mkdir(parents=True, exist_ok=True)
    group = f"drain-{uuid.uuid4().hex}"
    new = note.with_suffix(".new")
    new.write_text(json.dumps({**mine, "group": group}), encoding="utf-8")
    new.replace(note)
    return group


def _waiting(order: Drain, group: str) -> int:
    """How many messages there are. Raises ConnectorError, before Spark is started for nothing."""
    service = Service(Options.parse({"uri": order.url, **order.tls}), is_first=True)
    try:
        found = service.ask("lease.stat", {"queue": order.queue, "group": group}).fields
    except Refused as error:
        raise explained(error, order.queue, None) from error
    service.close()
    return int(found["ready"]) + sum(int(each["next"]) - int(each["trimmed"]) for each in found["groups"])


def _run(
    order: Drain, group: str, session: SparkSession, total: int, on_progress: Callable[[int, int], None]
) -> int:
    reader = session.readStream.format("amqp").options(
        uri=order.url, queue=order.queue, group=group, maxMessagesPerBatch=str(order.batch),
        numPartitions=str(order.cores), headersFormat="map" if order.format == "parquet" else "json",
        **order.tls,
    )  # fmt: skip
    progress = Progress()
    query = (
        _as_text(reader.load(), order)
        .writeStream.foreachBatch(lambda frame, number: _write(order, frame, number))
        .option("checkpointLocation", str((order.folder / "_checkpoint").absolute()))
        .trigger(availableNow=True)
        .start()
    )
    with _stopped_at_the_end(query):
        while not query.awaitTermination(_POLL_S):
            on_progress(progress.done(query), total)
    done = progress.done(query)
    on_progress(done, max(done, total))
    return done


@contextmanager
def _stopped_at_the_end(query: StreamingQuery) -> Iterator[None]:
    try:
        yield
    finally:
        if query.isActive:
            query.stop()


def _as_text(frame: DataFrame, order: Drain) -> DataFrame:
    """The frame with a body that the format can hold."""
    if order.format == "parquet":
        return frame
    body = "base64(body)" if order.body == "base64" else "validate_utf8(cast(body as string))"
    return frame.selectExpr(f"{body} body", *[f"`{name}`" for name in frame.columns if name != "body"])


def _write(order: Drain, frame: DataFrame, number: int) -> None:
    """One batch: aside, synced, renamed; nothing if it is there."""
    target = order.folder / f"batch={number:06d}"
    if target.exists():
        return
    unfinished = order.folder / "_unfinished" / f"batch={number:06d}"
    writer = frame.write.mode("overwrite")
    if order.format == "csv":
        writer = writer.option("header", "true").option("escape", '"')
    writer.format(order.format).save(str(unfinished.absolute()))
    for path in [*unfinished.iterdir(), unfinished]:
        sync(path)
    unfinished.rename(target)
    sync(order.folder)


class Progress:
    """How many messages a query has written so far, from its own reports."""

    def __init__(self) -> None:
        self._rows: dict[int, int] = {}

    def done(self, query: StreamingQuery) -> int:
        for report in query.recentProgress:
            self._rows[report.batchId] = sum(_span(source) for source in report.sources)
        return sum(self._rows.values())


def _span(source: Any) -> int:
    """From where to where a batch went. The first of a query says no start: it is the end less its rows."""
    end = _offsets(source.endOffset)
    start = _offsets(source.startOffset)
    return sum(offset - start[queue] for queue, offset in end.items()) if start else int(source.numInputRows)


def _offsets(text: str | None) -> dict[str, int]:
    parsed = json.loads(text) if text and text != "null" else None
    return {queue: int(at["o"]) for queue, at in parsed["q"].items()} if isinstance(parsed, dict) else {}

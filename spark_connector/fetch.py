"""Reads a range of a lease group in blobs: the next one is asked for before the last one is decoded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa

from amqp_broker.client import ClientError
from spark_connector.decode import Decoder
from spark_connector.errors import Refused
from spark_connector.link import Answer
from spark_connector.options import Options
from spark_connector.service import Busy, Retry, Service, explained


def fetch(
    options: Options, decoder: Decoder, queue: str, incarnation: str, start: int, end: int
) -> Iterator[pa.RecordBatch]:
    """The messages [start, end) of a queue's group, in order, whatever happens to the connection meanwhile.

    Raises Refused if they are gone, BrokerUnavailable.
    """
    fields: dict[str, object] = {"queue": queue, "group": options.group, "incarnation": incarnation}
    try:
        yield from fetch_range(options, decoder, queue, incarnation, "lease.fetch", fields, start, end)
    except Refused as error:
        raise explained(error, queue, options.group) from error


def fetch_range(
    options: Options, decoder: Decoder, queue: str, incarnation: str, verb: str, fields: Mapping[str, object],
    start: int, end: int,
) -> Iterator[pa.RecordBatch]:  # fmt: skip
    """The messages [start, end) that a verb answers with, in order. Raises Refused, BrokerUnavailable."""
    service = Service(options)
    at = start
    retry = None
    name = None
    while at < end:
        request = {**fields, "from": at, "to": end, "max_bytes": options.fetch_size, "columns": decoder.parts}
        try:
            if name is None:
                name = service.send(verb, request)
            answer = service.receive(name, verb)
            if int(answer.headers["x-end"]) <= at:
                _say_why(verb, answer, at, end)
        except ClientError as error:
            service.drop()
            name = None
            retry = retry or Retry(options, options.broker_retry_timeout, f"reading queue '{queue}'")
            retry.pause(error)
            continue
        retry = None
        at = int(answer.headers["x-end"])
        name = None
        if at < end:
            try:
                name = service.send(verb, {**request, "from": at})
            except ClientError:
                service.drop()  # what has come is handed out first; then it is asked again, patiently
        yield from batches(decoder, answer.body, queue, incarnation, options.arrow_batch_rows)
    service.close()


def _say_why(verb: str, answer: Answer, start: int, end: int) -> None:
    """There is nothing in an answer. A node whose copy of a stream ends there is behind, and has lost nothing. Raises
    Refused, Busy."""
    known = answer.headers.get("x-next")
    if known is not None and int(known) <= start:
        raise Busy(f"{verb}: the node that has answered knows the stream to offset {known}, not {start} to {end} yet")
    raise Refused(f"{verb}: the messages from offset {start} to {end} are not there", "gone")


def batches(
    decoder: Decoder, blob: bytes, queue: str, incarnation: str | None, most_rows: int
) -> Iterator[pa.RecordBatch]:
    """A blob as batches of at most so many rows."""
    batch = decoder.batch(blob, queue, incarnation)
    for first in range(0, batch.num_rows, most_rows):
        yield batch.slice(first, most_rows)


"""`python -m benchmarks.lease_service`: how fast messages go through leases and transactions.

First blobs alone, in this process: encoding from messages and from pages, and reading. Then a real broker and one
blocking client, which asks for one thing after the other: claim, fetch of all columns and of the body alone, stage,
commit.
"""

from __future__ import annotations

import time

import click

from amqp_broker import running
from amqp_broker.leases.blob import ALL_COLUMNS, BlobReader, BlobWriter
from benchmarks.lease_client import LeaseClient
from benchmarks.machine import is_compiled
from queues.message import Address, Message, build_message
from queues.page import PageBuilder

BLOB_MESSAGES = 2000
BLOB_BYTES = 8 * 1024 * 1024
COLUMNS = {"all columns": None, "body": ["body"]}


def message_of(size: int) -> Message:
    address = Address(b"\x00\x05queue")
    return build_message(address, b"\x90\x00\x0atext/plain\x02", b"x" * size, True, -1, -1, 1_700_000_000_000)


def rate(what: str, count: int, seconds: float) -> None:
    click.echo(f"{what:40} {count / seconds:14,.0f} messages/s")


def measure_blobs(size: int) -> None:
    """Encoding and reading, in this process."""
    messages = [message_of(size) for _ in range(BLOB_MESSAGES)]
    builder = PageBuilder()
    for number, message in enumerate(messages):
        builder.add(message, number, 0, 0, 0, False)
    page = builder.seal()
    data = page.data or b""
    blob = b""
    for what in ("encode messages", "encode a page", "read"):
        began = time.perf_counter()
        rounds = 0
        while time.perf_counter() - began < 1:
            rounds += 1
            if what == "read":
                reader = BlobReader(blob)
                while reader.advance():
                    pass
                continue
            writer = BlobWriter(ALL_COLUMNS, BLOB_BYTES, BLOB_MESSAGES)
            if what == "encode a page":
                writer.add_records(0, data, 0, page.size)
            else:
                for number, message in enumerate(messages):
                    writer.add(number, False, 0, message)
            blob = writer.take()
        rate(f"blob: {what}", rounds * BLOB_MESSAGES, time.perf_counter() - began)


def measure_broker(size: int, count: int, kind: str) -> None:
    """Through a real broker, one request after the other."""
    with running() as broker, LeaseClient(broker.url) as client:
        client.declare("source", kind)
        client.declare("sink", kind)
        client.fill("source", count, b"x" * size)
        opened = client.ask("lease.open", queue="source", group="g", owner="me")
        caller = {"queue": "source", "group": "g", "owner": "me", "incarnation": opened["incarnation"]}
        began = time.perf_counter()
        end = 0
        while end < count:
            end = client.ask("lease.claim", **caller, after=end, max_messages=100_000)["end"]
        rate(f"{kind}: claim", count, time.perf_counter() - began)
        for what, columns in COLUMNS.items():
            began = time.perf_counter()
            client.fetch(caller, count, columns)
            rate(f"{kind}: fetch, {what}", count, time.perf_counter() - began)
        began = time.perf_counter()
        client.ask("lease.ack", **caller, upto=count)
        rate(f"{kind}: ack", count, time.perf_counter() - began)
        staged = client.blob(b"x" * size, "sink", BLOB_MESSAGES)
        rounds = count // BLOB_MESSAGES
        began = time.perf_counter()
        for number in range(rounds):
            client.stage(staged, app="a", epoch=0, partition=0, attempt=1, sequence=number)
        rate(f"{kind}: stage", rounds * BLOB_MESSAGES, time.perf_counter() - began)
        began = time.perf_counter()
        client.ask("txn.commit", app="a", epoch=0, attempts={"0": 1})
        rate(f"{kind}: commit", rounds * BLOB_MESSAGES, time.perf_counter() - began)


@click.command()
@click.option("--messages", default=200_000, show_default=True)
@click.option("--size", default=200, show_default=True, help="Octets of a body.")
@click.option("--kind", type=click.Choice(["classic", "quorum"]), multiple=True, default=["classic"])
def main(messages: int, size: int, kind: tuple[str, ...]) -> None:
    """Measure, and print."""
    click.echo(f"{'compiled' if is_compiled() else 'plain'}, {size} octets")
    measure_blobs(size)
    for each in kind:
        measure_broker(size, messages, each)


if __name__ == "__main__":
    main()

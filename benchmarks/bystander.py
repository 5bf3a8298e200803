"""How long an unrelated connection waits while a queue gives up very many messages.

`python -m benchmarks.bystander` starts each broker on loopback. One process asks a hundred times a second for a message
of an empty queue, another fills a queue and then makes all of it dead letters: by their TTL, by one basic.nack for all,
by a message that takes the place of all. It prints the median, the 99th percentile and the longest wait, and the
broker's processor time for the event.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from multiprocessing.synchronize import Event

import click

from amqp_broker.bench.target import Target
from amqp_broker.client import Channel, Connection
from amqp_broker.protocol import methods
from amqp_broker.protocol.fields import Table
from benchmarks.brokers import Broker, own_broker, rabbitmq_broker, temporary_folder

ASK_EVERY_S = 0.01
TTL_MS = 20_000
BODY = b"x" * 100
_EVENTS = ("ttl", "reject", "max-length", "nothing")


def ask(url: str, is_over: Event, results: multiprocessing.Queue[list[float]]) -> None:
    """Note how long each basic.get of an empty queue takes, seconds, until it is over."""
    waits: list[float] = []
    with Connection.open(url) as connection, connection.channel() as channel:
        declare(channel, "bystander", {})
        while not is_over.is_set():
            began = time.perf_counter()
            channel.get("bystander", no_ack=True)
            waits.append(time.perf_counter() - began)
            time.sleep(max(0.0, ASK_EVERY_S - waits[-1]))
    results.put(waits)


def declare(channel: Channel, name: str, arguments: dict[str, object]) -> int:
    """Declare a durable queue. Returns how many messages it has."""
    table = Table(arguments)
    answer = channel.call(methods.QueueDeclare(0, name, False, True, False, False, False, table))
    return int(answer.message_count)


def prepare(channel: Channel, event: str, count: int) -> Callable[[], None]:
    """Fill a queue. Returns what makes all its messages dead letters (for a TTL: what waits until it comes)."""
    arguments: dict[str, object] = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    if event == "ttl":
        arguments["x-message-ttl"] = TTL_MS
    if event == "max-length":
        arguments["x-max-length-bytes"] = count * len(BODY)
    declare(channel, "dead", {})
    declare(channel, "source", arguments)
    channel.confirm_select()
    for start in range(0, count, 1000):
        for _ in range(min(1000, count - start)):
            channel.publish("", "source", BODY, {"delivery_mode": 2})
        channel.wait_for_confirms()
    if event == "reject":
        deliveries = channel.consume("source")
        for _ in range(count):
            deliveries.next(60.0)
        return lambda: channel.nack(0, multiple=True, requeue=False)
    if event == "max-length":
        return lambda: channel.publish("", "source", bytes(count * len(BODY)), {"delivery_mode": 2})
    return lambda: None


def measure(broker: Broker, url: str, event: str, count: int) -> str:
    """One event beside a bystander: a line that says how long that one waited."""
    with Connection.open(url, timeout=120.0) as connection, connection.channel() as channel:
        happen = prepare(channel, event, count)
        is_over = multiprocessing.Event()
        results: multiprocessing.Queue[list[float]] = multiprocessing.Queue()
        bystander = multiprocessing.Process(target=ask, args=(url, is_over, results))
        before = broker.cpu_seconds()
        bystander.start()
        time.sleep(0.5)
        happen()
        began = time.perf_counter()
        while event != "nothing" and declare(channel, "dead", {}) < count and time.perf_counter() - began < 120:
            time.sleep(0.25)
        took = time.perf_counter() - began
        time.sleep(0.5)
        is_over.set()
        waits = sorted(results.get())
        bystander.join()
        cpu = broker.cpu_seconds() - before
        moved = declare(channel, "dead", {})
        for name in ("source", "dead"):
            channel.call(methods.QueueDelete(0, name, False, False, False))
    p50, p99, longest = (1000 * waits[int(share * (len(waits) - 1))] for share in (0.5, 0.99, 1.0))
    return (
        f"{broker.name:10} {event:10} {moved:7} letters: waits p50 {p50:6.1f} p99 {p99:6.1f} longest "
        f"{longest:6.1f} ms, processor {cpu:5.2f} s, after {took:4.1f} s"
    )


def url_of(target: Target) -> str:
    return f"amqp://guest:guest@{target.host}:{target.port}"


@click.command()
@click.option("--count", default=100_000, show_default=True, help="Messages that become dead letters.")
@click.option("--event", "events", multiple=True, type=click.Choice(_EVENTS), help="Only these.")
@click.option("--rabbitmq/--no-rabbitmq", default=False, help="Beside Debian's RabbitMQ.")
def main(count: int, events: tuple[str, ...], rabbitmq: bool) -> None:
    """How long an unrelated connection waits while a queue gives up very many messages."""
    chosen = events or _EVENTS
    with temporary_folder() as folder, own_broker(folder) as broker:
        for event in chosen:
            click.echo(measure(broker, url_of(broker.target), event, count))
    if rabbitmq:
        with temporary_folder() as folder, rabbitmq_broker(folder) as broker:
            for event in chosen:
                click.echo(measure(broker, url_of(broker.target), event, count))


if __name__ == "__main__":
    main()

"""The Celery application of the interop tests, as a user would write it: a worker process imports it, and so
do the tests.

A worker finds it as `-A interop_tests.celery_app`, with `INTEROP_BROKER_URL` and `INTEROP_QUEUE` in its
environment; a test makes its own side of the same application with `make_app`. Results go back over rpc://.
"""

# mypy: disable-error-code="no-untyped-call,untyped-decorator,attr-defined"

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

from celery import Celery, shared_task
from kombu import Exchange, Queue


def make_queue(name: str, exchange_type: str = "direct", **options: Any) -> Queue:
    """A durable queue on an exchange of its own name."""
    return Queue(name, Exchange(name, exchange_type), routing_key=name, durable=True, **options)


def make_app(
    url: str, queue: str, queue_type: str = "classic", exchange_type: str = "direct", stream: str = ""
) -> Any:
    """The application with its tasks, at a broker, with a queue of this name and type, and one with priorities beside
    it. Tasks for later are held by the broker where the queue is a quorum queue and the exchange is not direct. stream:
    that of a quorum queue over a stream.
    """
    arguments = {"x-queue-type": queue_type} if queue_type != "classic" else {}
    if stream:
        arguments |= {"x-stream-source": stream, "x-stream-offset": "first"}
    app = Celery("interop", broker=url, backend="rpc://", set_as_current=False)
    app.conf.update(
        task_default_queue=queue,
        task_default_exchange=queue,
        task_default_exchange_type=exchange_type,
        task_default_routing_key=queue,
        task_default_queue_type=queue_type,
        task_queues=[
            make_queue(queue, exchange_type, queue_arguments=arguments),
            make_queue(f"{queue}-priority", exchange_type, max_priority=10),
        ],
        result_expires=60,
        worker_send_task_events=True,
        task_send_sent_event=True,
        worker_prefetch_multiplier=1,
        broker_connection_retry_on_startup=True,
        broker_connection_retry=True,
    )
    return app


@shared_task(name="interop.add")
def add(x: float, y: float) -> float:
    return x + y


@shared_task(name="interop.fail")
def fail(text: str) -> None:
    raise ValueError(text)


@shared_task(name="interop.succeed_at_last", bind=True, max_retries=5)
def succeed_at_last(self: Any, failures: int) -> int:
    """Fails so many times before it succeeds; returns how many retries it took."""
    if self.request.retries < failures:
        raise self.retry(countdown=0.05)
    return int(self.request.retries)


@shared_task(name="interop.hold", bind=True, acks_late=True, reject_on_worker_lost=True)
def hold(self: Any, marker: str) -> str:
    """At its first delivery leaves a mark and never ends; at a later one says so."""
    if self.request.delivery_info["redelivered"]:
        return "redelivered"
    Path(marker).write_text(str(os.getpid()))
    threading.Event().wait()
    return "unreachable"


@shared_task(name="interop.append")
def append(path: str, text: str) -> None:
    with Path(path).open("a") as file:
        file.write(text + "\n")


@shared_task(name="interop.echo")
def echo(payload: Any) -> Any:
    return payload


app = make_app(
    os.environ.get("INTEROP_BROKER_URL", "amqp://"),
    os.environ.get("INTEROP_QUEUE", "interop"),
    os.environ.get("INTEROP_QUEUE_TYPE", "classic"),
    os.environ.get("INTEROP_EXCHANGE_TYPE", "direct"),
    os.environ.get("INTEROP_STREAM", ""),
)

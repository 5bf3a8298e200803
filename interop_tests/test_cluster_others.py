"""pika and Celery on a cluster of three nodes: what is published through one node is worked on through another."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pika  # type: ignore[import-untyped]
import pytest
from celery import group
from pika.exceptions import NackError, UnroutableError  # type: ignore[import-untyped]

from amqp_broker import RunningCluster, running_cluster
from interop_tests.celery_app import make_app
from interop_tests.celery_worker import CeleryWorker

PATIENCE_S = 60
PERSISTENT = pika.BasicProperties(delivery_mode=2)


@pytest.fixture(scope="module")
def cluster() -> Iterator[RunningCluster]:
    with running_cluster(3) as made:
        yield made


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_pika_on_two_nodes(cluster: RunningCluster, kind: str) -> None:
    name = f"pika-{uuid.uuid4().hex[:12]}"
    near, far = (pika.BlockingConnection(pika.URLParameters(url)) for url in cluster.urls[:2])
    publishing, consuming = near.channel(), far.channel()
    arguments = {"x-queue-type": kind, "x-max-length": 100, "x-overflow": "reject-publish"}
    publishing.queue_declare(name, durable=True, arguments=arguments)
    publishing.confirm_delivery()
    for number in range(100):
        publishing.basic_publish("", name, b"%d" % number, PERSISTENT, mandatory=True)
    with pytest.raises(NackError):
        publishing.basic_publish("", name, b"too many", PERSISTENT)
    with pytest.raises(UnroutableError):
        publishing.basic_publish("", f"no-{name}", b"", PERSISTENT, mandatory=True)
    consuming.basic_qos(prefetch_count=10)
    bodies = []
    for method, _, body in consuming.consume(name, inactivity_timeout=PATIENCE_S):
        bodies.append(body)
        consuming.basic_ack(method.delivery_tag)
        if len(bodies) == 100:
            break
    assert consuming.cancel() == 0, "nothing was left over"
    assert bodies == [b"%d" % number for number in range(100)]
    assert consuming.basic_get(name) == (None, None, None)
    far.close()
    deadline = time.monotonic() + PATIENCE_S
    found = publishing.queue_declare(name, passive=True).method
    while found.consumer_count and time.monotonic() < deadline:
        found = publishing.queue_declare(name, passive=True).method
    assert (found.message_count, found.consumer_count) == (0, 0)
    publishing.queue_delete(name)
    near.close()


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_celery_goes_on_when_a_node_is_lost(cluster: RunningCluster, kind: str, tmp_path: Path) -> None:
    """The application is at one node, the worker at another; a third one, that may lead the queue, is killed."""
    queue = f"celery-{kind}-{uuid.uuid4().hex[:8]}"
    app = make_app(cluster.urls[0], queue, kind)
    worker = CeleryWorker(app, cluster.urls[1], queue, tmp_path, queue_type=kind).start()
    third = cluster.nodes[2]
    try:
        add = app.tasks["interop.add"]
        results = group(add.s(number, number) for number in range(50))().get(timeout=PATIENCE_S)
        assert results == [2 * number for number in range(50)]
        third.kill()
        assert [add.delay(number, 1).get(timeout=PATIENCE_S) for number in range(10)] == list(range(1, 11))
        assert app.tasks["interop.succeed_at_last"].delay(2).get(timeout=PATIENCE_S) == 2
    finally:
        worker.kill()
        app.close()
        if not third.is_running:
            third.start()

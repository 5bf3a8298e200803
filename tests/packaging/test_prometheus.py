"""Prometheus itself scrapes a member of a cluster under load: each panel has values, and the text of metrics is as it
should be."""

from __future__ import annotations

import json
import math
import shutil
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from amqp_broker.client import Connection
from amqp_broker.protocol import methods as m
from amqp_broker.protocol.fields import Table
from tests.packaging.scraped import scraped_member
from tests.packaging.test_monitoring import PATHS, targets

pytestmark = [
    pytest.mark.xdist_group("packaging prometheus"),
    pytest.mark.skipif(
        shutil.which("prometheus") is None or shutil.which("promtool") is None,
        reason="there is no prometheus here: apt-get install prometheus",
    ),
]

JOB = "amqp-broker"
DEADLINE_S = 120.0
#: What it says of names that are RabbitMQ's.
THEIRS = {
    'rabbitmq_raft_term_total non-counter metrics should not have "_total" suffix',
    'rabbitmq_unreachable_cluster_peers_count non-histogram and non-summary metrics should not have "_count" suffix',
}


class Scraped(NamedTuple):
    """prometheus, metrics: URLs."""

    prometheus: str
    metrics: str


def use(url: str, ends: threading.Event) -> None:
    """Some of what is counted, again and again: messages that are acknowledged, one that is held, one to nobody."""
    with Connection.open(url) as connection, connection.channel() as channel:
        kinds = {"orders": Table({"x-queue-type": "quorum"}), "held": Table()}
        for queue, arguments in kinds.items():
            channel.call(m.QueueDeclare(queue=queue, durable=True, arguments=arguments))
        channel.confirm_select()
        for queue in kinds:
            channel.publish("", queue, b"x" * 100, {"delivery_mode": 2})
        channel.publish("", "held", b"x")
        channel.wait_for_confirms()
        channel.get("held")
        consumer = channel.consume("orders", prefetch_count=10)
        while not ends.wait(0.2):
            delivery = consumer.next(timeout=DEADLINE_S)
            assert delivery is not None
            channel.publish("", "orders", b"x" * 100, {"delivery_mode": 2})
            channel.publish("", "nobody", b"x")
            channel.wait_for_confirms()
            channel.ack(delivery.delivery_tag)


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scraped]:
    folder: Path = tmp_path_factory.mktemp("prometheus")
    ends = threading.Event()
    with scraped_member() as (url, metrics):
        load = threading.Thread(target=use, args=(url, ends))
        load.start()
        place = metrics.removeprefix("http://")
        own = f"127.0.0.1:{free_port()}"
        jobs = [
            {"job_name": JOB, "static_configs": [{"targets": [place]}]},
            {
                "job_name": f"{JOB}-objects", "metrics_path": "/metrics/detailed",
                "params": {"family": ["queue_coarse_metrics", "oldest_ages"]},
                "relabel_configs": [{"target_label": "job", "replacement": JOB}],
                "static_configs": [{"targets": [place]}],
            },
        ]  # fmt: skip
        config = folder / "prometheus.yaml"
        config.write_text(yaml.safe_dump({"global": {"scrape_interval": "1s"}, "scrape_configs": jobs}))
        command = ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}"]
        command += [f"--web.listen-address={own}", "--log.level=error"]
        with subprocess.Popen(command) as process:
            try:
                yield Scraped(f"http://{own}", metrics)
            finally:
                process.terminate()
                ends.set()
                load.join()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def values_of(scraped: Scraped, expression: str) -> list[float]:
    """Of the series that there are now; none while Prometheus begins."""
    for name, value in {"$job": JOB, "$instance": ".*", "$__rate_interval": "30s"}.items():
        expression = expression.replace(name, value)
    query = urllib.parse.urlencode({"query": expression})
    try:
        with urllib.request.urlopen(f"{scraped.prometheus}/api/v1/query?{query}", timeout=DEADLINE_S) as answer:
            said: dict[str, Any] = json.load(answer)
    except urllib.error.HTTPError as error:
        if error.code == 503:
            return []
        raise AssertionError(f"{expression}: {error.read().decode()}") from None
    except OSError:
        return []
    return [float(each["value"][1]) for each in said["data"]["result"]]


def test_every_panel_has_values(scraped: Scraped) -> None:
    """Also those that divide: by what is not 0."""
    missing = [expression for expression, _ in targets()]
    until = time.monotonic() + DEADLINE_S
    while missing and time.monotonic() < until:
        threading.Event().wait(0.5)  # another process scrapes: it is looked at now and then
        missing = [each for each in missing if not any(map(math.isfinite, values_of(scraped, each)))]
    assert not missing


@pytest.mark.parametrize("path", [*PATHS, "/metrics/per-object", "/metrics/memory-breakdown"])
def test_promtool_has_nothing_to_say_of_the_metrics(scraped: Scraped, path: str) -> None:
    with urllib.request.urlopen(scraped.metrics + path, timeout=DEADLINE_S) as answer:
        text = answer.read()
    done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True)
    said = (done.stdout + done.stderr).decode().splitlines()
    assert [line for line in said if line not in THEIRS] == []

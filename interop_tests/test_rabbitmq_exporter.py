"""kbudde/rabbitmq_exporter, which makes metrics of what the HTTP API says: a real one, scraped. It comes by `make
interop`.
"""

from __future__ import annotations

import re
import socket
import subprocess
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import amqp_broker
from amqp_broker.client import Connection
from amqp_broker.protocol import methods as m
from amqp_broker.protocol.fields import Table
from amqp_broker.testing.embedded import RunningBroker
from interop_tests.http_api import HttpApi, has
from interop_tests.tools import tool

pytestmark = pytest.mark.xdist_group("exporter")
TIMEOUT_S = 60
#: All that it can ask for, but for those of plugins.
MODULES = "aliveness,connections,exchange,memory,node,overview,queue"
PLUGINS = ("shovel", "federation")
#: Name of a metric, with the labels that make it one of ours -> its value.
EXPECTED = {
    'rabbitmq_queue_messages{queue="work"}': 3,
    'rabbitmq_queue_messages_ready{queue="work"}': 2,
    'rabbitmq_queue_messages_unacknowledged{queue="work"}': 1,
    'rabbitmq_queue_message_bytes{queue="work"}': 18,
    'rabbitmq_queue_messages_persistent{queue="work"}': 3,
    'rabbitmq_queue_consumers{queue="work"}': 1,
    'rabbitmq_queue_messages_published_total{queue="work"}': 4,
    'rabbitmq_queue_messages_delivered_total{queue="work"}': 2,
    'rabbitmq_queue_messages_ack_total{queue="work"}': 1,
    'rabbitmq_queue_messages{queue="group"}': 1,
    'rabbitmq_queue_state{queue="group",state="running"}': 1,
    "rabbitmq_queue_messages_global{}": 4,
    "rabbitmq_queue_messages_unacknowledged_global{}": 1,
    "rabbitmq_queues{}": 2,
    "rabbitmq_exchanges{}": 8,
    "rabbitmq_consumers{}": 1,
    'rabbitmq_exchange_messages_published_in_total{exchange="shop"}': 4,
    'rabbitmq_exchange_messages_published_out_total{exchange="shop"}': 4,
    'rabbitmq_connection_channels{user="guest"}': 1,
    'rabbitmq_aliveness_info{status="ok"}': 1,
    "rabbitmq_running{}": 1,
    "rabbitmq_partitions{}": 0,
    "rabbitmq_node_mem_alarm{}": 0,
    "rabbitmq_node_disk_free_alarm{}": 0,
    'rabbitmq_version_info{rabbitmq="4.2.0"}': 1,
    "rabbitmq_up{}": 1,
}
TOTALS = {"object_totals": {"exchanges": 8, "consumers": 1}, "queue_totals": {"messages_unacknowledged": 1}}
#: Whose value is the machine's, or depends on how many connections the API has for its user.
ABOVE_ZERO = (
    'rabbitmq_connection_status{user="guest",state="running"}', "rabbitmq_connection_received_bytes",
    "rabbitmq_fd_available", "rabbitmq_fd_used", "rabbitmq_node_disk_free", "rabbitmq_memory_total_rss_bytes",
    "rabbitmq_node_disk_free_limit", "rabbitmq_node_mem_limit", "rabbitmq_node_mem_used", "rabbitmq_queue_memory",
    "rabbitmq_sockets_available", "rabbitmq_sockets_used", "rabbitmq_uptime",
)  # fmt: skip


@pytest.fixture(scope="module")
def managed() -> Iterator[RunningBroker]:
    """With a classic queue of three messages, one of them held by its consumer, and a quorum queue of one."""
    tool("rabbitmq_exporter")
    with amqp_broker.running(management=True) as running, Connection.open(running.url) as connection:
        channel = connection.channel()
        channel.call(m.ExchangeDeclare(exchange="shop", type="direct", durable=True))
        channel.call(m.QueueDeclare(queue="work", durable=True))
        channel.call(m.QueueBind(queue="work", exchange="shop", routing_key="work"))
        channel.call(m.QueueDeclare(queue="group", durable=True, arguments=Table({"x-queue-type": "quorum"})))
        channel.confirm_select()
        for _ in range(4):
            channel.publish("shop", "work", b"a task", {"delivery_mode": 2})
        channel.publish("", "group", b"x", {"delivery_mode": 2})
        channel.wait_for_confirms()
        consumer = channel.consume("work", prefetch_count=1)
        for is_acked in (True, False):
            delivery = consumer.next(timeout=TIMEOUT_S)
            assert delivery is not None
            if is_acked:
                channel.ack(delivery.delivery_tag)
        yield running


@contextmanager
def exporter(managed: RunningBroker, modules: str, log: Path) -> Iterator[str]:
    """URL of its metrics. It takes the port that it is told, so one that was free."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    environment = {
        "RABBIT_URL": managed.management_url.rstrip("/"), "RABBIT_EXPORTERS": modules, "PUBLISH_ADDR": "127.0.0.1",
        "PUBLISH_PORT": str(port), "LOG_LEVEL": "info",
    }  # fmt: skip
    command = [str(tool("rabbitmq_exporter"))]
    with log.open("w") as errors, subprocess.Popen(command, env=environment, stderr=errors) as process:
        try:
            while not listens(port):
                assert process.poll() is None, log.read_text()
            yield f"http://127.0.0.1:{port}/metrics"
        finally:
            process.terminate()


def listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), TIMEOUT_S).close()
    except ConnectionRefusedError:
        threading.Event().wait(0.05)  # another process starts: it is looked at now and then
        return False
    return True


def scraped(url: str) -> str:
    with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:
        return str(answer.read().decode())


def values_of(text: str, metric: str) -> list[float]:
    """Of the samples that have the name and these labels."""
    name, _, labels = metric.partition("{")
    wanted = set(re.findall(r'\w+="[^"]*"', labels))
    found = re.findall(rf"^{name}(?:{{(.*)}})? (\S+)$", text, re.M)
    return [float(value) for said, value in found if wanted <= set(re.findall(r'\w+="[^"]*"', said))]


@pytest.fixture(scope="module")
def metrics(managed: RunningBroker, tmp_path_factory: pytest.TempPathFactory) -> str:
    api = HttpApi(managed.management_url)
    # Totals are read now and then, and what an exchange has taken is counted when they are.
    while not has(api("/overview"), TOTALS):
        threading.Event().wait(0.1)
    with exporter(managed, MODULES, tmp_path_factory.mktemp("exporter") / "log") as url:
        return scraped(url)


@pytest.mark.parametrize("metric", EXPECTED)
def test_metric(metrics: str, metric: str) -> None:
    assert values_of(metrics, metric) == [EXPECTED[metric]]


@pytest.mark.parametrize("name", ABOVE_ZERO)
def test_of_the_machine(metrics: str, name: str) -> None:
    assert max(values_of(metrics, name), default=0) > 0


def test_each_of_its_modules_is_up(metrics: str) -> None:
    modules = dict(re.findall(r'^rabbitmq_module_up{.*module="(\w+)".*} (\d)$', metrics, re.M))
    assert modules == dict.fromkeys(MODULES.split(","), "1")


def test_those_of_plugins_are_down(managed: RunningBroker, tmp_path: Path) -> None:
    """As at a RabbitMQ without these plugins; then all of it says that it is down."""
    with exporter(managed, ",".join(["overview", *PLUGINS]), tmp_path / "log") as url:
        text = scraped(url)
    modules = dict(re.findall(r'^rabbitmq_module_up{.*module="(\w+)".*} (\d)$', text, re.M))
    assert modules == {"overview": "1", "shovel": "0", "federation": "0"}
    assert "statusCode=404" in (tmp_path / "log").read_text()

"""Metrics of a node that is several processes: of the whole node, and of each of them."""

from __future__ import annotations

import os
import resource
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import amqp_broker
from amqp_broker.client import Connection
from amqp_broker.protocol import methods as m
from amqp_broker.protocol.fields import Table
from amqp_broker.testing.embedded import RunningBroker
from tests.server.test_workers import process_of
from tests.web.http_client import Http
from tests.web.test_metrics import Samples, metrics_of, scrape

#: One broker for all of them.
pytestmark = pytest.mark.xdist_group("web worker metrics")

CLIENTS, QUEUES, MESSAGES = 8, 4, 20
PATIENCE_S = 60


@pytest.fixture(scope="module")
def broker() -> Iterator[RunningBroker]:
    with amqp_broker.running(management=True, workers=2, steering="off", log_level="warning") as running:
        yield running


@pytest.fixture(scope="module")
def clients(broker: RunningBroker) -> Iterator[list[Connection]]:
    """They are shared out among the workers, and each publishes to each queue, wherever that lives."""
    opened = [Connection.open(broker.url) for _ in range(CLIENTS)]
    channels = [each.channel() for each in opened]
    for number, channel in enumerate(channels):
        channel.confirm_select()
        if number < QUEUES:
            channel.call(m.QueueDeclare(queue=f"q{number}", durable=True))
    for channel in channels:
        for number in range(QUEUES):
            for _ in range(MESSAGES):
                channel.publish("", f"q{number}", b"x" * 100)
        assert channel.wait_for_confirms() == []
    yield opened
    for each in opened:
        each.close()


def of_workers(samples: Samples, name: str) -> dict[str, float]:
    return {
        dict(labels)["worker"]: value for (found, labels), value in samples.items() if found == f"amqp_broker_{name}"
    }


def whole(samples: Samples, name: str) -> float:
    return samples[name, frozenset()]


def until(look: Callable[[], Samples], holds: Callable[[Samples], bool]) -> Samples:
    """What was counted is told again for a second or some."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds(samples := look()):
        assert time.monotonic() < deadline, samples
    return samples


@pytest.mark.usefixtures("clients")
def test_totals_are_those_of_all_workers(http: Http) -> None:
    look = metrics_of(http)
    published = CLIENTS * QUEUES * MESSAGES
    received = ("rabbitmq_global_messages_received_total", frozenset({("protocol", "amqp091")}))
    samples = until(lambda: scrape(look, "/metrics"), lambda found: found[received] >= published)
    # Besides there are those of the management process.
    assert whole(samples, "rabbitmq_connections") >= CLIENTS
    assert whole(samples, "rabbitmq_channels") >= CLIENTS
    assert whole(samples, "rabbitmq_queues") == QUEUES
    assert whole(samples, "rabbitmq_queue_messages") == published
    assert whole(samples, "rabbitmq_connections_opened_total") >= CLIENTS


@pytest.mark.usefixtures("clients")
def test_each_worker_has_its_own(http: Http) -> None:
    look = metrics_of(http)

    def is_whole(samples: Samples) -> bool:
        return sum(of_workers(samples, "worker_messages").values()) == CLIENTS * QUEUES * MESSAGES

    samples = until(lambda: scrape(look, "/metrics"), is_whole)
    assert of_workers(samples, "worker_up") == {"0": 1, "1": 1}
    connections = of_workers(samples, "worker_connections")
    assert sum(connections.values()) == whole(samples, "rabbitmq_connections")
    assert min(connections.values()) > 0, "clients are at both"
    queues = of_workers(samples, "worker_queues")
    assert (set(queues), sum(queues.values()), min(queues.values()) > 0) == ({"0", "1"}, QUEUES, True)
    assert sum(of_workers(samples, "worker_connections_moved_total").values()) == 0
    # Who is not where the queue is has its commands sent there, and they are carried out.
    sent, done = of_workers(samples, "worker_hops_out_total"), of_workers(samples, "worker_hops_in_total")
    assert min(sent.values()) >= MESSAGES
    assert min(done.values()) >= MESSAGES
    for worker in "01":
        late = samples["amqp_broker_worker_loop_delay_seconds_count", frozenset({("worker", worker)})]
        assert late > 0, "timers are due all the time"
        labels = frozenset({("worker", worker), ("le", "+Inf")})
        assert samples["amqp_broker_worker_loop_delay_seconds_bucket", labels] == late
    octets = of_workers(samples, "worker_received_bytes_total")
    assert min(octets.values()) >= 100 * MESSAGES


@pytest.mark.usefixtures("clients")
def test_what_the_processes_use_is_of_each_and_of_all(broker: RunningBroker, http: Http) -> None:
    """And not of worker 0 alone."""
    look = metrics_of(http)
    ready = until(lambda: scrape(look, "/metrics"), lambda found: min(of_workers(found, "worker_up").values()) == 1)
    for each, together in (
        ("worker_resident_memory_bytes", "rabbitmq_process_resident_memory_bytes"),
        ("worker_open_fds", "rabbitmq_process_open_fds"),
        ("worker_threads", "rabbitmq_erlang_processes_used"),
    ):
        found = of_workers(ready, each)
        assert sorted(found) == ["0", "1"]
        assert min(found.values()) > 0
        assert whole(ready, together) == sum(found.values())
    assert min(of_workers(ready, "worker_cpu_seconds_total").values()) > 0
    limits = [resource_limit(process_of(broker.data_dir, worker)) for worker in (0, 1)]
    assert whole(ready, "rabbitmq_process_max_fds") == sum(limits)
    budget = whole(ready, "rabbitmq_resident_memory_limit_bytes")
    assert budget == whole(ready, "amqp_broker_memory_budget")
    parts = scrape(look, "/metrics/memory-breakdown")
    assert whole(parts, "rabbitmq_memory_rss_bytes") > max(of_workers(ready, "worker_resident_memory_bytes").values())


def resource_limit(process: int) -> int:
    return resource.prlimit(process, resource.RLIMIT_NOFILE)[0]


def test_the_node_uses_what_its_workers_do(http: Http, clients: list[Connection]) -> None:
    (node,) = http.get("/nodes")
    samples = scrape(metrics_of(http), "/metrics")
    assert node["sockets_used"] >= len(clients)
    assert node["fd_total"] == whole(samples, "rabbitmq_process_max_fds")
    assert node["mem_limit"] == whole(samples, "rabbitmq_resident_memory_limit_bytes")
    assert node["mem_used"] > max(of_workers(samples, "worker_resident_memory_bytes").values())
    assert node["connection_created"] >= len(clients)
    (attempts,) = [row for row in http.get(f"/auth/attempts/{node['name']}") if row["protocol"] == "amqp091"]
    assert attempts["auth_attempts_succeeded"] >= len(clients)
    memory = http.get(f"/nodes/{node['name']}/memory")["memory"]
    assert memory["total"]["rss"] > max(of_workers(samples, "worker_resident_memory_bytes").values())


def test_a_node_that_is_one_process_has_no_workers() -> None:
    with amqp_broker.running(management=True, log_level="warning") as alone:
        http = Http(alone.management_url)
        samples = scrape(metrics_of(http), "/metrics")
        assert not any(name.startswith("amqp_broker_worker_") for name, _ in samples)
        assert whole(samples, "rabbitmq_connections") >= 1
        http.close()


def test_while_a_worker_stands_still_sums_do_not_fall(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    settings = {"workers": 2, "steering": "off", "log_level": "warning"}
    with amqp_broker.running(data_dir, management=True, **settings) as broker:
        http = Http(broker.management_url)
        look = metrics_of(http)
        connections = [Connection.open(broker.url) for _ in range(CLIENTS)]
        name = "rabbitmq_connections_opened_total"
        before = until(lambda: scrape(look, "/metrics"), lambda found: whole(found, name) >= CLIENTS)
        os.kill(process_of(data_dir, 1), signal.SIGSTOP)
        try:
            stopped = until(lambda: scrape(look, "/metrics"), lambda found: of_workers(found, "worker_up")["1"] == 0)
        finally:
            os.kill(process_of(data_dir, 1), signal.SIGCONT)
        assert whole(stopped, name) >= whole(before, name)
        assert "1" not in of_workers(stopped, "worker_connections"), "nobody knows"
        for each in connections:
            each.abort()
        http.close()


def test_the_api_has_them_as_a_list(http: Http, clients: list[Connection]) -> None:
    """As the metrics say them, which may be a moment older."""
    found = http.get("/v1/workers")
    assert [(each["worker"], each["running"]) for each in found] == [(0, True), (1, True)]
    assert [each["name"].partition("/")[2] for each in found] == ["", "1"]
    assert sum(each["queues"] for each in found) == QUEUES
    assert sum(each["messages"] for each in found) == CLIENTS * QUEUES * MESSAGES
    samples = scrape(metrics_of(http), "/metrics")
    for name in ("hops_out", "hops_in", "connections_moved"):
        counted = of_workers(samples, f"worker_{name}_total")
        assert [each[name] for each in found] == [counted[number] for number in "01"], name


def test_what_a_group_has_counts_at_the_worker_that_has_it() -> None:
    lasting = Table({"x-queue-type": "quorum"})
    settings = {"workers": 2, "spread_groups": True, "queue_groups": QUEUES, "log_level": "warning"}
    with amqp_broker.running(management=True, **settings) as running:  # type: ignore[arg-type]
        with Connection.open(running.url) as connection, connection.channel() as channel:
            channel.confirm_select()
            for number in range(QUEUES):
                channel.call(m.QueueDeclare(queue=f"q{number}", durable=True, arguments=lasting))
                for _ in range(MESSAGES):
                    channel.publish("", f"q{number}", b"x" * 100)
            assert channel.wait_for_confirms() == []
        http = Http(running.management_url)
        look = metrics_of(http)

        def is_whole(samples: Samples) -> bool:
            return sum(of_workers(samples, "worker_messages").values()) == QUEUES * MESSAGES

        samples = until(lambda: scrape(look, "/metrics"), is_whole)
        assert of_workers(samples, "worker_messages") == {"0": QUEUES // 2 * MESSAGES, "1": QUEUES // 2 * MESSAGES}
        samples = scrape(look, "/metrics/per-object")
        indexes = {
            dict(labels)["group"]: value for (name, labels), value in samples.items()
            if name == "rabbitmq_raft_log_commit_index"
        }  # fmt: skip
        assert sorted(indexes) == [str(group) for group in range(QUEUES + 1)]
        assert min(indexes.values()) > 0, "each group is asked about at the worker that has it"
        http.close()

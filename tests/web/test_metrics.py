"""Metrics as Prometheus reads them."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from amqp_broker.client import Connection
from amqp_broker.testing.embedded import RunningBroker
from amqp_broker.web.prometheus.endpoints import EMPTY
from tests.web.http_client import Http

#: One broker for all of them.
pytestmark = pytest.mark.xdist_group("web metrics")

ROOT = Path(__file__).parents[2]
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]

#: What the overview dashboard asks for, without prefix.
ASKED = (
    "connections", "channels", "consumers", "queues", "connections_opened_total", "connections_closed_total",
    "channels_opened_total", "channels_closed_total", "queues_declared_total", "queues_created_total",
    "queues_deleted_total", "process_open_fds", "process_resident_memory_bytes", "disk_space_available_bytes",
    "process_max_fds", "resident_memory_limit_bytes", "disk_space_available_limit_bytes", "erlang_uptime_seconds",
    "queue_messages_ready", "queue_messages_unacked", "alarms_memory_used_watermark", "raft_term", "raft_term_total",
)  # fmt: skip


def scrape(http: Http, path: str) -> Samples:
    said = http("GET", path, prefix="", authorization="")
    assert said.status == 200, said
    assert said.headers["content-type"].startswith("text/plain; version=0.0.4")
    found: Samples = {}
    names = set()
    for family in text_string_to_metric_families(said.body.decode()):
        assert family.name not in names, f"{family.name} comes twice"
        names.add(family.name)
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in found, key
            found[key] = sample.value
    identities = [key for key in found if key[0] == "rabbitmq_identity_info"]
    assert len(identities) == 1
    return found


def metrics_of(http: Http) -> Http:
    (port,) = [each["port"] for each in http.get("/overview")["listeners"] if each["protocol"] == "http/prometheus"]
    return Http(f"http://127.0.0.1:{port}/")


@pytest.mark.parametrize("family", sorted(EMPTY))
def test_a_family_without_samples_is_taken_and_the_handbook_says_why(
    http: Http, broker: RunningBroker, family: str
) -> None:
    with Connection.open(broker.url) as connection, connection.channel() as channel:
        http("PUT", "/queues/%2F/counted", {})
        channel.publish("amq.direct", "counted", b"x")
        metrics = metrics_of(http)
        nothing = {name for name, _ in scrape(metrics, "/metrics/detailed")}
        assert {name for name, _ in scrape(metrics, f"/metrics/detailed?family={family}")} == nothing
    assert f"`{family}`" in (ROOT / "docs" / "management.md").read_text(encoding="utf-8")


def test_totals_never_fall(http: Http, broker: RunningBroker) -> None:
    metrics = metrics_of(http)
    before = scrape(metrics, "/metrics")
    for name in ASKED:
        assert (f"rabbitmq_{name}", frozenset()) in before, name
    labels = frozenset({("protocol", "amqp091"), ("queue_type", "rabbit_classic_queue")})
    assert ("rabbitmq_global_messages_delivered_consume_manual_ack_total", labels) in before
    bounds = {dict(key[1])["le"] for key in before if key[0] == "rabbitmq_message_size_bytes_bucket"}
    assert bounds == {"100.0", "1000.0", "10000.0", "100000.0", "1e+06", "1e+07", "5e+07", "1e+08", "+Inf"}
    with Connection.open(broker.url) as connection, connection.channel() as channel:
        http("PUT", "/queues/%2F/counted", {})
        for _ in range(10):
            channel.publish("", "counted", b"x")
        assert channel.get("counted", no_ack=True) is not None
    http("DELETE", "/queues/%2F/counted")
    received = ("rabbitmq_global_messages_received_total", frozenset({("protocol", "amqp091")}))
    # Totals are at most a second old at the node, so they are read until they are those of now.
    while (after := scrape(metrics, "/metrics"))[received] < before[received] + 10:
        pass
    counters = [key for key in before if key[0].endswith("_total")]
    assert [key for key in counters if after[key] < before[key]] == []
    assert after["rabbitmq_queues_deleted_total", frozenset()] > before["rabbitmq_queues_deleted_total", frozenset()]


def test_what_the_node_is_at_is_measured(http: Http, broker: RunningBroker) -> None:
    metrics = metrics_of(http)
    before = scrape(metrics, "/metrics")
    with Connection.open(broker.url) as connection, connection.channel() as channel:
        http("PUT", "/queues/%2F/timed", {"durable": True})
        channel.confirm_select()
        channel.publish("", "timed", b"x")
    turns, syncs = "amqp_broker_loop_turn_seconds", "amqp_broker_journal_sync_seconds"
    written = ("rabbitmq_queue_index_write_ops_total", frozenset[tuple[str, str]]())
    while (after := scrape(metrics, "/metrics"))[written] <= before[written]:
        pass
    for name in (turns, syncs):
        for each in ("_count", "_sum"):
            assert after[name + each, frozenset()] > before[name + each, frozenset()], name + each
        assert after[f"{name}_bucket", frozenset({("le", "+Inf")})] == after[f"{name}_count", frozenset()]
    for name in ("publishers_blocked", "management_snapshot_seconds", "management_scrape_seconds"):
        assert (f"amqp_broker_{name}", frozenset()) in after, name
    assert after["amqp_broker_management_snapshot_seconds", frozenset()] > 0
    assert after["rabbitmq_raft_max_num_segments", frozenset()] >= 1
    groups = scrape(metrics, "/metrics/detailed?family=ra_metrics")
    assert min(count for (name, _), count in groups.items() if name == "rabbitmq_detailed_raft_num_segments") >= 1
    http("DELETE", "/queues/%2F/timed")


def test_what_is_not_counted_has_no_sample(http: Http) -> None:
    """No zero takes its place: of all queues together, nor of one where it has no such thing."""
    http("PUT", "/queues/%2F/plain", {"durable": True})
    http("PUT", "/queues/%2F/log", {"durable": True, "arguments": {"x-queue-type": "stream"}})
    metrics = metrics_of(http)
    whole = scrape(metrics, "/metrics")
    assert ("rabbitmq_queue_messages_ready", frozenset()) in whole
    assert ("rabbitmq_queue_messages_ram", frozenset()) not in whole
    each = scrape(metrics, "/metrics/detailed?family=queue_metrics")

    def sampled(name: str) -> set[str]:
        known = [dict(labels).get("queue") for key, labels in each if key == f"rabbitmq_detailed_{name}"]
        return {queue for queue in known if queue in ("plain", "log")}

    for name in ("queue_messages_ready_ram", "queue_messages_unacked_ram", "queue_messages_persistent"):
        assert sampled(name) == {"plain"}, name
    assert sampled("stream_segments") == {"log"}
    for name in ("plain", "log"):
        http("DELETE", f"/queues/%2F/{name}")


def test_objects_of_their_own(http: Http) -> None:
    http("PUT", "/vhosts/m", {})
    name = 'q "x"\\'
    http("PUT", "/queues/m/q%20%22x%22%5C", {})
    http("PUT", "/queues/%2F/other", {})
    metrics = metrics_of(http)
    mine = frozenset({("vhost", "m"), ("queue", name)})
    each = scrape(metrics, "/metrics/per-object")
    assert each["rabbitmq_queue_messages_ready", mine] == 0
    chosen = scrape(metrics, "/metrics/detailed?family=queue_coarse_metrics&family=queue_consumer_count&vhost=m")
    assert chosen["rabbitmq_detailed_queue_consumers", mine] == 0
    assert [dict(key[1])["vhost"] for key in chosen if key[0] == "rabbitmq_detailed_queue_messages"] == ["m"]
    assert ("rabbitmq_detailed_queue_info", mine | {
        ("queue_type", "rabbit_classic_queue"), ("membership", "leader")
    }) in chosen  # fmt: skip
    named = scrape(metrics, "/metrics/detailed?family=queue_coarse_metrics&queue=^oth")
    assert [dict(key[1])["queue"] for key in named if key[0] == "rabbitmq_detailed_queue_messages"] == ["other"]
    wide = scrape(metrics, "/metrics/detailed?family=vhost_status&family=exchange_bindings&family=exchange_names")
    assert wide["rabbitmq_cluster_vhost_status", frozenset({("vhost", "m")})] == 1
    disk = scrape(metrics, "/metrics/detailed?family=node_persister_metrics")
    assert any(name.startswith("rabbitmq_detailed_io_") for name, _ in disk)
    groups = scrape(metrics, "/metrics/detailed?family=ra_metrics")
    assert {dict(key[1])["group"] for key in groups if key[0] == "rabbitmq_detailed_raft_commit_index"} >= {"0", "1"}
    for wrong in ("family=nonsense", "family=queue_coarse_metrics&queue=(a%2B)%2B"):
        assert metrics("GET", f"/metrics/detailed?{wrong}", prefix="").status == 400
    assert metrics("GET", "/metrics/nothing", prefix="").status == 404
    assert scrape(metrics, "/metrics/memory-breakdown")
    http("DELETE", "/vhosts/m")
    http("DELETE", "/queues/%2F/other")

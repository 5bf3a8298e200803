"""The dashboard for Grafana and the alerts for Prometheus ask for metrics and labels that there are, and RabbitMQ's own
dashboards find what they ask for."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

import amqp_broker
from amqp_broker.client import Connection
from tests.packaging.building import ROOT
from tests.packaging.scraped import scraped_member
from tests.web.http_client import Http
from tests.web.test_metrics import metrics_of

#: One broker and one cluster for all of them.
pytestmark = pytest.mark.xdist_group("packaging monitoring")

Labels = dict[str, set[str]]  # of each metric

DASHBOARD = ROOT / "packaging" / "grafana" / "overview.json"
ALERTS = ROOT / "packaging" / "prometheus" / "alerts.yaml"
#: Prometheus has these of every target.
OF_THE_TARGET = {"job", "instance"}
PATHS = ("/metrics", "/metrics/detailed?family=queue_coarse_metrics&family=oldest_ages")

_METRIC = re.compile(r"\b((?:rabbitmq|amqp_broker)_\w+)(?:\{([^}]*)\})?")
_LABEL = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)")
_GROUPING = re.compile(r"\b(?:by|without|on|ignoring|group_left)\s*\(([^)]*)\)")
_SHOWN = re.compile(r"\{\{\s*(?:\$labels\.)?(\w+)[^}]*\}\}")

#: What RabbitMQ's dashboard 10991 (overview) asks of /metrics, without rabbitmq_.
OVERVIEW = [
    "alarms_memory_used_watermark", "build_info", "channels", "channels_closed_total", "channels_opened_total",
    "connections", "connections_closed_total", "connections_opened_total", "consumers", "disk_space_available_bytes",
    "disk_space_available_limit_bytes", "erlang_uptime_seconds", "identity_info", "process_max_fds",
    "process_open_fds", "process_resident_memory_bytes", "queue_messages_ready", "queue_messages_unacked", "queues",
    "queues_created_total", "queues_declared_total", "queues_deleted_total", "resident_memory_limit_bytes",
    "message_size_bytes_bucket", "global_messages_received_total", "global_messages_received_confirm_total",
    "global_messages_routed_total", "global_messages_unroutable_dropped_total",
    "global_messages_unroutable_returned_total", "global_messages_confirmed_total", "global_publishers",
    "global_consumers", "global_messages_delivered_total", "global_messages_delivered_consume_manual_ack_total",
    "global_messages_delivered_consume_auto_ack_total", "global_messages_delivered_get_manual_ack_total",
    "global_messages_delivered_get_auto_ack_total", "global_messages_get_empty_total",
    "global_messages_redelivered_total", "global_messages_acknowledged_total",
]  # fmt: skip
#: What 11340 (quorum queues) asks, but for rabbitmq_raft_entry_commit_latency_seconds, which is not measured.
QUORUM = [
    "identity_info", "raft_log_commit_index", "raft_log_last_written_index", "raft_log_snapshot_index",
    "raft_term_total",
]  # fmt: skip


def labels_of(http: Http, paths: tuple[str, ...]) -> Labels:
    found: Labels = {}
    for path in paths:
        said = http("GET", path, prefix="", authorization="")
        assert said.status == 200, said
        for family in text_string_to_metric_families(said.body.decode()):
            for sample in family.samples:
                found.setdefault(sample.name, set()).update(sample.labels)
    return found


@pytest.fixture(scope="module")
def alone() -> Iterator[Labels]:
    """Of a node with a queue, a message in it, and one that is not acknowledged."""
    with amqp_broker.running(management=True, log_level="warning") as broker:
        http = Http(broker.management_url)
        with Connection.open(broker.url) as connection, connection.channel() as channel:
            http("PUT", "/queues/%2F/q", {})
            channel.publish("", "q", b"x")
            channel.publish("", "q", b"x")
            assert channel.get("q") is not None
            # Lists are read once a second.
            while "amqp_broker_queue_oldest_unacked_age_seconds" not in (found := labels_of(metrics_of(http), PATHS)):
                pass
            yield found
        http.close()


@pytest.fixture(scope="module")
def exposed(alone: Labels) -> Labels:
    """And what a member of a cluster says besides."""
    with scraped_member() as (_, metrics):
        http = Http(metrics)
        while not {"amqp_broker_peer_link_up", "amqp_broker_group_lag"} <= set(
            said := labels_of(http, ("/metrics",))
        ):
            pass
        http.close()
    return {**said, **alone}


def rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]


def targets() -> list[tuple[str, str]]:
    """Expressions of the dashboard, and how their series are named."""
    panels = json.loads(DASHBOARD.read_text())["panels"]
    return [(each["expr"], each["legendFormat"]) for panel in panels for each in panel.get("targets", ())]


def unknown_in(expression: str, shown: str, exposed: Labels) -> list[str]:
    """Metrics and labels that there are not."""
    wrong, labels = [], set(OF_THE_TARGET)
    for name, selector in _METRIC.findall(expression):
        if name not in exposed:
            wrong.append(name)
        labels |= exposed.get(name, set())
        own = exposed.get(name, set()) | OF_THE_TARGET
        wrong += [f"{name}{{{label}}}" for label in _LABEL.findall(selector) if label not in own]
    named = [label.strip() for group in _GROUPING.findall(expression) for label in group.split(",")]
    return wrong + [label for label in [*named, *_SHOWN.findall(shown)] if label not in labels | {"value"}]


def test_every_panel_shows_what_there_is(exposed: Labels) -> None:
    wrong = {expression: found for expression, shown in targets() if (found := unknown_in(expression, shown, exposed))}
    assert len(targets()) > 50
    assert not wrong


def test_every_alert_asks_for_what_there_is(exposed: Labels) -> None:
    wrong = {
        rule["alert"]: found
        for rule in rules()
        if (found := unknown_in(rule["expr"], rule["annotations"]["summary"], exposed))
    }
    assert len(rules()) > 15
    assert not wrong


def test_what_is_not_there_is_found(exposed: Labels) -> None:
    assert unknown_in('rate(rabbitmq_nothing_total{job="x"}[5m])', "", exposed) == ["rabbitmq_nothing_total"]
    assert unknown_in('amqp_broker_ready{vhost="/"}', "{{queue}}", exposed) == ["amqp_broker_ready{vhost}", "queue"]
    assert unknown_in("sum by (peer) (amqp_broker_ready)", "{{instance}}", exposed) == ["peer"]


def test_an_alert_says_what_it_is_and_how_bad() -> None:
    names = [rule["alert"] for rule in rules()]
    assert len(set(names)) == len(names)
    for rule in rules():
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert set(rule["annotations"]) == {"summary", "description"}


def test_panels_have_places_of_their_own() -> None:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = [
        (x, y)
        for panel in panels
        for at in [panel["gridPos"]]
        for x in range(at["x"], at["x"] + at["w"])
        for y in range(at["y"], at["y"] + at["h"])
    ]
    assert len(set(places)) == len(places)
    assert {x for x, _ in places} == set(range(24))


@pytest.mark.parametrize("asked", [OVERVIEW, QUORUM], ids=["overview", "quorum queues"])
def test_rabbitmqs_dashboards_find_what_they_ask_for(asked: list[str], alone: Labels) -> None:
    assert [name for name in asked if f"rabbitmq_{name}" not in alone] == []
    joined = {"rabbitmq_cluster", "rabbitmq_node", "rabbitmq_endpoint"}
    assert joined <= alone["rabbitmq_identity_info"]


@pytest.mark.skipif(shutil.which("promtool") is None, reason="there is no promtool here")
@pytest.mark.parametrize(
    "command",
    [
        ("check", "rules", ALERTS),
        ("check", "config", ALERTS.with_name("prometheus.yaml")),
        ("test", "rules", Path(__file__).with_name("alerts_cases.yaml")),
    ],
    ids=["rules", "config", "cases"],
)
def test_prometheus_accepts_the_rules_and_they_do_what_they_say(command: tuple[str | Path, ...]) -> None:
    done = subprocess.run(["promtool", *command], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr

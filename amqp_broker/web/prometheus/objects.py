"""Families of single objects: one sample for each queue, exchange, channel or connection, up to a number; a sample says
how many were left out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from amqp_broker.protocol.json_values import JsonValue
from amqp_broker.system_client import SystemRequestError
from amqp_broker.web.prometheus import names as n
from amqp_broker.web.prometheus.text import GAUGE, Family, write_labels
from amqp_broker.web.prometheus.whole import OWN_PREFIX, number
from amqp_broker.web.services import Services

#: So many objects of a kind have samples of their own in a scrape.
MOST_OBJECTS: Final = 20_000

#: Of so many streams a scrape asks for their groups of readers.
MOST_STREAMS: Final = 500

#: Families of `/metrics/detailed` that RabbitMQ has not: how old messages are; streams and who reads them.
AGES: Final = "oldest_ages"
STREAMS: Final = "stream_metrics"

Row = Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class Group:
    """A family of RabbitMQ's: metrics of one kind of object."""

    kind: str
    metrics: tuple[n.Metric, ...]
    labels: Callable[[Row], dict[str, str]]


def _queue(row: Row) -> dict[str, str]:
    return {"vhost": row["vhost"], "queue": row["name"]}


def _exchange(row: Row) -> dict[str, str]:
    return {"vhost": row["vhost"], "exchange": row["name"]}


def _channel(row: Row) -> dict[str, str]:
    return {"channel": row["name"]}


GROUPS: Final[Mapping[str, Group]] = {
    "queue_coarse_metrics": Group("queues", n.QUEUE_COARSE, _queue),
    "queue_consumer_count": Group("queues", n.QUEUE_CONSUMERS, _queue),
    "queue_metrics": Group("queues", (*n.QUEUE_CONSUMERS, *n.QUEUE), _queue),
    "queue_delivery_metrics": Group("queues", n.QUEUE_DELIVERY, _queue),
    "exchange_metrics": Group("exchanges", n.EXCHANGE, _exchange),
    "channel_metrics": Group("channels", n.CHANNEL, _channel),
    "channel_exchange_metrics": Group("channels", n.CHANNEL_EXCHANGE, _channel),
    "channel_queue_metrics": Group("channels", n.CHANNEL_QUEUE, _channel),
    "connection_coarse_metrics": Group("connections", n.CONNECTION_COARSE, _channel),
    "connection_metrics": Group("connections", n.CONNECTION, _channel),
}


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which objects a scrape is about: those of some virtual hosts, queues by name."""

    vhosts: frozenset[str] = frozenset()
    queue: re.Pattern[str] | None = None

    def takes(self, kind: str, row: Row) -> bool:
        if self.vhosts and "vhost" in row and row["vhost"] not in self.vhosts:
            return False
        return kind != "queues" or self.queue is None or self.queue.search(row["name"]) is not None


def families_of(services: Services, group_names: tuple[str, ...], prefix: str, chosen: Chosen) -> Iterator[Family]:
    """The samples of these families; a metric that two of them have comes once."""
    done: set[str] = set()
    left_out: dict[str, int] = {}
    for group_name in group_names:
        group = GROUPS[group_name]
        rows = [row for row in services.objects.read(group.kind, None).rows if chosen.takes(group.kind, row)]
        left_out[group.kind] = max(0, len(rows) - MOST_OBJECTS)
        labelled = [(write_labels(group.labels(row)), row) for row in rows[:MOST_OBJECTS]]
        for metric in group.metrics:
            if metric.name in done:
                continue
            done.add(metric.name)
            family = Family(prefix + metric.name, metric.kind, metric.help)
            for labels, row in labelled:
                # What a stream with partitions has, its partitions have: a sum is to count it once.
                if row.get(metric.field) is not None and (not row.get("partitions") or metric in n.QUEUE_CONSUMERS):
                    family.add_written(number(row[metric.field]), labels)
            yield family
    cut = Family(f"{OWN_PREFIX}scrape_objects_left_out", GAUGE, "Objects too many to have samples of their own")
    for kind, count in left_out.items():
        cut.add(count, {"kind": kind})
    yield cut


def queue_infos(services: Services, prefix: str, chosen: Chosen) -> Family:
    """1 for each queue, with its type: what joins are made on."""
    family = Family(f"{prefix}queue_info", GAUGE, "A metric with a constant 1 value and labels of the queue")
    rows = [row for row in services.objects.read("queues", None).rows if chosen.takes("queues", row)]
    for row in rows[:MOST_OBJECTS]:
        theirs = n.type_label(row["type"])
        membership = "leader" if (row.get("leader") or row.get("node")) == row.get("node") else "follower"
        family.add(1, {**_queue(row), "queue_type": theirs, "membership": membership})
    return family


def oldest_ages(services: Services, chosen: Chosen) -> Iterator[Family]:
    """How long the oldest message of a queue has been there, and the delivery that is unacknowledged longest."""
    for kind, field, name, text, labels in (
        ("queues", "oldest_message_age_ms", "queue_oldest_message_age_seconds", "Age of the oldest message", _queue),
        (
            "queues", "oldest_unacked_age_ms", "queue_oldest_unacked_age_seconds",
            "Time since the delivery of a queue that is unacknowledged longest", _queue,
        ),
        (
            "channels", "oldest_unacked_age_ms", "channel_oldest_unacked_age_seconds",
            "Time since the delivery of a channel that is unacknowledged longest", _channel,
        ),
    ):  # fmt: skip
        rows = [row for row in services.objects.read(kind, None).rows if chosen.takes(kind, row)]
        family = Family(OWN_PREFIX + name, GAUGE, text)
        for row in rows[:MOST_OBJECTS]:
            if isinstance(row.get(field), (int, float)):
                family.add(row[field] / 1000, labels(row))
        yield family


def stream_families(services: Services, chosen: Chosen) -> Iterator[Family]:
    """Offsets and octets of streams, and how far behind each of their groups of readers is. Of so many streams with
    groups the node is asked; a sample says how many were left out."""
    rows = [row for row in services.objects.read("queues", None).rows if chosen.takes("queues", row)]
    streams = [row for row in rows if isinstance(row.get("next_offset"), int)][:MOST_OBJECTS]
    yield from _gauges(streams, (
        ("first_offset", "stream_first_offset", "Oldest offset of a stream"),
        ("next_offset", "stream_next_offset", "Offset that the next message of a stream gets"),
        ("stream_bytes", "stream_bytes", "Octets that a stream keeps, as they are stored"),
        ("stream_uncompressed_bytes", "stream_uncompressed_bytes", "The same, were nothing of it compressed"),
    ))  # fmt: skip
    compacted = [row for row in streams if isinstance(row.get("compacted_below"), int)]
    yield from _gauges(compacted, (
        ("compacted_below", "stream_compacted_below", "Offset below which the node has compacted a stream"),
        ("dirty_percent", "stream_dirty_percent", "How much of a stream in octets is not compacted, in percent"),
        ("tombstones", "stream_tombstones", "Tombstones in what is compacted of a stream"),
    ))  # fmt: skip
    read = [row for row in streams if row.get("stream_groups")]
    lags = Family(f"{OWN_PREFIX}stream_group_lag_messages", GAUGE, "Messages that a group of readers has not settled")
    left = 0
    for number_asked, row in enumerate(read):
        groups = _groups_of(services, row) if number_asked < MOST_STREAMS else None
        if groups is None:
            left += int(row["stream_groups"])
            continue
        for group in groups:
            lags.add(group["lag"], {**_queue(row), "group": group["name"]})
    yield lags
    cut = Family(f"{OWN_PREFIX}stream_groups_left_out", GAUGE, "Groups too many to have samples of their own")
    cut.add(left)
    yield cut


def _gauges(rows: Iterable[Row], named: Iterable[tuple[str, str, str]]) -> Iterator[Family]:
    """Of queues. named: field, name and text of each."""
    for field, name, text in named:
        family = Family(OWN_PREFIX + name, GAUGE, text)
        for row in rows:
            family.add(number(row.get(field)), _queue(row))
        yield family


def _groups_of(services: Services, row: Row) -> list[Row] | None:
    """None where the stream has just gone, or cannot be read."""
    try:
        found: list[Row] = services.node.request("stream.stat", vhost=row["vhost"], name=row["name"]).get("groups", [])
    except SystemRequestError:
        return None
    return found


def cluster_families(services: Services, family_names: set[str], chosen: Chosen) -> Iterator[Family]:
    """What is the same on all nodes: virtual hosts, exchanges and how many bindings they have."""
    if "vhost_status" in family_names:
        family = Family("rabbitmq_cluster_vhost_status", GAUGE, "Whether a given vhost is running")
        for row in services.objects.read("vhosts", None).rows:
            if not chosen.vhosts or row["name"] in chosen.vhosts:
                family.add(1, {"vhost": row["name"]})
        yield family
    if "exchange_names" in family_names or "exchange_name" in family_names:
        family = Family("rabbitmq_cluster_exchange_name", GAUGE, "Enumerates exchanges without any additional info")
        for row in services.objects.read("exchanges", None).rows[:MOST_OBJECTS]:
            if chosen.takes("exchanges", row):
                family.add(1, {**_exchange(row), "type": str(row.get("type"))})
        yield family
    if "exchange_bindings" in family_names:
        counts: dict[tuple[str, str], int] = {}
        for row in services.objects.read("bindings", None).rows:
            if chosen.takes("bindings", row):
                key = (row["vhost"], row["source"])
                counts[key] = counts.get(key, 0) + 1
        family = Family("rabbitmq_cluster_exchange_bindings", GAUGE, "Number of bindings for an exchange")
        for (vhost, exchange), count in list(counts.items())[:MOST_OBJECTS]:
            family.add(count, {"vhost": vhost, "exchange": exchange})
        yield family

"""Families of the node as a whole: identity, totals, churn, the process, alarms, and what is ours."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from amqp_broker.protocol.json_values import JsonValue
from amqp_broker.version import __version__
from amqp_broker.web.machine import Usage
from amqp_broker.web.product import API_LEVEL, PRODUCT, python_version
from amqp_broker.web.prometheus import names as n
from amqp_broker.web.prometheus.text import COUNTER, GAUGE, HISTOGRAM, Family

PREFIX: Final = "rabbitmq_"
GLOBAL_PREFIX: Final = "rabbitmq_global_"
OWN_PREFIX: Final = "amqp_broker_"
_PROTOCOL: Final = {"protocol": "amqp091"}
_MS: Final = 1000


def identity(node: str, cluster: str, cluster_id: str, endpoint: str) -> Iterator[Family]:
    """Exactly once a scrape: dashboards join on them."""
    found = Family(f"{PREFIX}identity_info", GAUGE, "RabbitMQ node and cluster identity info")
    found.add(
        1,
        {
            "rabbitmq_node": node,
            "rabbitmq_cluster": cluster,
            "rabbitmq_cluster_permanent_id": cluster_id,
            "rabbitmq_endpoint": endpoint,
        },
    )
    yield found
    build = Family(f"{PREFIX}build_info", GAUGE, "RabbitMQ and Erlang/OTP version info")
    build.add(
        1,
        {
            "rabbitmq_version": API_LEVEL,
            "prometheus_plugin_version": API_LEVEL,
            "prometheus_client_version": __version__,
            "erlang_version": python_version(),
            "product_name": PRODUCT,
            "product_version": __version__,
        },
    )
    yield build


def simple(prefix: str, metrics: Iterable[n.Metric], values: Mapping[str, JsonValue]) -> Iterator[Family]:
    """One sample each, without labels."""
    for metric in metrics:
        family = Family(prefix + metric.name, metric.kind, metric.help)
        family.add(number(values.get(metric.field)))
        yield family


def number(value: JsonValue) -> int | float:
    return value if isinstance(value, (int, float)) else 0


def _one(name: str, kind: str, text: str, value: int | float) -> Family:
    family = Family(PREFIX + name, kind, text)
    family.add(value)
    return family


def process(usage: Usage, facts: Mapping[str, JsonValue], uptime_ms: int) -> Iterator[Family]:
    """What RabbitMQ calls node metrics: of all processes of a node together."""
    yield _one("process_open_fds", GAUGE, "Open file descriptors", usage.descriptors)
    yield _one("process_max_fds", GAUGE, "Open file descriptors limit", usage.descriptors_limit)
    yield _one("process_resident_memory_bytes", GAUGE, "Memory used in bytes", usage.resident_bytes)
    limit = number(facts.get("mem_limit")) or usage.memory_bytes
    yield _one("resident_memory_limit_bytes", GAUGE, "Memory high watermark in bytes", limit)
    yield _one("disk_space_available_bytes", GAUGE, "Disk space available in bytes", usage.disk_free_bytes)
    low = number(facts.get("disk_free_limit"))
    yield _one("disk_space_available_limit_bytes", GAUGE, "Free disk space low watermark in bytes", low)
    yield _one("erlang_processes_used", GAUGE, "Threads of the node", usage.threads)
    yield _one("erlang_processes_limit", GAUGE, "Threads that the node may have", usage.threads_limit)
    yield _one("erlang_uptime_seconds", GAUGE, "Node uptime", uptime_ms / _MS)
    yield _one("erlang_scheduler_run_queue", GAUGE, "Always 0", 0)
    yield _one("erlang_net_ticktime_seconds", GAUGE, "Always 60", 60)
    switches = "erlang_scheduler_context_switches_total"
    yield _one(switches, COUNTER, "Context switches of the node's processes", usage.context_switches)
    yield _one("erlang_gc_runs_total", COUNTER, "Always 0", 0)
    yield _one("erlang_gc_reclaimed_bytes_total", COUNTER, "Always 0", 0)


def persister(totals: Mapping[str, JsonValue]) -> Iterator[Family]:
    """Input and output: what the node does not count apart is 0."""
    for each in ("read", "write", "sync", "seek", "reopen"):
        value = number(totals.get(f"io_{each}_count"))
        yield _one(f"io_{each}_ops_total", COUNTER, f"Input and output: operations of kind {each}", value)
    for each in ("read", "write"):
        value = number(totals.get(f"io_{each}_bytes"))
        yield _one(f"io_{each}_bytes_total", COUNTER, f"Input and output: octets of kind {each}", value)
    for each in ("read", "write", "sync", "seek"):
        seconds = number(totals.get(f"io_{each}_ms")) / _MS
        yield _one(f"io_{each}_time_seconds_total", COUNTER, f"Input and output: time of kind {each}", seconds)


    for name, field, text in (
        ("msg_store_read_total", "msg_store_read_count", "Messages read from pages on the disk"),
        ("msg_store_write_total", "msg_store_write_count", "Messages written to pages on the disk"),
        ("queue_index_write_ops_total", "queue_index_write_count", "Writes of the journal, of many entries each"),
    ):
        yield _one(name, COUNTER, text, number(totals.get(field)))
    yield _one("queue_index_read_ops_total", COUNTER, "Always 0: the journal is read at the start only", 0)


def times(totals: Mapping[str, JsonValue]) -> Iterator[Family]:
    """How long the turns of the node's loop take, with their inputs, and syncs of its journal."""
    for name, bounds, counts, total, text in (
        ("loop_turn_seconds", n.TURN_BUCKETS, "turns", "turn_seconds", "How long a turn of the loop took"),
        (
            "journal_sync_seconds", n.SYNC_BUCKETS, "journal_syncs", "journal_sync_seconds",
            "How long it took to write what waited, and to sync it",
        ),
    ):  # fmt: skip
        family = Family(OWN_PREFIX + name, HISTOGRAM, text)
        if len(counted := totals.get(counts) or ()) == len(bounds):
            family.add_histogram(bounds, counted, number(totals.get(total)), {})
        yield family


def alarms(health: Mapping[str, JsonValue], unreachable: int) -> Iterator[Family]:
    """1 while an alarm is on."""
    on = {each["resource"] for each in health.get("local_alarms") or ()}
    resources = {
        "free_disk_space_watermark": "disk",
        "memory_used_watermark": "memory",
        "file_descriptor_limit": "file_descriptors",
    }
    for name, resource in resources.items():
        is_on = resource in on
        yield _one(f"alarms_{name}", GAUGE, "is 1 if the alarm is in effect", int(is_on))
    yield _one("unreachable_cluster_peers_count", GAUGE, "Members that do not answer", unreachable)


def service(health: Mapping[str, JsonValue]) -> Iterator[Family]:
    """Whether the node serves, and what of the cluster it cannot, or could not with one member less."""
    counts = {
        "ready": (int(bool(health.get("ready"))), "Whether the node serves clients"),
        "draining": (int(bool(health.get("is_draining"))), "Whether the node is being drained"),
        "groups_without_leader": (len(health.get("leaderless_groups") or ()), "Groups that nobody leads"),
        "queues_quorum_critical": (
            len(health.get("quorum_critical") or ()), "Queues that stand still with one member less",
        ),
    }  # fmt: skip
    for name, (value, text) in counts.items():
        family = Family(OWN_PREFIX + name, GAUGE, text)
        family.add(value)
        yield family


def of_workers(workers: Mapping[int, Mapping[str, JsonValue]], usages: Mapping[int, Usage]) -> Iterator[Family]:
    """What each worker of a node counts and uses; of one that does not answer nothing but that."""
    up = Family(f"{OWN_PREFIX}worker_up", GAUGE, "Whether a worker of the node answers")
    for number_of, counted in workers.items():
        up.add(int(bool(counted)), {"worker": str(number_of)})
    yield up
    for metric in n.WORKER:
        family = Family(f"{OWN_PREFIX}worker_{metric.name}", metric.kind, metric.help)
        for number_of, counted in workers.items():
            if counted:
                family.add(number(counted.get(metric.field)), {"worker": str(number_of)})
        yield family
    for metric in n.WORKER_PROCESS:
        family = Family(f"{OWN_PREFIX}worker_{metric.name}", metric.kind, metric.help)
        for number_of, usage in usages.items():
            family.add(getattr(usage, metric.field), {"worker": str(number_of)})
        yield family
    delays = Family(f"{OWN_PREFIX}worker_loop_delay_seconds", HISTOGRAM, "How late the timers of a worker were")
    for number_of, counted in workers.items():
        if len(counts := counted.get("loop_delays") or ()) == len(n.DELAY_BUCKETS):
            late_s = number(counted.get("loop_delay_ms")) / _MS
            delays.add_histogram(n.DELAY_BUCKETS, counts, late_s, {"worker": str(number_of)})
    yield delays


def globals_of(totals: Mapping[str, JsonValue], queue_types: Sequence[Mapping[str, JsonValue]]) -> Iterator[Family]:
    """Counters of the node by protocol and type of queue. queue_types: all that there are (`queue.types`)."""
    for metric in n.GLOBAL:
        family = Family(GLOBAL_PREFIX + metric.name, metric.kind, metric.help)
        family.add(number(totals.get(metric.field)), _PROTOCOL)
        yield family
    told = totals.get("by_type") or {}
    by_type = {n.type_label(each["name"]): told.get(each["name"], {}) for each in queue_types}
    delivered = Family(f"{GLOBAL_PREFIX}messages_delivered_total", COUNTER, "Messages delivered or got, in any mode")
    for theirs, values in by_type.items():
        total = sum(number(values.get(name)) for name in ("deliver", "deliver_no_ack", "get", "get_no_ack"))
        delivered.add(total, {**_PROTOCOL, "queue_type": theirs})
    yield delivered
    for metric in n.GLOBAL_BY_TYPE:
        family = Family(GLOBAL_PREFIX + metric.name, metric.kind, metric.help)
        for theirs, values in by_type.items():
            family.add(number(values.get(metric.field)), {**_PROTOCOL, "queue_type": theirs})
        yield family
    keeping = {n.type_label(each["name"]) for each in queue_types if each["keeps_dead_letters"]}
    yield from _dead_letters(by_type, keeping)
    yield _sizes(totals)


def _dead_letters(by_type: Mapping[str, Mapping[str, JsonValue]], keeping: set[str]) -> Iterator[Family]:
    """Those that had somewhere to go: what is dropped without a dead letter exchange is none. keeping: the types that
    keep their dead letters until they are published."""
    for reason, text in n.DEAD_LETTERS.items():
        family = Family(f"{GLOBAL_PREFIX}messages_dead_lettered_{reason}_total", COUNTER, f"Dead letters: {text}")
        for theirs, values in by_type.items():
            told = number(values.get(f"dead_lettered_{reason}"))
            own = n.AT_LEAST_ONCE if theirs in keeping else n.AT_MOST_ONCE
            for strategy in n.STRATEGIES:
                labels = {"queue_type": theirs, "dead_letter_strategy": strategy}
                family.add(told if strategy == own else 0, labels)
        yield family


def _sizes(totals: Mapping[str, JsonValue]) -> Family:
    """By the size of the body; each bucket with those below it."""
    family = Family(f"{PREFIX}message_size_bytes", HISTOGRAM, "Size of messages received from publishers")
    counts = totals.get("message_sizes") or [0] * len(n.SIZE_BUCKETS)
    family.add_histogram(n.SIZE_BUCKETS, counts, number(totals.get("publish_oct")), _PROTOCOL)
    return family

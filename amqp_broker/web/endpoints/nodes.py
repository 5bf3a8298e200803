"""Nodes: the members of the cluster, and what the one here uses of its machine."""

from __future__ import annotations

import os
from typing import Final

from amqp_broker.protocol.json_values import JsonObject
from amqp_broker.settings.workers import node_of_worker
from amqp_broker.web.access import Access
from amqp_broker.web.answer import Answer
from amqp_broker.web.asked import Asked
from amqp_broker.web.endpoint import Endpoint
from amqp_broker.web.endpoints.lists import show_rows
from amqp_broker.web.endpoints.overview import CHURN, EXCHANGE_TYPES, contexts
from amqp_broker.web.errors import object_not_found
from amqp_broker.web.listing import cut, read_columns
from amqp_broker.web.machine import Usage, sum_of
from amqp_broker.web.product import API_LEVEL, PRODUCT, python_version
from amqp_broker.web.rates import Reading, details
from amqp_broker.web.shapes import View, read_view
from amqp_broker.web.workers import usages_of, whole_node

#: What RabbitMQ counts and a broker without its parts does not: clients with types want to find them.
_ZEROS: Final = (
    "queue_index_read_count", "io_read_avg_time", "io_write_avg_time", "io_seek_count", "io_seek_avg_time",
    "io_reopen_count", "gc_num", "gc_bytes_reclaimed", "mnesia_ram_tx_count", "mnesia_disk_tx_count",
)  # fmt: skip
#: What the node counts of its disk. A page counts as a whole one.
_DISK: Final = (
    "io_read_count", "io_read_bytes", "io_write_count", "io_write_bytes", "io_sync_count", "msg_store_read_count",
    "msg_store_write_count", "queue_index_write_count",
)  # fmt: skip
_QUEUES_OF_GC: Final = (
    "connection_closed", "channel_closed", "consumer_deleted", "exchange_deleted", "queue_deleted", "vhost_deleted",
    "node_node_deleted", "channel_consumer_deleted",
)  # fmt: skip
_GAUGES: Final = ("fd_used", "sockets_used", "mem_used", "disk_free", "proc_used")
_MEMORY_CLASSES: Final = (
    "connection_readers", "connection_writers", "connection_channels", "connection_other", "queue_procs",
    "queue_slave_procs", "quorum_queue_procs", "quorum_queue_dlx_procs", "stream_queue_procs",
    "stream_queue_replica_reader_procs", "stream_queue_coordinator_procs", "plugins", "metadata_store", "other_proc",
    "metrics", "mgmt_db", "mnesia", "quorum_ets", "metadata_store_ets", "other_ets", "binary", "msg_index", "code",
    "atom", "other_system", "allocated_unused", "reserved_unallocated",
)  # fmt: skip
_RELATIVE: Final = 100


def list_nodes(asked: Asked) -> Answer:
    view = read_view(asked.query)
    facts = asked.verb("node")
    return show_rows(asked, [_show(asked, name, facts, view) for name in facts["members"]])


def show_node(asked: Asked) -> Answer:
    facts = _facts(asked)
    shown = _show(asked, asked.name("node"), facts, read_view(asked.query))
    if asked.query.get("memory") == "true":
        shown["memory"] = _memory(asked)
    return Answer(value=cut(shown, read_columns(asked.query)))


def _facts(asked: Asked) -> JsonObject:
    """What the node says of itself. Raises ApiError where the path names no member."""
    facts = asked.verb("node")
    if asked.name("node") not in facts["members"]:
        raise object_not_found()
    return facts


def _show(asked: Asked, name: str, facts: JsonObject, view: View) -> JsonObject:
    """What a member says of itself, with all of its workers; of the one here what its machine says, too."""
    told = facts["nodes"].get(name)
    if told is None:
        return {"name": name, "type": "disc", "running": False, "rack": _rack_of(name, facts)}
    usage = sum_of(usages_of(facts).values()) if name == facts["name"] else Usage()
    shown = {**_about(asked, usage, told), "name": name, "rack": _rack_of(name, facts)}
    shown.update((key, value) for key, value in told.items() if value is not None and key in _TOLD)
    parts = [each for worker, each in facts["nodes"].items() if node_of_worker(worker) == name]
    shown.update({key: sum(each.get(key) or 0 for each in parts) for key in _DIVIDED})
    shown["mem_limit"] = _budget_of(parts)
    shown.update({key: any(each.get(key) for each in parts) for key in _OF_ANY})
    if not usage.resident_bytes:
        shown["mem_used"] = sum(each.get("mem_used") or 0 for each in parts)
    counters = (*_ZEROS, *_DISK, *CHURN, "io_sync_avg_time", "context_switches")
    totals = whole_node(asked.services.totals.read(), name)
    shown.update({each: totals.get(each, 0) for each in (*CHURN, *_DISK)})
    shown["io_sync_avg_time"] = round(totals.get("io_sync_ms", 0) / (totals.get("io_sync_count") or 1), 3)
    values = {each: shown.get(each) or 0 for each in (*counters, *_GAUGES)}
    readings = asked.services.readings.add("nodes", name, told["at"], values)
    pair = [each for each in readings if each is not None]
    shown.update(_details(pair, counters, view))
    return shown


def _rack_of(name: str, facts: JsonObject) -> str:
    """By the metadata: also of a member that is down."""
    return str(facts.get("racks", {}).get(name, ""))


#: Of which each worker has a part.
_DIVIDED: Final = ("sockets_used",)
#: That a node is, if one of its workers is.
_OF_ANY: Final = ("mem_alarm", "disk_free_alarm", "being_drained")
#: What the node says itself takes the place of what is thought of it here.
_TOLD: Final = (
    "mem_limit", "mem_alarm", "disk_free_limit", "disk_free_alarm", "being_drained", "sockets_used", "config_files",
)  # fmt: skip


def _budget_of(parts: list[JsonObject]) -> int:
    """All workers of a node know it; those of the version before only their own parts."""
    return max(each.get("memory_budget") or 0 for each in parts) or sum(each.get("mem_limit") or 0 for each in parts)


def _about(asked: Asked, usage: Usage, facts: JsonObject) -> JsonObject:
    return {
        "type": "disc",
        "running": True,
        "being_drained": False,
        "os_pid": str(facts.get("os_pid", "")),
        "uptime": facts.get("at", 0) - facts.get("started_at", 0),
        "processors": os.cpu_count() or 1,
        "run_queue": 0,
        "partitions": [],
        "fd_used": usage.descriptors,
        "fd_total": usage.descriptors_limit,
        "sockets_used": usage.sockets,
        "sockets_total": usage.descriptors_limit,
        "mem_used": usage.resident_bytes or facts.get("mem_used", 0),
        "mem_limit": usage.memory_bytes,
        "mem_alarm": False,
        "disk_free": usage.disk_free_bytes,
        "disk_free_limit": 0,
        "disk_free_alarm": False,
        "proc_used": usage.threads,
        "proc_total": usage.threads_limit,
        "context_switches": usage.context_switches,
        **dict.fromkeys(_ZEROS, 0),
        "rates_mode": "basic",
        "exchange_types": EXCHANGE_TYPES,
        "auth_mechanisms": [
            {"name": name, "description": f"SASL {name}", "enabled": True}
            for name in facts.get("auth_mechanisms", ())
        ],
        "applications": [{"name": "amqp_broker", "description": PRODUCT, "version": API_LEVEL}],
        "contexts": contexts(asked),
        "log_files": [],
        "db_dir": str(facts.get("data_dir", "")),
        "config_files": [],
        "net_ticktime": 60,
        "enabled_plugins": [],
        "mem_calculation_strategy": "rss",
        "ra_open_file_metrics": {"ra_log_wal": 0, "ra_log_segment_writer": 0},
        "rabbitmq_version": API_LEVEL,
        "erlang_version": python_version(),
        "erlang_full_version": python_version(),
        "cluster_links": [],
        "metrics_gc_queue_length": dict.fromkeys(_QUEUES_OF_GC, 0),
    }


def _details(pair: list[Reading], counters: tuple[str, ...], view: View) -> JsonObject:
    grid = view.grids.get("node_stats")
    found = {f"{name}_details": details(name, pair, grid) for name in counters}
    return found | {f"{name}_details": details(name, pair, grid, is_counter=False) for name in _GAUGES}


def show_memory(asked: Asked) -> Answer:
    _facts(asked)
    return Answer(value={"memory": _memory(asked)})


def show_relative_memory(asked: Asked) -> Answer:
    _facts(asked)
    memory = _memory(asked)
    whole = memory["total"]["rss"] or 1
    shares = {name: memory[name] * _RELATIVE // whole for name in _MEMORY_CLASSES}
    return Answer(value={"memory": {**shares, "total": _RELATIVE}})


def _memory(asked: Asked) -> JsonObject:
    """The classes are RabbitMQ's: messages are `binary`, quorum queues' `quorum_queue_procs`, and the rest is code."""
    totals, facts = whole_node(asked.services.totals.read()), asked.verb("node")
    used = sum_of(usages_of(facts).values()).resident_bytes
    quorum = int(totals.get("memory_quorum_queues") or 0)
    messages = max(0, int(totals.get("memory_used") or 0) - quorum)
    classes = dict.fromkeys(_MEMORY_CLASSES, 0)
    classes |= {"quorum_queue_procs": quorum, "binary": messages}
    classes["other_system"] = max(0, used - quorum - messages)
    return {**classes, "strategy": "rss", "total": {"rss": used, "allocated": used, "erlang": used}}


ENDPOINTS = (
    Endpoint("GET", "/nodes", list_nodes, Access.MONITORING),
    Endpoint("GET", "/nodes/{node}", show_node, Access.MONITORING),
    Endpoint("GET", "/nodes/{node}/memory", show_memory, Access.MONITORING),
    Endpoint("GET", "/nodes/{node}/memory/relative", show_relative_memory, Access.MONITORING),
)

"""Shapes: from a row of the node, flat and with plain counters, to an object of the API, with `message_stats` and
`X_details`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from amqp_broker.protocol.json_values import JsonObject, JsonValue
from amqp_broker.web.rates import Grid, Reading, Readings, details, read_grid
from amqp_broker.web.totals import DELIVERED

Row = JsonObject

#: Counters of messages as the node names them, which the API nests.
MESSAGE_COUNTERS: Final = (
    "publish", "confirm", "return_unroutable", "drop_unroutable", "deliver", "deliver_no_ack", "get", "get_no_ack",
    "get_empty", "deliver_get", "redeliver", "ack", "disk_reads", "disk_writes", "publish_in", "publish_out",
)  # fmt: skip
LENGTHS: Final = ("messages", "messages_ready", "messages_unacknowledged")
OCTETS: Final = ("recv_oct", "send_oct")
#: What of the time a queue could have delivered at once.
CAPACITY: Final = "consumer_capacity"
#: How much of it is what was seen last.
_NEWEST_SHARE: Final = 0.3
FAMILIES: Final = ("lengths", "msg_rates", "data_rates", "node_stats")


@dataclass(frozen=True, slots=True)
class View:
    """How a request wants statistics: none at all, or with samples."""

    has_rates: bool = True
    grids: Mapping[str, Grid | None] = field(default_factory=dict)


def read_view(query: Mapping[str, str]) -> View:
    """Raises ApiError."""
    return View(query.get("disable_stats") != "true", {family: read_grid(query, family) for family in FAMILIES})


@dataclass(frozen=True, slots=True)
class Shape:
    """`ident` tells objects of a kind apart; `columns` are what counters are called in rows where that is not their own
    name; `defaults` are what clients with types have to find; `times` are milliseconds that become texts."""

    kind: str
    ident: Callable[[Row], str]
    lengths: tuple[str, ...] = ()
    octets: tuple[str, ...] = ()
    has_message_stats: bool = False
    columns: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, JsonValue] = field(default_factory=dict)
    times: tuple[str, ...] = ()

    def finish(self, row: Row, at: int, readings: Readings, view: View, *, is_alone: bool = False) -> Row:
        """The object that is shown. The row stays as it is. is_alone: of one that is looked at by itself, samples are
        kept."""
        shown: Row = dict(self.defaults)
        shown.update((key, value) for key, value in row.items() if value is not None)
        shown.update((name, _as_time(shown[name])) for name in self.times if name in shown)
        nested = MESSAGE_COUNTERS if self.has_message_stats else ()
        columns = {name: self.columns.get(name, name) for name in nested}
        counters: dict[str, int] = {name: shown.pop(column) for name, column in columns.items() if column in shown}
        if counters and "deliver_get" not in counters and any(name in counters for name in DELIVERED):
            counters["deliver_get"] = sum(counters.get(name, 0) for name in DELIVERED)
        if not view.has_rates:
            return shown
        ident = self.ident(row)
        values = {**counters, **{name: shown.get(name, 0) for name in (*self.lengths, *self.octets)}}
        if CAPACITY in shown:
            values[CAPACITY] = shown[CAPACITY] = _share_of_time(shown[CAPACITY], at, readings.newest(self.kind, ident))
            shown["consumer_utilisation"] = shown[CAPACITY]
        pair = readings.add(self.kind, ident, at, values)
        if is_alone:
            known = readings.watch(self.kind, ident, pair)
        else:
            known = [each for each in pair if each is not None]
        for names, family, is_counter in ((self.lengths, "lengths", False), (self.octets, "data_rates", True)):
            for name in names:
                shown.setdefault(name, 0)
                shown[f"{name}_details"] = details(name, known, view.grids.get(family), is_counter=is_counter)
        if any(counters.values()):
            shown["message_stats"] = nest(counters, known, view.grids.get("msg_rates"))
        return shown


def _as_time(milliseconds: int) -> str:
    """As clients of RabbitMQ read it."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")


def _share_of_time(is_free: bool, at: int, before: Reading | None) -> float:
    """Whether it is free now, and what was seen of it before."""
    if before is None or CAPACITY not in before.values:
        return float(is_free)
    share = before.values[CAPACITY]
    return share if at <= before.at else round(share + _NEWEST_SHARE * (is_free - share), 3)


def nest(counters: Mapping[str, int | float], known: list[Reading], grid: Grid | None) -> Row:
    """Counters, each with its details."""
    stats: Row = {}
    for name, value in counters.items():
        stats[name] = value
        stats[f"{name}_details"] = details(name, known, grid)
    return stats


def by_vhost_and_name(row: Row) -> str:
    return f"{row.get('vhost')}\0{row.get('name')}"


def by_name(row: Row) -> str:
    return str(row.get("name"))


#: What is Erlang's: clients with types want to find it.
_ERLANG: Final = {
    "reductions": 0, "reductions_details": {"rate": 0.0},
    "garbage_collection": dict.fromkeys(
        ("fullsweep_after", "max_heap_size", "min_bin_vheap_size", "min_heap_size", "minor_gcs"), 0
    ),
}  # fmt: skip
#: What there is of a TLS connection alone.
_TLS: Final = dict.fromkeys((
    "ssl_protocol", "ssl_key_exchange", "ssl_cipher", "ssl_hash", "peer_cert_subject", "peer_cert_issuer",
    "peer_cert_validity",
))  # fmt: skip

QUEUE: Final = Shape(
    "queues", by_vhost_and_name, LENGTHS, has_message_stats=True, times=("idle_since",),
    defaults={
        "arguments": {}, "auto_delete": False, "consumers": 0, "durable": True, "effective_policy_definition": {},
        "exclusive": False, "policy": None, "operator_policy": None, "state": "running", "exclusive_consumer_tag": None,
        "single_active_consumer_tag": None, "head_message_timestamp": None, **_ERLANG,
    },
)  # fmt: skip
EXCHANGE: Final = Shape(
    "exchanges", by_vhost_and_name, has_message_stats=True,
    defaults={
        "arguments": {}, "auto_delete": False, "durable": True, "internal": False,
        "user_who_performed_action": "rmq-internal",
    },
)  # fmt: skip
CONNECTION: Final = Shape(
    "connections", by_name, octets=OCTETS,
    defaults={
        "client_properties": {}, "protocol": "AMQP 0-9-1", "type": "network", "state": "running", "connected_at": 0,
        "recv_cnt": 0, "send_cnt": 0, "send_pend": 0, **_TLS, **_ERLANG,
    },
)  # fmt: skip
CHANNEL: Final = Shape(
    "channels", by_name, has_message_stats=True,
    columns={"confirm": "confirm_count"},  # `confirm` says whether the channel is in that mode
    defaults={
        "acks_uncommitted": 0, "confirm": False, "connection_details": {}, "consumer_count": 0,
        "global_prefetch_count": 0, "messages_unacknowledged": 0, "messages_uncommitted": 0,
        "messages_unconfirmed": 0, "pending_raft_commands": 0, "prefetch_count": 0, "state": "running",
        "transactional": False, **_ERLANG,
    },
)  # fmt: skip
VHOST: Final = Shape(
    "vhosts", by_name, LENGTHS, OCTETS, has_message_stats=True,
    defaults={
        "cluster_state": {}, "description": "", "protected_from_deletion": False, "tags": [], "tracing": False,
    },
)  # fmt: skip

"""The paths of the second listener: `/metrics` and its relatives."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain
from typing import Final
from urllib.parse import parse_qs

from amqp_broker.protocol.json_values import JsonObject
from amqp_broker.system_client import SystemRequestError
from amqp_broker.web.access import Access
from amqp_broker.web.answer import Answer
from amqp_broker.web.asked import Asked
from amqp_broker.web.endpoint import Endpoint, Endpoints
from amqp_broker.web.errors import bad_request
from amqp_broker.web.listing import safe_pattern
from amqp_broker.web.machine import Usage, sum_of
from amqp_broker.web.prometheus import names as n
from amqp_broker.web.prometheus.objects import (
    AGES,
    GROUPS,
    STREAMS,
    Chosen,
    cluster_families,
    families_of,
    oldest_ages,
    queue_infos,
    stream_families,
)
from amqp_broker.web.prometheus.raft import FAMILY, raft_families
from amqp_broker.web.prometheus.text import GAUGE, MEDIA, Family, write
from amqp_broker.web.prometheus.whole import (
    OWN_PREFIX,
    PREFIX,
    alarms,
    globals_of,
    identity,
    number,
    of_workers,
    persister,
    process,
    service,
    simple,
    times,
)
from amqp_broker.web.workers import usages_of, whole_node, workers_of

DETAILED_PREFIX: Final = "rabbitmq_detailed_"
_MOST_VHOSTS: Final = 100
#: Families of the whole that `/metrics/detailed` takes, too.
_WHOLE: Final = {"connection_churn_metrics": n.CHURN, "auth_attempt_metrics": n.AUTH, "totals": n.TOTALS}
_CLUSTER_WIDE: Final = frozenset({"vhost_status", "exchange_names", "exchange_name", "exchange_bindings"})
_OF_THE_NODE: Final = frozenset({"node_coarse_metrics", "node_metrics"})
_PERSISTER: Final = "node_persister_metrics"
#: What `/metrics` sums up over all objects, as far as the node counts it without looking at each.
_BY_OBJECT: Final[tuple[tuple[n.Metric, ...], ...]] = (
    n.QUEUE_COARSE, n.QUEUE_CONSUMERS, n.QUEUE, n.QUEUE_DELIVERY, n.EXCHANGE, n.CHANNEL, n.CHANNEL_EXCHANGE,
    n.CHANNEL_QUEUE, n.CONNECTION_COARSE, n.CONNECTION,
)  # fmt: skip
#: Families that RabbitMQ has, and we have nothing to say in (docs/management.md says why).
EMPTY: Final = frozenset(
    {"queue_exchange_metrics", "channel_queue_exchange_metrics", "stream_consumer_metrics",
     "channel_process_metrics", "connection_process_metrics"}
)  # fmt: skip


def show_totals(asked: Asked) -> Answer:
    return _text(asked, "aggregated", chain(_whole(asked), raft_families(asked.services, PREFIX, by_group=False)))


def show_objects(asked: Asked) -> Answer:
    """The totals that have no objects, and the rest by object."""
    objects = _objects(asked, tuple(GROUPS), PREFIX, Chosen())
    groups = raft_families(asked.services, PREFIX, by_group=True)
    return _text(asked, "per-object", chain(_without_objects(asked), objects, groups))


def show_detailed(asked: Asked) -> Answer:
    """What is asked for, and no more: `family` and `vhost` as often as wanted, `queue` a regex."""
    asked_for = parse_qs(asked.query_text, keep_blank_values=True, errors="surrogateescape")
    wanted = asked_for.get("family", [])
    known = {*GROUPS, *_WHOLE, *_CLUSTER_WIDE, *_OF_THE_NODE, _PERSISTER, *EMPTY, FAMILY, AGES, STREAMS}
    unknown = [each for each in wanted if each not in known]
    if unknown:
        raise bad_request(f"family {unknown[0]!r} is not known; there are {', '.join(sorted(known))}")
    vhosts = asked_for.get("vhost", [])
    if len(vhosts) > _MOST_VHOSTS:
        raise bad_request(f"at most {_MOST_VHOSTS} virtual hosts at a time")
    pattern = safe_pattern(asked_for["queue"][0]) if asked_for.get("queue") else None
    chosen = Chosen(frozenset(vhosts), pattern)
    return _text(asked, "detailed", _detailed(asked, wanted, chosen))


def _detailed(asked: Asked, wanted: list[str], chosen: Chosen) -> Iterator[Family]:
    totals = _totals(asked)
    for name, metrics in _WHOLE.items():
        if name in wanted:
            yield from simple(DETAILED_PREFIX, metrics, _with_attempts(totals))
    if _OF_THE_NODE & set(wanted):
        facts = _facts(asked)
        yield from (_renamed(family) for family in _process(facts, usages_of(facts)))
    if _PERSISTER in wanted:
        yield from map(_renamed, persister(totals))
    groups = tuple(name for name in GROUPS if name in wanted)
    if groups:
        yield from families_of(asked.services, groups, DETAILED_PREFIX, chosen)
    if any(GROUPS[name].kind == "queues" for name in groups):
        yield queue_infos(asked.services, DETAILED_PREFIX, chosen)
    if AGES in wanted:
        yield from oldest_ages(asked.services, chosen)
    if STREAMS in wanted:
        yield from stream_families(asked.services, chosen)
    yield from cluster_families(asked.services, set(wanted), chosen)
    if FAMILY in wanted:
        yield from raft_families(asked.services, DETAILED_PREFIX, by_group=True)


def _renamed(family: Family) -> Family:
    return replace(family, name=DETAILED_PREFIX + family.name.removeprefix(PREFIX))


def show_memory(asked: Asked) -> Answer:
    totals, used = _totals(asked), sum_of(usages_of(_facts(asked)).values()).resident_bytes
    parts = {"rss": used, "quorum_queue_procs": number(totals.get("memory_quorum_queues"))}
    parts["binary"] = max(0, number(totals.get("memory_used")) - parts["quorum_queue_procs"])
    families = []
    for name, value in parts.items():
        family = Family(f"{PREFIX}memory_{name}_bytes", GAUGE, "Memory of the node")
        family.add(value)
        families.append(family)
    return _text(asked, "memory-breakdown", families)


def _text(asked: Asked, endpoint: str, families: Iterable[Family]) -> Answer:
    """families: made when they are asked for here, so that the time they take is counted."""
    began = time.monotonic()
    totals = _totals(asked)
    found = [*identity(totals["node"], totals["cluster_name"], totals["cluster_id"], endpoint), *families]
    took = Family(f"{OWN_PREFIX}management_scrape_seconds", GAUGE, "How long this scrape took")
    took.add(time.monotonic() - began)
    snapshot = Family(f"{OWN_PREFIX}management_snapshot_seconds", GAUGE, "How long the node took to say its totals")
    snapshot.add(asked.services.totals.took_s)
    return Answer(raw=write([*found, snapshot, took]), media=MEDIA)


def _whole(asked: Asked) -> Iterator[Family]:
    totals = _with_attempts(_totals(asked))
    yield from _without_objects(asked)
    for group in _BY_OBJECT:
        yield from simple(PREFIX, [metric for metric in group if metric.field in totals], totals)


def _without_objects(asked: Asked) -> Iterator[Family]:
    services = asked.services
    totals = _totals(asked)
    for group in (n.TOTALS, n.CHURN, n.AUTH):
        yield from simple(PREFIX, group, _with_attempts(totals))
    facts = _facts(asked)
    usages = usages_of(facts)
    yield from _process(facts, usages)
    yield from persister(totals)
    unreachable = len(facts.get("members", ())) - len(facts.get("running", ()))
    health = services.node.request("health")
    yield from alarms(health, unreachable)
    yield from service(health)
    yield from globals_of(totals, services.node.request("queue.types")["types"])
    yield from simple(OWN_PREFIX, n.OWN, totals)
    yield from times(totals)
    if workers := workers_of(totals):
        yield from of_workers(workers, usages)


def _totals(asked: Asked) -> JsonObject:
    """Of this node: of all its workers together."""
    return whole_node(asked.services.totals.read())


def _with_attempts(totals: JsonObject) -> JsonObject:
    """By protocol the node says, as a sum the dashboards ask."""
    counted = totals["auth_attempts"].values()
    sums = {name: sum(each[name] for each in counted) for name in ("attempts", "failed", "succeeded")}
    return {
        **totals,
        "confirm_count": totals.get("confirm", 0),
        "auth_attempts": sums["attempts"],
        "auth_attempts_failed": sums["failed"],
        "auth_attempts_succeeded": sums["succeeded"],
    }


def _process(facts: JsonObject, usages: dict[int, Usage]) -> Iterator[Family]:
    uptime_ms = int(facts.get("at", 0)) - int(facts.get("started_at", 0))
    yield from process(sum_of(usages.values()), facts, uptime_ms)


def _facts(asked: Asked) -> JsonObject:
    """Without a login: what the node tells the management process itself."""
    try:
        return asked.services.node.request("node")
    except SystemRequestError:
        return {}


def _objects(asked: Asked, groups: tuple[str, ...], prefix: str, chosen: Chosen) -> Iterator[Family]:
    yield from families_of(asked.services, groups, prefix, chosen)
    yield queue_infos(asked.services, prefix, chosen)
    yield from oldest_ages(asked.services, chosen)
    yield from stream_families(asked.services, chosen)


def metrics_endpoints() -> Endpoints:
    """The table of the second listener: nobody logs in there."""
    paths = {
        "/metrics": show_totals,
        "/metrics/per-object": show_objects,
        "/metrics/detailed": show_detailed,
        "/metrics/memory-breakdown": show_memory,
    }
    return Endpoints(
        Endpoint("GET", path, answer, Access.NOBODY_ASKED, media="text/plain") for path, answer in paths.items()
    )

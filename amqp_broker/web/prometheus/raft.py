"""Families of the groups that replicate: RabbitMQ has one for each quorum queue, here many queues share one.

So a series is that of a group, and the label `queue` is its name. Each has the name of 4.x and the older one, which
dashboards ask for, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from amqp_broker.protocol.json_values import JsonValue
from amqp_broker.system_client import SystemRequestError
from amqp_broker.web.prometheus.text import GAUGE, Family
from amqp_broker.web.prometheus.whole import OWN_PREFIX
from amqp_broker.web.services import Services

FAMILY: Final = "ra_metrics"
#: By field: the names of today and of before, and what it is.
_NAMES: Final[Mapping[str, tuple[str, str, str]]] = {
    "term": ("raft_term", "raft_term_total", "Current term of a group"),
    "commit_index": ("raft_commit_index", "raft_log_commit_index", "Up to which entry a group has decided"),
    "applied_index": ("raft_last_applied", "raft_log_last_applied_index", "Up to which entry this node has applied"),
    "checkpoint_index": ("raft_snapshot_index", "raft_log_snapshot_index", "Up to which entry the state is stored"),
    "last_index": ("raft_last_written_index", "raft_log_last_written_index", "The last entry in the log of this node"),
}
_MOST_SEGMENTS: Final = ("raft_max_num_segments", "Segments of the journal that the group needs which needs most")


def raft_families(services: Services, prefix: str, *, by_group: bool) -> Iterator[Family]:
    """One sample a group, or the largest of all groups; and how far others are behind."""
    try:
        status = services.node.request("cluster.status", brief=True)
    except SystemRequestError:
        return
    groups = status["groups"]
    for field, (name, older, text) in _NAMES.items():
        for each in (name, older):
            family = Family(prefix + each, GAUGE, text)
            for group in groups if by_group else ():
                family.add(group[field], _labels(group))
            if not by_group:
                family.add(max((group[field] for group in groups), default=0))
            yield family
    yield from _segments(groups, prefix, by_group=by_group)
    yield from _latencies(groups, prefix, by_group=by_group)
    yield from _links(status)


def _segments(groups: list[Mapping[str, JsonValue]], prefix: str, *, by_group: bool) -> Iterator[Family]:
    """Files of the journal, which is that of all groups: those from the first that a group needs on. A member of a
    version before does not say it."""
    counted = [(group, group["segments"]) for group in groups if "segments" in group]
    name, text = ("raft_num_segments", "Segments that a group needs") if by_group else _MOST_SEGMENTS
    family = Family(prefix + name, GAUGE, text)
    for group, count in counted if by_group else ():
        family.add(count, _labels(group))
    if counted and not by_group:
        family.add(max(count for _, count in counted))
    yield family


def _latencies(groups: list[Mapping[str, JsonValue]], prefix: str, *, by_group: bool) -> Iterator[Family]:
    """Of the groups that this node leads, in steps of the node's clock: a millisecond."""
    led = [group for group in groups if group["role"] == "leader" and group.get("commit_ms") is not None]
    for name in ("raft_commit_latency_seconds", "raft_entry_commit_latency_seconds"):
        family = Family(prefix + name, GAUGE, "How long an entry takes until it is decided, the newest count most")
        for group in led if by_group else ():
            family.add(group["commit_ms"] / 1000, _labels(group))
        if not by_group:
            family.add(max((group["commit_ms"] for group in led), default=0) / 1000)
        yield family
    if not by_group:
        longest = Family(f"{prefix}raft_max_commit_latency_seconds", GAUGE, "The longest of all groups")
        longest.add(max((group["commit_ms"] for group in led), default=0) / 1000)
        yield longest


def _labels(group: Mapping[str, JsonValue]) -> dict[str, str]:
    number = str(group["group"])
    return {"vhost": "", "queue": f"group-{number}", "group": number}


def _links(status: Mapping[str, JsonValue]) -> Iterator[Family]:
    links = Family(f"{OWN_PREFIX}peer_link_up", GAUGE, "Whether there is a link to another member")
    for member in status["members"]:
        if not member["is_this_node"]:
            links.add(int(member["is_linked"]), {"peer": member["node"]})
    yield links
    lags = Family(f"{OWN_PREFIX}group_lag", GAUGE, "Entries that another member lacks of a group led here")
    for group in status["groups"]:
        for peer, lag in group["lag"].items():
            lags.add(lag or 0, {"group": str(group["group"]), "peer": peer})
    yield lags

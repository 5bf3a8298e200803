"""What can be listed: how it is called on the command line and by the broker, and the columns shown unless others are
asked for. `a.b` is what is in column a under b."""

from __future__ import annotations

from typing import Final, NamedTuple


class ListedKind(NamedTuple):
    """name: to the broker, "" for nodes, which are in no pages; "audit" is the log of that name."""

    name: str
    columns: tuple[str, ...]
    is_in_vhosts: bool = True


def _columns(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_POLICY: Final = _columns("vhost name pattern apply-to priority definition")

KINDS: Final[dict[str, ListedKind]] = {
    "audit": ListedKind("audit", _columns("time user by from what vhost name outcome reason count details")),
    "bindings": ListedKind(
        "bindings", _columns("vhost source destination_type destination routing_key arguments")
    ),
    "channels": ListedKind(
        "channels",
        _columns(
            "name user vhost state consumer_count prefetch_count messages_unacknowledged messages_unconfirmed publish "
            "deliver_get"
        ),
    ),
    "connections": ListedKind(
        "connections",
        _columns("name user vhost state channels ssl recv_oct send_oct connected_at user_provided_name"),
    ),
    "consumers": ListedKind(
        "consumers",
        _columns(
            "queue.vhost queue.name consumer_tag active ack_required prefetch_count channel_details.connection_name "
            "channel_details.number"
        ),
    ),
    "exchanges": ListedKind("exchanges", _columns("vhost name type durable auto_delete internal policy arguments")),
    "global-parameters": ListedKind("global_parameters", _columns("name value"), is_in_vhosts=False),
    "nodes": ListedKind(
        "",
        _columns(
            "name connections channels queues consumers messages_ready messages_unacknowledged memory_used "
            "memory_budget journal_bytes"
        ),
        is_in_vhosts=False,
    ),
    "operator-policies": ListedKind("operator_policies", _POLICY),
    "parameters": ListedKind("parameters", _columns("vhost component name value")),
    "permissions": ListedKind("permissions", _columns("vhost user configure write read")),
    "policies": ListedKind("policies", _POLICY),
    "queues": ListedKind(
        "queues",
        _columns(
            "vhost name type state messages_ready messages_unacknowledged message_bytes_ready consumers "
            "oldest_message_age_ms policy"
        ),
    ),
    "topic-permissions": ListedKind("topic_permissions", _columns("vhost user exchange write read")),
    "unroutable": ListedKind("unroutable", _columns("at vhost exchange routing_key mandatory user connection node")),
    "user-limits": ListedKind("user_limits", _columns("user value"), is_in_vhosts=False),
    "users": ListedKind("users", _columns("name tags limits"), is_in_vhosts=False),
    "vhost-limits": ListedKind("vhost_limits", _columns("vhost value")),
    "vhosts": ListedKind(
        "vhosts",
        _columns("name description connections queues exchanges default_queue_type limits"),
        is_in_vhosts=False,
    ),
}

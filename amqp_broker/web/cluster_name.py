"""The name of the cluster: a global parameter, as RabbitMQ has it."""

from __future__ import annotations

from typing import Final

from amqp_broker.web.asked import Asked

CLUSTER_NAME: Final = "cluster_name"


def cluster_name_of(asked: Asked) -> str:
    """What the cluster was named, or else the node's name."""
    for row in asked.services.objects.read("global_parameters", None).rows:
        if row["name"] == CLUSTER_NAME and isinstance(row["value"], str):
            return row["value"]
    return str(asked.services.totals.read().get("node", ""))

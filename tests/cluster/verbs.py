"""The verbs about the cluster of a node without clients."""

from __future__ import annotations

from collections.abc import Callable

from amqp_broker.management.cluster_verbs import Answer, ClusterVerbs
from amqp_broker.management.request import Request
from amqp_broker.node import Node


def verbs_of(node: Node) -> dict[str, Callable[[Request], Answer]]:
    """By their names."""
    return ClusterVerbs(
        node.config, node.broker.metadata, node.replication, node.membership, node.transfers, node.groups
    ).verbs

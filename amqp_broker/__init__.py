"""amqp_broker: a message broker that speaks AMQP 0-9-1.

    with amqp_broker.running() as broker:
        connect(broker.url)

Importing this package loads none of its parts and none of the other packages of the project, whose general
names (queues, storage) must never meet those of a program that merely embeds a broker.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from amqp_broker.version import __version__

if os.environ.get("AMQP_BROKER_PLAIN"):
    from amqp_broker import plain

    plain.prefer_source()

if TYPE_CHECKING:
    from amqp_broker.testing.embedded import BrokerStartError, RunningBroker, running
    from amqp_broker.testing.embedded_cluster import ClusterNode, RunningCluster, running_cluster

__all__ = [
    "BrokerStartError",
    "ClusterNode",
    "RunningBroker",
    "RunningCluster",
    "__version__",
    "running",
    "running_cluster",
]


def __getattr__(name: str) -> object:
    """Loads the embedded mode when it is first used."""
    if name in ("BrokerStartError", "RunningBroker", "running"):
        from amqp_broker.testing import embedded

        return getattr(embedded, name)
    if name in ("ClusterNode", "RunningCluster", "running_cluster"):
        from amqp_broker.testing import embedded_cluster

        return getattr(embedded_cluster, name)
    raise AttributeError(f"module 'amqp_broker' has no attribute {name!r}")

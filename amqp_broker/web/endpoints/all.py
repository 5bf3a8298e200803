"""All endpoints of the API."""

from __future__ import annotations

from amqp_broker.web.endpoint import Endpoints
from amqp_broker.web.endpoints import (
    aliveness,
    audit,
    bindings,
    channels,
    cluster,
    connections,
    consumers,
    definitions,
    description,
    exchanges,
    health,
    homes,
    jobs,
    limits,
    nodes,
    overview,
    parameters,
    peek,
    permissions,
    policies,
    queue_types,
    queues,
    quorum_queues,
    route_test,
    sessions,
    streams,
    taps,
    unroutable,
    users,
    vhosts,
    workers,
)

_MODULES = (
    overview, nodes, queues, exchanges, bindings, connections, channels, consumers, vhosts, users, permissions,
    policies, limits, parameters, definitions, health, aliveness, sessions, cluster, unroutable, route_test,
    quorum_queues, taps, audit, description, peek, jobs, streams, homes, workers,
    queue_types,
)  # fmt: skip


def api_endpoints() -> Endpoints:
    """The table of the API."""
    return Endpoints(endpoint for module in _MODULES for endpoint in module.ENDPOINTS)

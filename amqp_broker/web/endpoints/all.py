"""All endpoints of the API."""

from __future__ import annotations

from amqp_broker.web.endpoint import Endpoints
from amqp_broker.web.endpoints import (
    aliveness,
    bindings,
    channels,
    cluster,
    connections,
    consumers,
    definitions,
    exchanges,
    health,
    jobs,
    limits,
    nodes,
    overview,
    parameters,
    peek,
    permissions,
    policies,
    queues,
    sessions,
    users,
    vhosts,
)

_MODULES = (
    overview, nodes, queues, exchanges, bindings, connections, channels, consumers, vhosts, users, permissions,
    policies, limits, parameters, definitions, health, aliveness, sessions, cluster,
    peek, jobs,
)  # fmt: skip


def api_endpoints() -> Endpoints:
    """The table of the API."""
    return Endpoints(endpoint for module in _MODULES for endpoint in module.ENDPOINTS)

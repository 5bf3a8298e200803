"""Workers: the processes that this node is, each with what it counts; none where it is one."""

from __future__ import annotations

from amqp_broker.protocol.json_values import JsonObject
from amqp_broker.settings.workers import node_of_worker, worker_name
from amqp_broker.web.access import Access
from amqp_broker.web.answer import Answer
from amqp_broker.web.asked import Asked
from amqp_broker.web.endpoint import Endpoint
from amqp_broker.web.machine import Usage
from amqp_broker.web.prometheus.names import WORKER, WORKER_PROCESS
from amqp_broker.web.workers import usages_of, workers_of


def list_workers(asked: Asked) -> Answer:
    """As the metrics `amqp_broker_worker_...`; of one that does not answer only that it is not `running`."""
    totals = asked.services.totals.read()
    host = node_of_worker(totals["node"])
    usages = usages_of(asked.verb("node"))
    return Answer(
        value=[_show(host, number, counted, usages.get(number)) for number, counted in workers_of(totals).items()]
    )


def _show(host: str, number: int, counted: JsonObject, usage: Usage | None) -> JsonObject:
    found: JsonObject = {"worker": number, "name": worker_name(host, number), "running": bool(counted)}
    if counted:
        found |= {metric.name.removesuffix("_total"): counted.get(metric.field, 0) for metric in WORKER}
    if usage is not None:
        found |= {metric.name.removesuffix("_total"): getattr(usage, metric.field) for metric in WORKER_PROCESS}
    return found


ENDPOINTS = (Endpoint("GET", "/v1/workers", list_workers, Access.MONITORING),)

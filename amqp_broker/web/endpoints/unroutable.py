"""Messages that went to no queue: the last that each node knows of, the newest first."""

from __future__ import annotations

from dataclasses import replace

from amqp_broker.web.answer import Answer
from amqp_broker.web.asked import Asked
from amqp_broker.web.endpoint import Endpoint
from amqp_broker.web.endpoints.lists import stale_headers
from amqp_broker.web.listing import answer_list, read_query

#: What a query may narrow the list by.
_NARROWED_BY = ("exchange", "routing_key", "user", "connection", "node")


def list_unroutable(asked: Asked) -> Answer:
    wanted = read_query(asked.query)
    found = asked.objects("unroutable", asked.query.get("vhost", asked.vhost))
    given = {name: asked.query[name] for name in _NARROWED_BY if name in asked.query}
    rows = [row for row in found.rows if all(row.get(name) == value for name, value in given.items())]
    if wanted.sort is None:
        rows.sort(key=lambda row: (row["at"], row["number"]), reverse=True)
        wanted = replace(wanted, sort=())
    return Answer(value=answer_list(rows, wanted), headers=stale_headers(found))


ENDPOINTS = (Endpoint("GET", "/v1/unroutable", list_unroutable, refused=(404,)),)

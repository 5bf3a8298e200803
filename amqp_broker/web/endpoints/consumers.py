"""Consumers: lists, and the end of one."""

from __future__ import annotations

from amqp_broker.web.access import Access
from amqp_broker.web.answer import Answer, no_content
from amqp_broker.web.asked import Asked
from amqp_broker.web.endpoint import Endpoint
from amqp_broker.web.endpoints.lists import read_objects, show_rows
from amqp_broker.web.errors import object_not_found

_DEFAULTS = {"active": True, "activity_status": "up", "arguments": {}, "exclusive": False, "consumer_timeout": None}


def list_consumers(asked: Asked) -> Answer:
    rows = [{**_DEFAULTS, **row} for row in read_objects(asked, "consumers").rows]
    return show_rows(asked, rows, "consumer_tag", "queue.name", "channel_details.name", "channel_details.user")


def cancel_consumer(asked: Asked) -> Answer:
    number = asked.name("channel")
    if not number.isdigit():
        raise object_not_found()
    asked.change(
        "consumer.cancel", connection=asked.name("connection"), channel=int(number), tag=asked.name("tag")
    )
    return no_content()


ENDPOINTS = (
    Endpoint("GET", "/consumers", list_consumers, refused=(404,)),
    Endpoint("GET", "/consumers/{vhost}", list_consumers),
    Endpoint(
        "DELETE", "/consumers/{vhost}/{connection}/{channel}/{tag}", cancel_consumer, Access.ADMINISTRATOR
    ),
)

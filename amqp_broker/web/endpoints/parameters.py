"""Parameters, which came with definitions and are kept for those who export them; and global ones, of which the name of
the cluster is one."""

from __future__ import annotations

import msgspec

from amqp_broker.protocol.json_values import JsonValue
from amqp_broker.web.access import Access
from amqp_broker.web.answer import Answer, created, no_content
from amqp_broker.web.asked import Asked
from amqp_broker.web.body import read_body
from amqp_broker.web.endpoint import NO_ANSWER, Endpoint
from amqp_broker.web.endpoints.lists import find_row, read_objects, show_rows
from amqp_broker.web.errors import bad_request
from amqp_broker.web.listing import cut, read_columns

_MOVE = "messages are moved by POST /api/v1/queues/VHOST/QUEUE/move or amqp-broker queue move"
_CLUSTER = f"nodes that share queues are one cluster (amqp-broker cluster); {_MOVE}"
#: The global parameter, as RabbitMQ has it.
_CLUSTER_NAME = "cluster_name"
#: What is done here where RabbitMQ has a plugin for it.
_INSTEAD = {
    "shovel": f"{_MOVE}, dead letters by .../replay or amqp-broker queue replay",
    "federation-upstream": _CLUSTER,
    "federation-upstream-set": _CLUSTER,
}


class ValueBody(msgspec.Struct):
    """Any JSON."""

    value: JsonValue


class NameBody(msgspec.Struct):
    """A name."""

    name: str


def list_parameters(asked: Asked) -> Answer:
    component = asked.names.get("component")
    rows = read_objects(asked, "parameters").rows
    return show_rows(asked, rows if component is None else [row for row in rows if row["component"] == component])


def show_parameter(asked: Asked) -> Answer:
    vhost = asked.name("vhost")
    row = find_row(asked, "parameters", vhost, component=asked.name("component"), name=asked.name("parameter"))
    return Answer(value=cut(row, read_columns(asked.query)))


def put_parameter(asked: Asked) -> Answer:
    """Components are plugins of RabbitMQ's, and there are none here."""
    read_body(asked.body, ValueBody)
    asked.objects("parameters", asked.name("vhost"))
    component = asked.name("component")
    instead = _INSTEAD.get(component, "")
    raise bad_request(f"Validation failed\n\ncomponent {component} not found{instead and f': {instead}'}")


def delete_parameter(asked: Asked) -> Answer:
    vhost, component, name = asked.name("vhost"), asked.name("component"), asked.name("parameter")
    find_row(asked, "parameters", vhost, component=component, name=name)
    asked.change("parameter.delete", component=component, vhost=vhost, name=name)
    return no_content()


def list_global(asked: Asked) -> Answer:
    return show_rows(asked, asked.objects("global_parameters").rows)


def show_global(asked: Asked) -> Answer:
    row = find_row(asked, "global_parameters", name=asked.name("parameter"))
    return Answer(value=cut(row, read_columns(asked.query)))


def put_global(asked: Asked) -> Answer:
    value, name = read_body(asked.body, ValueBody).value, asked.name("parameter")
    was_there = any(row["name"] == name for row in asked.objects("global_parameters").rows)
    asked.change("global_parameter.put", name=name, value=value)
    return created(was_there)


def delete_global(asked: Asked) -> Answer:
    name = asked.name("parameter")
    find_row(asked, "global_parameters", name=name)
    asked.change("global_parameter.delete", name=name)
    return no_content()


def show_cluster_name(asked: Asked) -> Answer:
    return Answer(value={"name": asked.services.totals.read()["cluster_name"]})


def put_cluster_name(asked: Asked) -> Answer:
    asked.change("global_parameter.put", name=_CLUSTER_NAME, value=read_body(asked.body, NameBody).name)
    return no_content()


_ONE = "/parameters/{component}/{vhost}/{parameter}"
_GLOBAL = "/global-parameters/{parameter}"
ENDPOINTS = (
    Endpoint("GET", "/parameters", list_parameters, Access.POLICYMAKER, refused=(404,)),
    Endpoint("GET", "/parameters/{component}", list_parameters, Access.POLICYMAKER),
    Endpoint("GET", "/parameters/{component}/{vhost}", list_parameters, Access.POLICYMAKER),
    Endpoint("GET", _ONE, show_parameter, Access.POLICYMAKER),
    Endpoint("PUT", _ONE, put_parameter, Access.POLICYMAKER, body=ValueBody, done=()),
    Endpoint("DELETE", _ONE, delete_parameter, Access.POLICYMAKER),
    Endpoint("GET", "/global-parameters", list_global, Access.POLICYMAKER),
    Endpoint("GET", _GLOBAL, show_global, Access.POLICYMAKER),
    Endpoint("PUT", _GLOBAL, put_global, Access.ADMINISTRATOR, body=ValueBody),
    Endpoint("DELETE", _GLOBAL, delete_global, Access.ADMINISTRATOR),
    Endpoint("GET", "/cluster-name", show_cluster_name),
    Endpoint("PUT", "/cluster-name", put_cluster_name, Access.ADMINISTRATOR, body=NameBody, done=NO_ANSWER),
)

"""The API's own description (OpenAPI 3.1), made of the table of endpoints and the structs of bodies: nothing is kept by
hand, so that what is there is in it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import msgspec

from amqp_broker.protocol.json_values import JsonObject
from amqp_broker.version import __version__
from amqp_broker.web.access import Access
from amqp_broker.web.answer import JSON
from amqp_broker.web.endpoint import Endpoint

_NAME: Final = re.compile(r"\{(\w+)\}")
_REF: Final = "#/components/schemas/{name}"
#: For what an endpoint takes a body of which there is no struct: definitions, forms.
_ANY_BODY: Final[JsonObject] = {"content": {JSON: {"schema": {}}}}
_WITH_BODY: Final = ("PUT", "POST")


def describe(endpoints: Iterable[Endpoint], prefix: str, cookie: str) -> JsonObject:
    """The document. prefix: before each path. cookie: the name of that which has a session."""
    found = list(endpoints)
    structs = {each.body: None for each in found if each.body is not None}
    schemas, components = msgspec.json.schema_components(structs, ref_template=_REF)
    by_struct = dict(zip(structs, schemas, strict=True))
    paths: dict[str, JsonObject] = {}
    for each in found:
        paths.setdefault(f"{prefix}{each.path}", {})[each.method.lower()] = _operation(each, by_struct)
    return {
        "openapi": "3.1.0",
        "info": {"title": "amqp-broker", "version": __version__, "description": "RabbitMQ's HTTP API, and our own."},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "basic": {"type": "http", "scheme": "basic"},
                "session": {"type": "apiKey", "in": "cookie", "name": cookie},
            },
        },
    }


def _operation(endpoint: Endpoint, by_struct: dict[type[msgspec.Struct], JsonObject]) -> JsonObject:
    answer, needed = endpoint.answer, endpoint.needed
    text = (answer.__doc__ or "").strip()
    said: JsonObject = {
        "operationId": _identity(endpoint),
        "summary": text.partition("\n")[0] or getattr(answer, "__name__", "").strip("_").replace("_", " "),
        "parameters": [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
            for name in _NAME.findall(endpoint.path)
        ],
        "responses": _responses(endpoint),
        "security": [] if needed is Access.NOBODY_ASKED else [{"basic": []}, {"session": []}],
        "x-least-tag": needed.name.lower() if needed is not Access.NOBODY_ASKED else "",
    }
    if endpoint.body is not None:
        said["requestBody"] = {"required": True, "content": {JSON: {"schema": by_struct[endpoint.body]}}}
    elif endpoint.method in _WITH_BODY:
        said["requestBody"] = _ANY_BODY
    return said


def _responses(endpoint: Endpoint) -> JsonObject:
    """What there may be; the statuses of each case stand in the rules of the API (docs/management.md)."""
    content: JsonObject = {"content": {endpoint.media: {}}}
    found: JsonObject = {"400": {"description": "what is wrong, as error and reason"}}
    if endpoint.method == "GET":
        found["200"] = {"description": "what was asked for", **content}
    else:
        found |= {"200": {"description": "done, with an answer", **content}, "204": {"description": "done"}}
    if endpoint.method in _WITH_BODY:
        found["201"] = {"description": "made"}
    if endpoint.needed is not Access.NOBODY_ASKED:
        found["401"] = {"description": "no login, or one that may not"}
    if "{" in endpoint.path:
        found["404"] = {"description": "not there"}
    found["503"] = {"description": "the node does not answer"}
    return dict(sorted(found.items()))


def _identity(endpoint: Endpoint) -> str:
    """One for each method and path."""
    return endpoint.method.lower() + re.sub(r"\W+", "_", endpoint.path.replace("{", "by_")).rstrip("_")

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
_SUCCESSES: Final = {
    200: "done, with an answer", 201: "made", 202: "begun: a job, whose path is in Location",
    204: "done; what was put was there before, or nothing is to be said",
}  # fmt: skip
_WITH_ANSWER: Final = (200, 202)
_UNAVAILABLE: Final = 503
_REFUSALS: Final = {
    400: "what is wrong with the request, or why the broker refuses it",
    401: "no login, or one that may not; without credentials there is no body",
    403: "it comes from a page of another origin, or by a name that is not this machine's",
    404: "what is named is not there",
    406: "nothing that the request accepts",
    408: "the body did not come in time",
    412: "it is protected",
    413: "the body is too large",
    415: "the body is no form",
    _UNAVAILABLE: "the node does not answer, or what is checked is not well; or there is too much to do already",
}  # fmt: skip
_WITHOUT_BODY: Final = (406, 415)
#: Endpoints of which the status 503 may say what was found out.
_CHECKS: Final = ("/health/checks/", "/healthchecks/", "/aliveness-test/")
_ERROR: Final[JsonObject] = {"$ref": _REF.format(name="Error")}
_FAILURE: Final[JsonObject] = {"$ref": _REF.format(name="FailedCheck")}
_ANYTHING: Final[JsonObject] = {"description": "a text, or what of the body is wrong"}
_BODIES: Final[JsonObject] = {
    "Error": {
        "type": "object",
        "description": "Why something was not done.",
        "properties": {"error": {"type": "string", "description": "the kind of it"}, "reason": _ANYTHING},
        "required": ["error", "reason"],
    },
    "FailedCheck": {
        "type": "object",
        "description": "What a health check has found; some name more beside it.",
        "properties": {"status": {"const": "failed"}, "reason": {"type": "string"}},
        "required": ["status", "reason"],
    },
}


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
            "schemas": {**components, **_BODIES},
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
    """All that it answers with, but for faults of the server."""
    found: JsonObject = {}
    for status in endpoint.successes:
        found[str(status)] = {"description": _SUCCESSES[status]}
        if status in _WITH_ANSWER or (status == 201 and endpoint.method == "POST"):
            found[str(status)]["content"] = {endpoint.media: {}}
    for status in endpoint.refusals:
        found[str(status)] = {"description": _REFUSALS[status]}
        if status not in _WITHOUT_BODY:
            is_check = status == _UNAVAILABLE and endpoint.path.startswith(_CHECKS)
            schema = {"anyOf": [_ERROR, _FAILURE]} if is_check else _ERROR
            found[str(status)]["content"] = {JSON: {"schema": schema}}
    return dict(sorted(found.items()))


def _identity(endpoint: Endpoint) -> str:
    """One for each method and path."""
    return endpoint.method.lower() + re.sub(r"\W+", "_", endpoint.path.replace("{", "by_")).rstrip("_")

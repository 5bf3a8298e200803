"""The API's own description."""

from __future__ import annotations

from amqp_broker.web.answer import Answer
from amqp_broker.web.asked import Asked
from amqp_broker.web.cookie import cookie_name
from amqp_broker.web.endpoint import Endpoint
from amqp_broker.web.openapi import describe


def show_description(asked: Asked) -> Answer:
    """OpenAPI 3.1: every endpoint, and the bodies that they want."""
    return Answer(value=describe(asked.endpoints, "/api", cookie_name(asked.headers)))


ENDPOINTS = (Endpoint("GET", "/v1/openapi.json", show_description),)

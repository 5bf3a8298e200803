"""Values of columns: tables of AMQP, and other things that JSON has another form for."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import quote_plus

from amqp_broker.management.definitions.arguments import table_as_json
from amqp_broker.protocol.json_values import JsonObject

if TYPE_CHECKING:
    from amqp_broker.flow.client import Client


def as_object(table: Mapping[str, object] | None) -> JsonObject:
    """A field table as a JSON object."""
    return table_as_json(table) if table else {}


def properties_key(binding_key: str, arguments: JsonObject) -> str:
    """What tells the bindings between the same two ends apart, fit for a path: `~` for no key and no arguments, else
    the key, and behind a `~` a digest of the arguments in their JSON form, if there are any."""
    key = quote_plus(binding_key, errors="surrogateescape").replace("~", "%7E")
    if not arguments:
        return key or "~"
    canonical = json.dumps(arguments, sort_keys=True, separators=(",", ":")).encode()
    digest = base64.urlsafe_b64encode(hashlib.sha256(canonical).digest()).decode().rstrip("=")
    return f"{key}~{digest}"


def connection_name(connection: Client) -> str:
    """As RabbitMQ calls it."""
    return str(connection.peer)

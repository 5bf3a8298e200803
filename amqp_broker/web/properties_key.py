"""properties_key: what names a binding among those of the same two ends, in a path.

`~` for no routing key and no arguments; else the key in form encoding; with arguments `KEY~HASH`. Clients copy it from
a list, where the node has written it; here it is made for the `Location` of a new one, by the same rule.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from urllib.parse import quote_plus

from amqp_broker.protocol.json_values import JsonValue


def properties_key(routing_key: str, arguments: Mapping[str, JsonValue]) -> str:
    """The name of a binding. Arguments count by their names and values, in any order."""
    key = quote_plus(routing_key, safe="", errors="surrogateescape").replace("~", "%7E")
    if arguments:
        return f"{key}~{_digest(arguments)}"
    return key or "~"


def _digest(arguments: Mapping[str, JsonValue]) -> str:
    said = json.dumps(arguments, sort_keys=True, separators=(",", ":")).encode("ascii")
    return base64.urlsafe_b64encode(hashlib.sha256(said).digest()).decode("ascii").rstrip("=")

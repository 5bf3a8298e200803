"""What JSON texts have in them: requests and answers of amq.system, commands of the metadata, definitions.

Whoever reads one looks at what it is where it is used, and says what it should have been.
"""

from __future__ import annotations

import math
from calendar import timegm
from collections.abc import Mapping
from dataclasses import fields
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from amqp_broker.protocol.properties import Properties

JsonValue: TypeAlias = Any  # JSON: what json.loads gives
JsonObject: TypeAlias = dict[str, Any]  # JSON: the same, by its names


def field_as_json(value: object) -> JsonValue:
    """A value of a field table as JSON shows it: octets, times and decimals become texts and numbers."""
    if isinstance(value, bytes):
        # Merely shown: half a surrogate pair, which would keep the octets, is no JSON to strict readers.
        return value.decode("utf-8", "replace")
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, datetime):
        return timegm(value.utctimetuple())
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, list):
        return [field_as_json(item) for item in value]
    if isinstance(value, Mapping):
        return {key: field_as_json(item) for key, item in value.items()}
    return value


def properties_as_json(properties: Properties) -> JsonObject:
    """Those that a message has, in RabbitMQ's shape."""
    named = ((each.name, getattr(properties, each.name)) for each in fields(properties))
    return {name: field_as_json(value) for name, value in named if value is not None}

"""Bodies of requests: JSON, checked against the struct that an endpoint wants, or refused with what is wrong.

Empty, `null` and `undefined` count as an empty object; keys that nobody knows are passed over.
"""

from __future__ import annotations

import json
import re
from typing import NoReturn, TypeVar

import msgspec

from amqp_broker.protocol.json_values import JsonObject, JsonValue
from amqp_broker.web.errors import bad_request

S = TypeVar("S", bound=msgspec.Struct)
_NOTHING = (b"", b"null", b"undefined")
_MISSING = re.compile(r"missing required field `([^`]+)`")


def read_json(body: bytes) -> JsonValue:
    """What the octets say. Raises ApiError."""
    if body.strip() in _NOTHING:
        return {}
    try:
        return json.loads(body, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise bad_request("not_json") from None


def read_object(body: bytes) -> JsonObject:
    """A JSON object. JSON within a JSON string is none."""
    value = read_json(body)
    if not isinstance(value, dict):
        raise bad_request("not_json")
    return value


def read_body(body: bytes, wanted: type[S]) -> S:
    """The struct of a body. Raises ApiError that names the field."""
    try:
        return msgspec.convert(read_object(body), wanted)
    except msgspec.ValidationError as error:
        missing = _MISSING.search(str(error))
        raise bad_request([{"key_missing": missing[1]}] if missing else str(error)) from None
    except UnicodeEncodeError as error:  # half of a surrogate pair, which JSON can write and msgspec cannot read
        raise bad_request(f"no text that UTF-8 can carry: {error}") from None


def flag(value: JsonValue, default: bool = False) -> bool:
    """True, false, or one of them as a text, as some clients write it."""
    known = {True: True, False: False, "true": True, "false": False}
    if value is None:
        return default
    if not isinstance(value, (bool, str)) or value not in known:
        raise bad_request(["not_boolean", value])
    return known[value]


def integer(value: JsonValue, name: str) -> int:
    """A whole number, or one as a text."""
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,18}", value.strip()):
        return int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise bad_request(["not_integer", {name: value}])
    return value


def tags(value: JsonValue) -> list[str]:
    """A list of texts, or one text with commas."""
    if value is None:
        return []
    if isinstance(value, str):
        value = value.split(",")
    if not isinstance(value, list) or not all(isinstance(tag, str) for tag in value):
        raise bad_request(["not_tags", value])
    return [tag.strip() for tag in value if tag.strip()]


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)

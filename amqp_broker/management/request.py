"""Request: what a request of `amq.system` says, read field by field.

Invariant: whatever a field holds, reading it returns what was asked for or raises ValueError with its name.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, NoReturn

from amqp_broker.management.gradual_json import read_gradually, text_of
from amqp_broker.protocol.constants import MAX_SHORT_STRING
from amqp_broker.turn.letting_go import let_go

if TYPE_CHECKING:
    from amqp_broker.management.access import Asker
    from amqp_broker.protocol.json_values import JsonObject, JsonValue

_NONE = object()
_TOO_DEEP = "the body is nested too deeply"


class Request:
    """The fields of one request. asker: as whom it is carried out; set before a verb gets it."""

    asker: Asker

    def __init__(self, fields: JsonObject) -> None:
        self.fields = fields

    def ask_as(self, asker: Asker) -> Asker:
        """It is carried out as this one's, which is returned."""
        self.asker = asker
        return asker

    @classmethod
    def of_json(cls, body: bytes) -> Request:
        """Raises ValueError."""
        try:
            return cls._of(_DECODER.decode(text_of(body)) if body else {})
        except RecursionError:
            raise ValueError(_TOO_DEEP) from None

    @classmethod
    def read_gradually(cls, body: bytes) -> Generator[None, None, Request]:
        """The same of a large one, in steps; each `yield` ends a slice."""
        try:
            return cls._of((yield from read_gradually(body, _refuse_constant)))
        except RecursionError:
            raise ValueError(_TOO_DEEP) from None

    @classmethod
    def _of(cls, fields: JsonValue) -> Request:
        if not isinstance(fields, dict):
            raise ValueError("the body has to be a JSON object")
        return cls(fields)

    def let_go(self) -> Iterator[None]:
        """Forget the fields of a large one, in slices, when nobody reads them any more."""
        yield from let_go(self.fields, levels=3)

    def has(self, key: str) -> bool:
        """Whether there is such a field, whatever it holds."""
        return key in self.fields

    def get(self, key: str, default: JsonValue = _NONE) -> JsonValue:
        """A field as it is; `default` where it is not given."""
        value = self.fields.get(key, default)
        if value is _NONE:
            raise ValueError(f"missing field '{key}'")
        return value

    def text(self, key: str, default: str | None = None) -> str:
        """A string that UTF-8 can carry."""
        value = self.get(key, _NONE if default is None else default)
        if not isinstance(value, str):
            _fail(key, "a string", value)
        try:
            value.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            _fail(key, "text that UTF-8 can carry", value)
        return value

    def number(self, key: str, default: int | None, least: int, most: int) -> int:
        """An integer within bounds; default: None where it has to be given."""
        value = self.get(key, _NONE if default is None else default)
        if not isinstance(value, int) or isinstance(value, bool):
            _fail(key, "an integer", value)
        if not least <= value <= most:
            raise ValueError(f"field {key} has to be {least} to {most}, got {value}")
        return value

    def texts(self, key: str) -> list[str]:
        """A list of strings."""
        value = self.get(key)
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            _fail(key, "a list of strings", value)
        return value

    def flag(self, key: str) -> bool:
        """true or false; false where it is not given."""
        value = self.get(key, False)
        if not isinstance(value, bool):
            _fail(key, "true or false", value)
        return value

    def name(self, key: str, *, may_be_empty: bool = False) -> str:
        """A string that fits into a short string of AMQP."""
        value = self.text(key)
        octets = len(value.encode("utf-8", "surrogateescape"))
        if octets > MAX_SHORT_STRING or not (octets or may_be_empty):
            least = 0 if may_be_empty else 1
            raise ValueError(f"field {key} has to be a name of {least} to {MAX_SHORT_STRING} octets, not {octets}")
        return value

    def tags(self, key: str) -> list[str]:
        """A list of strings, or one with commas between them."""
        value = self.get(key)
        if isinstance(value, str):
            value = [tag.strip() for tag in value.split(",") if tag.strip()]
        if not isinstance(value, list) or not all(isinstance(tag, str) for tag in value):
            _fail(key, "a list of strings, or one string with commas between them", value)
        return value

    def limits(self, key: str, names: tuple[str, ...]) -> dict[str, int]:
        """An object of integers whose keys are among `names`."""
        value = self.get(key)
        if not isinstance(value, dict):
            _fail(key, "an object", value)
        for name, limit in value.items():
            if name not in names:
                raise ValueError(f"field {key}: '{name}' is no limit; these are: {', '.join(names)}")
            if not isinstance(limit, int) or isinstance(limit, bool):
                _fail(f"{key}.{name}", "an integer", limit)
        return value


def _fail(key: str, expected: str, value: object) -> NoReturn:
    shown = repr(value)
    raise ValueError(f"field {key} has to be {expected}, got {shown[:100]}{'...' if len(shown) > 100 else ''}")


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"the body has to be JSON, and {name} is none")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)

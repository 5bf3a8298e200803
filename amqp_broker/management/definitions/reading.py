"""Entry: one object of a definitions file, read field by field, with errors that say where in the file
they are."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NoReturn

from amqp_broker.management.definitions.arguments import BadArgument, read_arguments
from amqp_broker.protocol.constants import MAX_SHORT_STRING
from amqp_broker.protocol.fields import Table


class DefinitionsError(ValueError):
    """What is wrong with a definitions file; the text begins with the place, as in queues[3].type."""

    def __init__(self, path: str, text: str) -> None:
        super().__init__(f"{path}: {text}")
        self.path = path
        self.text = text


class Entry:
    """One object and where it stands. Every reader of a key raises DefinitionsError for a wrong value."""

    def __init__(self, path: str, value: object) -> None:
        if not isinstance(value, dict):
            raise DefinitionsError(path, f"{value!r} is not an object")
        self.path = path
        self._fields: dict[str, object] = value

    def error(self, key: str, text: str) -> NoReturn:
        raise DefinitionsError(f"{self.path}.{key}", text)

    def __contains__(self, key: str) -> bool:
        return self._fields.get(key) is not None

    def get(self, key: str) -> object:
        """The value as it is; None where there is none."""
        return self._fields.get(key)

    def json(self, key: str) -> object:
        """The value as it is, without the numbers that JSON has no form for."""
        value = self._fields.get(key)
        try:
            json.dumps(value, allow_nan=False)
        except (ValueError, RecursionError) as error:
            self.error(key, f"this cannot be written as JSON again: {error}")
        return value

    def text(self, key: str, default: str | None = None) -> str:
        value = self._fields.get(key, default)
        if value is None and default is not None:
            return default
        if not isinstance(value, str):
            self.error(key, "a string is missing here" if value is None else f"{value!r} is not a string")
        return value

    def name(self, key: str, *, may_be_empty: bool = False) -> str:
        """A text that fits into a short string of AMQP."""
        value = self.text(key)
        if not value and not may_be_empty:
            self.error(key, "it must not be empty")
        try:
            octets = len(value.encode("utf-8", "surrogateescape"))
        except UnicodeEncodeError:
            self.error(key, f"{value!r} is no text that UTF-8 can carry")
        if octets > MAX_SHORT_STRING:
            self.error(key, f"{octets} octets are more than the {MAX_SHORT_STRING} that AMQP can carry")
        return value

    def flag(self, key: str, default: bool) -> bool:
        value = self._fields.get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            self.error(key, f"{value!r} must be true or false")
        return value

    def mapping(self, key: str) -> dict[str, object]:
        """An object; empty where there is none. RabbitMQ's command line writes some as lists of pairs:
        they pass."""
        value = self._fields.get(key)
        if value is None:
            return {}
        if isinstance(value, list) and all(
            isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str) for pair in value
        ):
            return {pair[0]: pair[1] for pair in value}
        if not isinstance(value, dict):
            self.error(key, f"{value!r} is not an object")
        return value

    def limits(self, key: str, names: tuple[str, ...]) -> dict[str, int]:
        """An object of integers whose keys are among `names`."""
        limits: dict[str, int] = {}
        for name, value in self.mapping(key).items():
            if name not in names:
                self.error(f"{key}.{name}", f"is no limit; these are: {', '.join(names)}")
            if not isinstance(value, int) or isinstance(value, bool):
                self.error(f"{key}.{name}", f"{value!r} is not an integer")
            limits[name] = value
        return limits

    def tags(self, key: str) -> list[str]:
        """A list of strings, or one string with commas between them, as older releases wrote it."""
        value = self._fields.get(key)
        if value is None:
            return []
        if isinstance(value, str):
            value = value.split(",")
        if not isinstance(value, list) or not all(isinstance(tag, str) for tag in value):
            self.error(key, f"{value!r} is neither a list of strings nor a string")
        return [tag.strip() for tag in value if tag.strip()]

    def arguments(self) -> Table:
        """The field table of `arguments` and `arguments_raw`."""
        # An empty table is an empty list in some exports.
        arguments: Mapping[str, object] = self.mapping("arguments")
        try:
            return read_arguments(arguments, self.get("arguments_raw"))
        except BadArgument as error:
            self.error(error.key, error.text)

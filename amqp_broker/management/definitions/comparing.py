"""What an import would do, item by item, without doing it.

    add       in the file, and not there
    change    there, and the import sets it to what the file says
    conflict  a queue or exchange that is there and was declared differently: the import leaves it as it is
    extra     there, and not in the file: an import deletes nothing

The items of the node before and after the import are compared as they are exported. Hashes of passwords are not shown.
Made in steps, each an item or a few.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from amqp_broker.management.definitions.exporting import export_items
from amqp_broker.management.written_json import JsonChunks, encode_value
from amqp_broker.turn.gradual_table import GradualTable

if TYPE_CHECKING:
    from amqp_broker.management.definitions.importing import Importer
    from amqp_broker.metadata.metadata import Metadata
    from amqp_broker.protocol.json_values import JsonObject, JsonValue

ADD: Final = "add"
CHANGE: Final = "change"
CONFLICT: Final = "conflict"
EXTRA: Final = "extra"
KINDS: Final = (ADD, CHANGE, CONFLICT, EXTRA)
#: So many items of a kind are listed; all are counted.
MOST_LISTED: Final = 1000
#: By category: what an item is known by.
_KEYS: Final = {
    "users": ("name",),
    "vhosts": ("name",),
    "permissions": ("vhost", "user"),
    "topic_permissions": ("vhost", "user", "exchange"),
    "parameters": ("vhost", "component", "name"),
    "global_parameters": ("name",),
    "policies": ("vhost", "name"),
    "queues": ("vhost", "name"),
    "exchanges": ("vhost", "name"),
    "bindings": ("vhost", "source", "destination_type", "destination", "routing_key", "arguments"),
}
#: What cannot be changed once it is declared.
_DECLARED: Final = {
    "queues": ("auto_delete", "arguments"),
    "exchanges": ("type", "auto_delete", "internal", "arguments"),
}
_SECRET: Final = "password_hash"
_DEFAULTS: Final[JsonObject] = {"auto_delete": False, "internal": False, "arguments": {}}
_SLICE: Final = 8
#: Of an item in a file: "queues[3]".
_PLACE: Final = re.compile(r"(\w+)\[(0|[1-9][0-9]{0,8})\]")

Key = tuple[str, ...]


class Comparison:
    """found: by kind, items as JSON: category, key, place in the file ("queues[3]"), and what was and would be. counts:
    of all of them, also of those that are not listed."""

    def __init__(self, definitions: JsonObject, metadata: Metadata, importer: Importer, vhost: str | None) -> None:
        self.found = {kind: JsonChunks("[]") for kind in KINDS}
        self.counts = dict.fromkeys(KINDS, 0)
        self._definitions = definitions
        self._had = export_items(metadata, vhost)[1]
        self._importer = importer
        self._vhost = vhost

    def steps(self) -> Iterator[None]:
        """Compare. The importer has made its plan."""
        had = self._had
        _, has = export_items(self._importer.state, self._vhost)
        for category in _KEYS:
            if category not in had:
                continue
            before: GradualTable[Key, JsonObject] = GradualTable()
            after: GradualTable[Key, JsonObject] = GradualTable()
            for items, found in ((had[category], before), (has[category], after)):
                for number, item in enumerate(items):
                    if item is not None:
                        found[self._key(category, item)] = item
                    if item is None or number % _SLICE == 0:
                        yield None
            if category == "bindings":  # a draft has none but those that come
                for number, (key, item) in enumerate(before.items()):
                    if key not in after:
                        after[key] = item
                    if number % _SLICE == 0:
                        yield None
            yield from self._compare(category, before, after)
            yield from before.let_go()
            yield from after.let_go()

    def _compare(
        self, category: str, before: GradualTable[Key, JsonObject], after: GradualTable[Key, JsonObject]
    ) -> Iterator[None]:
        listed = self._definitions.get(category) or []
        places: GradualTable[Key, int] = GradualTable()
        for number, item in enumerate(listed):
            places[self._key(category, item)] = number
            if number % _SLICE == 0:
                yield None
        for number, (key, item) in enumerate(after.items()):
            if key not in before:
                self._add(ADD, category, key, places.get(key), None, item)
            elif before[key] != item:
                self._add(CHANGE, category, key, places.get(key), before[key], item)
            elif key not in places and not self._is_of_vhost(category, key):
                self._add(EXTRA, category, key, None, item, None)
            elif key in places and _differs(category, item, listed[places[key]]):
                self._add(CONFLICT, category, key, places[key], item, listed[places[key]])
            if number % _SLICE == 0:
                yield None
        yield from places.let_go()

    def _is_of_vhost(self, category: str, key: Key) -> bool:
        """Limits of a virtual host may stand with it in the file."""
        if category != "parameters" or key[1:] != ("vhost-limits", "limits"):
            return False
        vhosts = self._definitions.get("vhosts") or []
        return any(each.get("name") == key[0] and each.get("limits") for each in vhosts)

    def _key(self, category: str, item: JsonObject) -> Key:
        named = dict(item) if self._vhost is None else {**item, "vhost": self._vhost}
        return tuple(_text(named.get(field, "")) for field in _KEYS[category])

    def _add(
        self, kind: str, category: str, key: Key, place: int | None, was: JsonObject | None, would: JsonObject | None
    ) -> None:
        self.counts[kind] += 1
        if self.counts[kind] > MOST_LISTED:
            return
        row: JsonObject = {"category": category, "key": dict(zip(_KEYS[category], key, strict=True))}
        if place is not None:
            row["place"] = f"{category}[{place}]"
        if was is not None:
            row["is"] = _shown(was)
        if would is not None:
            row["would_be"] = _shown(would)
        if was is not None and would is not None:
            row["fields"] = sorted(field for field in {*was, *would} if was.get(field) != would.get(field))
        self.found[kind].add(encode_value(row))


def chosen(definitions: JsonObject, places: list[str]) -> JsonObject:
    """What of a file is at these places, each written in one way. Raises ValueError."""
    left: JsonObject = {key: value for key, value in definitions.items() if key not in _KEYS}
    for place in places:
        found = _PLACE.fullmatch(place)
        category, number = (found[1], int(found[2])) if found is not None else ("", 0)
        items = definitions.get(category)
        if category not in _KEYS or not isinstance(items, list) or number >= len(items):
            raise ValueError(f"field only: there is no '{place}' in the definitions")
        left.setdefault(category, []).append(items[number])
    return left


def _text(value: JsonValue) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def _shown(item: JsonObject) -> JsonObject:
    return {key: "..." if key in (_SECRET, "password") else value for key, value in item.items()}


def _differs(category: str, item: JsonObject, said: JsonObject) -> bool:
    """Whether what was declared is not what the file says."""
    for field in _DECLARED.get(category, ()):
        asked = said.get(field, _DEFAULTS.get(field, item.get(field)))
        if field == "arguments" and category == "queues":
            if _without_type(asked) != _without_type(item["arguments"]):
                return True
        elif asked != item.get(field):
            return True
    return category == "queues" and _type_of(said) not in ("", item["type"])


def _without_type(arguments: JsonValue) -> JsonValue:
    """A queue's type may stand among them, or beside them."""
    if not isinstance(arguments, dict):
        return arguments
    return {key: value for key, value in arguments.items() if key != "x-queue-type"}


def _type_of(queue: JsonObject) -> str:
    arguments = queue.get("arguments")
    asked = arguments.get("x-queue-type", "") if isinstance(arguments, dict) else ""
    return str(asked or queue.get("type") or "")

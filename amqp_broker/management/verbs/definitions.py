"""DefinitionVerbs: all that the metadata have, written out, and taken over from elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from amqp_broker.management.definitions import DefinitionsError, Importer, bounds_of
from amqp_broker.management.definitions.comparing import Comparison, chosen
from amqp_broker.management.definitions.exporting import export_items
from amqp_broker.management.written_json import JsonChunks, encode_value
from amqp_broker.turn.letting_go import SLICE
from amqp_broker.turn.task import EXPECTED_ERRORS, Steps, Task

if TYPE_CHECKING:
    from amqp_broker.management.administration import Administration
    from amqp_broker.management.request import Request
    from amqp_broker.protocol.json_values import JsonObject
    from amqp_broker.vhosts.broker import Broker

#: So many definitions are described in one slice.
_SLICE = 10
#: So many commands of an import are applied at a time: a queue takes some 200 microseconds.
PORTION = 10


class DefinitionVerbs:
    """See the module's docstring."""

    def __init__(self, broker: Broker, administration: Administration) -> None:
        self._broker = broker
        self._execute = administration.carry_out
        self._settled = administration.settled
        self._vhost = administration.vhost
        self.verbs: dict[str, Callable[[Request], Steps]] = {
            "definitions.export": self._export,
            "definitions.import": self._import,
            "definitions.diff": self._diff,
        }

    def _export(self, request: Request) -> Steps:
        """As they are at the first step."""
        vhost = self._vhost(request).name if request.has("vhost") else None
        about, categories = export_items(self._broker.metadata, vhost)
        found = JsonChunks("{}")
        for name, value in about.items():
            found.add(encode_value(value), name)
        for category, items in categories.items():
            rows = JsonChunks("[]")
            for number, item in enumerate(items, 1):
                if item is not None:
                    rows.add(encode_value(item))
                if item is None or number % _SLICE == 0:
                    yield None
            found.add(rows, category)
            yield None
        return {"definitions": found}

    def _import(self, request: Request) -> Steps:
        """dry_run: nothing is changed. only: places in the file (`definitions.diff` names them), and no others."""
        vhost = request.text("vhost") if request.has("vhost") else None
        is_dry, definitions = request.flag("dry_run"), _definitions(request)
        if request.has("only"):
            definitions = chosen(definitions, request.texts("only"))
        if not is_dry:
            done = yield from self._carry_out(definitions, vhost)
            return {**done, "notes": (yield from _written(done["notes"]))}
        importer = yield from self._plan(definitions, vhost)
        said = {"commands": len(importer.plan.commands), "notes": (yield from _written(importer.plan.notes))}
        yield from importer.let_go()
        return said

    def _diff(self, request: Request) -> Steps:
        """What an import would do, item by item."""
        vhost = request.text("vhost") if request.has("vhost") else None
        definitions = _definitions(request)
        importer = yield from self._plan(definitions, vhost)
        comparison = Comparison(definitions, self._broker.metadata, importer, vhost)
        for _ in comparison.steps():
            yield None
        notes = yield from _written(importer.plan.notes)
        yield from importer.let_go()
        return {"counts": comparison.counts, **comparison.found, "notes": notes}

    def _plan(self, definitions: object, vhost: str | None) -> Steps:
        """Its result: an importer that has made its plan."""
        broker = self._broker
        importer = Importer(
            definitions, broker.metadata, broker.random_bytes, vhost=vhost, bounds=bounds_of(broker)
        )
        yield None
        try:
            for password in importer.steps():
                yield broker.hashing.hash(password) if password is not None else None
        except EXPECTED_ERRORS:
            yield from importer.let_go()
            raise
        return importer

    def take_over(self, definitions: object, vhost: str | None = None) -> Task:
        """Carry out what definitions ask for beyond what is there. Its result has `commands`, how many changes that
        were, and `notes` on what was left out; its error is a ValueError where they cannot be."""
        return Task(self._broker.background, self._carry_out(definitions, vhost), EXPECTED_ERRORS)

    def _carry_out(self, definitions: object, vhost: str | None) -> Steps:
        """Portions of commands, the next one when the last is applied: no member has more to do at once."""
        yield from self._settled()
        importer = yield from self._plan(definitions, vhost)
        plan = importer.plan
        said = {"commands": len(plan.commands), "notes": plan.notes}
        for start in range(0, len(plan.commands), PORTION):
            yield from self._execute(*plan.commands[start : start + PORTION])
        yield from importer.let_go()
        return said


def _written(notes: list[str]) -> Steps:
    """As JSON."""
    rows = JsonChunks("[]")
    for number, note in enumerate(notes, 1):
        rows.add(encode_value(note))
        if number % SLICE == 0:
            yield None
    return rows


def _definitions(request: Request) -> JsonObject:
    """Raises ValueError."""
    definitions = request.get("definitions")
    if not isinstance(definitions, dict):
        raise DefinitionsError("definitions", f"{type(definitions).__name__} found, an object is needed")
    return definitions

"""Definitions: what the metadata holds, in the JSON form that RabbitMQ exports and imports."""

from __future__ import annotations

from amqp_broker.definitions.exporting import export
from amqp_broker.definitions.importing import ImportPlan, import_commands, plan_import
from amqp_broker.definitions.reading import DefinitionsError

__all__ = ["DefinitionsError", "ImportPlan", "export", "import_commands", "plan_import"]

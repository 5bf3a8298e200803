"""Definitions: what the metadata holds, in the JSON form that RabbitMQ exports and imports."""

from __future__ import annotations

from amqp_broker.management.definitions.exporting import export
from amqp_broker.management.definitions.importing import (
    ADMINISTRATOR,
    USER_LIMITS,
    VHOST_LIMITS,
    Importer,
    ImportPlan,
    bounds_of,
    import_commands,
    plan_import,
)
from amqp_broker.management.definitions.reading import DefinitionsError

__all__ = [
    "ADMINISTRATOR",
    "USER_LIMITS",
    "VHOST_LIMITS",
    "DefinitionsError",
    "ImportPlan",
    "Importer",
    "bounds_of",
    "export",
    "import_commands",
    "plan_import",
]

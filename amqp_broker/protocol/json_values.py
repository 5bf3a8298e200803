"""What JSON texts have in them: requests and answers of amq.system, commands of the metadata, definitions.

Whoever reads one looks at what it is where it is used, and says what it should have been.
"""

from __future__ import annotations

from typing import Any, TypeAlias

JsonValue: TypeAlias = Any  # truly anything: what json.loads gives
JsonObject: TypeAlias = dict[str, Any]  # truly anything, by its names

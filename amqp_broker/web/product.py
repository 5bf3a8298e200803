"""What the broker says of itself: its name, the level of RabbitMQ's API that it answers by, and what runs it."""

from __future__ import annotations

import platform
from typing import Final

API_LEVEL: Final = "4.2.0"
PRODUCT: Final = "amqp-broker"


def python_version() -> str:
    """What stands where RabbitMQ names its Erlang."""
    return f"{platform.python_implementation()} {platform.python_version()}"

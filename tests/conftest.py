"""What holds for all tests:

AMQP_BROKER_PLAIN=1 decides, before any of our modules is loaded, which files run.
"""

from __future__ import annotations

import amqp_broker  # noqa: F401 - its import installs the hook for plain modules, if that is asked for

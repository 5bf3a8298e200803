"""What holds for all tests:

AMQP_BROKER_PLAIN=1 decides, before any of our modules is loaded, which files run. No example of a property is a failure
for being slow: the cores are shared, and what is slow is measured elsewhere.
"""

from __future__ import annotations

from hypothesis import settings

import amqp_broker  # noqa: F401 - its import installs the hook for plain modules, if that is asked for

settings.register_profile("shared cores", deadline=None)
settings.load_profile("shared cores")

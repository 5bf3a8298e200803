"""Importing the package first decides whether compiled or plain modules are tested (AMQP_BROKER_PLAIN)."""

from __future__ import annotations

import amqp_broker  # noqa: F401
import raft.host

#: What pytest leaves out: these tests turn rules off, and compiled classes cannot be changed.
collect_ignore = [] if raft.host.__file__.endswith(".py") else ["test_bites.py"]

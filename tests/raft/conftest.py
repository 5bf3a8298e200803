"""Importing the package first decides whether compiled or plain modules are tested (AMQP_BROKER_PLAIN)."""

from __future__ import annotations

import amqp_broker  # noqa: F401

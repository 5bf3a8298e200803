"""The default exchange has no name, and a path needs one: `amq.default` stands for it."""

from __future__ import annotations

DEFAULT_EXCHANGE = "amq.default"


def exchange_of(name: str) -> str:
    """The exchange that a name in a path means."""
    return "" if name == DEFAULT_EXCHANGE else name

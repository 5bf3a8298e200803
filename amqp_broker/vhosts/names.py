"""Names of queues and exchanges, as clients say them."""

from __future__ import annotations


def plain_name(name: str) -> str:
    """The name without its line breaks: RabbitMQ leaves them out where something is declared, bound, unbound or
    deleted, and nowhere else."""
    return name.replace("\r", "").replace("\n", "")

"""Direct reply-to: consumers of the pseudo-queue amq.rabbitmq.reply-to, found by the token in a reply address.

A request that is published with reply-to `amq.rabbitmq.reply-to` gets the address of its channel's reply consumer
instead; a reply published to the default exchange with that address as routing key goes straight to the channel,
without a queue, at most once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

REPLY_TO = "amq.rabbitmq.reply-to"
REPLY_PREFIX = REPLY_TO + "."


class ReplyConsumers:
    """The reply consumers of a node by address."""

    def __init__(self, random_bytes: Callable[[int], bytes]) -> None:
        self._random_bytes = random_bytes
        self._by_address: dict[str, Any] = {}

    def add(self, consumer: Any) -> str:
        """Register a consumer. Returns its address, which nobody can guess."""
        address = REPLY_PREFIX + self._random_bytes(16).hex()
        self._by_address[address] = consumer
        return address

    def remove(self, address: str) -> None:
        """The consumer is gone; replies to it are dropped from now on."""
        self._by_address.pop(address, None)

    def find(self, address: str) -> Any | None:
        """The consumer at this address, or None."""
        return self._by_address.get(address)

    def __len__(self) -> int:
        return len(self._by_address)

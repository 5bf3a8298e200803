"""Rule: what the messages of most queues are subject to, and what a type of queue may lack (`Queue.lacks`).

A type says of each rule that it lacks why, in words that end a sentence. Whoever asks for the rule is told so; what
comes with a message, and not with the queue, is passed over. tests/queues/rules has every rule run against every host.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum

from queues.arguments import ArgumentError


class Rule(Enum):
    """arguments: those that ask for it. What comes with a message, and LEASES, can be asked for without any."""

    PRIORITIES = ("x-max-priority",)
    LENGTH_LIMITS = (
        "x-max-length", "x-max-length-bytes", "x-overflow", "x-max-in-memory-length", "x-max-in-memory-bytes",
    )  # fmt: skip
    DEDUPLICATION = ("x-message-deduplication", "x-deduplication-ttl")
    LEASES = ("x-lease-expires",)
    EXPIRATION = ()
    """The property `expiration` of a message; x-message-ttl is another thing."""

    @property
    def arguments(self) -> tuple[str, ...]:
        """See above."""
        keys: tuple[str, ...] = self.value
        return keys


def check_lacks(arguments: Iterable[str], lacks: Mapping[Rule, str], whose: str) -> None:
    """Whether none of these arguments asks for a rule that is lacked. whose: of what queue, and what it has not. Raises
    ArgumentError."""
    asked = set(arguments)
    for rule, reason in lacks.items():
        for key in rule.arguments:
            if key in asked:
                raise ArgumentError(key, f"{whose}: {reason}")

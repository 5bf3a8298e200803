"""Permissions: what one user may do with the resources of one vhost, as three patterns over their names.

Configure is creating and deleting, write is putting in (publish; bind for the destination), read is
taking out (consume; bind for the source). RabbitMQ's rules hold: a pattern matches anywhere in a name
unless it is anchored; an empty permission pattern matches no name, while an empty *topic* pattern matches
only the empty routing key; without a topic permission every routing key is allowed. Here stand compiled
patterns; who holds which is in the metadata.

Invariant: an answer that is remembered was computed from the same patterns, which never change.
"""

from __future__ import annotations

from enum import Enum
from functools import lru_cache
from typing import Final

from amqp_broker.auth.patterns import NamePattern, PatternError

__all__ = [
    "DEFAULT_EXCHANGE_RESOURCE",
    "Action",
    "PatternError",
    "Permission",
    "TopicPermission",
    "check_pattern",
]

DEFAULT_EXCHANGE_RESOURCE: Final = "amq.default"
"""The name by which patterns speak of the default exchange, whose own name is empty."""

_MAX_ANSWERS: Final = 1000
_MAX_PATTERNS: Final = 512


class Action(Enum):
    CONFIGURE = "configure"
    WRITE = "write"
    READ = "read"


class Permission:
    """The compiled permission of one user in one vhost."""

    __slots__ = ("_answers", "_patterns")

    def __init__(self, configure: str, write: str, read: str) -> None:
        """Compiles the three patterns. Raises PatternError."""
        self._patterns = {
            Action.CONFIGURE: _compile(configure),
            Action.WRITE: _compile(write),
            Action.READ: _compile(read),
        }
        self._answers: dict[tuple[Action, str], bool] = {}

    def allows(self, action: Action, name: str) -> bool:
        """Whether the action is allowed on the queue or exchange of this name ("": the default exchange)."""
        answer = self._answers.get((action, name))
        if answer is None:
            answer = self._patterns[action].matches(name or DEFAULT_EXCHANGE_RESOURCE)
            _remember(self._answers, (action, name), answer)
        return answer

    def allows_anything_on(self, name: str) -> bool:
        """Whether any of the three actions is allowed: what a passive declare asks."""
        return any(self.allows(action, name) for action in Action)


class TopicPermission:
    """The compiled topic permission of one user for one exchange: which routing keys may be used."""

    __slots__ = ("_answers", "_patterns")

    def __init__(self, write: str, read: str, user: str, vhost: str) -> None:
        """Compiles the patterns, in which {username} and {vhost} stand for those. Raises PatternError."""
        variables = {"username": user, "vhost": vhost}
        self._patterns = {
            Action.WRITE: _compile(write, variables),
            Action.READ: _compile(read, variables),
        }
        self._answers: dict[tuple[Action, str], bool] = {}

    def allows(self, action: Action, routing_key: str) -> bool:
        """Whether publishing with this routing key (write) or binding by it (read) is allowed."""
        answer = self._answers.get((action, routing_key))
        if answer is None:
            answer = self._patterns[action].matches(routing_key)
            _remember(self._answers, (action, routing_key), answer)
        return answer


def check_pattern(text: str) -> None:
    """Raises PatternError (a ValueError that says why) where the text cannot be a permission's pattern."""
    _compile(text)


def _compile(text: str, variables: dict[str, str] | None = None) -> NamePattern:
    used = [(key, value) for key, value in (variables or {}).items() if "{" + key + "}" in text]
    return compiled(text or "^$", tuple(used))


@lru_cache(_MAX_PATTERNS)
def compiled(text: str, variables: tuple[tuple[str, str], ...]) -> NamePattern:
    """Once, however many connections use it: to compile one takes a millisecond."""
    return NamePattern(text, dict(variables))


def _remember(answers: dict[tuple[Action, str], bool], question: tuple[Action, str], answer: bool) -> None:
    if len(answers) >= _MAX_ANSWERS:
        answers.clear()
    answers[question] = answer

"""OwnWords: a wrong argument of which a client is told in words of its own."""

from __future__ import annotations

from queues.arguments import ArgumentError


class OwnWords(ArgumentError):
    """A wrong argument of which a client is told `text`, and not what is said of the arguments of every type."""

    def __init__(self, key: str, text: str) -> None:
        super().__init__(key, text)
        self.text = text

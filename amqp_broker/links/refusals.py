"""Refusals: who of the other nodes is not let in, and why; said in the log once, and not for each link."""

from __future__ import annotations

import logging

log = logging.getLogger("amqp_broker.cluster")


class Refusals:
    """Of a node."""

    def __init__(self) -> None:
        self._said: dict[str, str] = {}
        self._changed: dict[str, bool] = {}

    def warn(self, name: str, text: str) -> None:
        """It is not let in now."""
        if self._said.get(name) != text:
            self._said[name] = text
            log.warning("%s is not let in: %s", name, text)

    def refuse(self, name: str, text: str) -> None:
        """The same of who has been given up: there is nothing to be said with it."""
        self.warn(name, text)
        self._changed[name] = True

    def let_in(self, name: str) -> None:
        """It is let in, whatever was before."""
        if self._said.pop(name, None) is not None:
            self._changed[name] = False

    @property
    def has_changed(self) -> bool:
        """Whether `take` has something to say."""
        return bool(self._changed)

    def take(self) -> list[tuple[str, bool]]:
        """Who was given up (True), or was let in since."""
        changed, self._changed = self._changed, {}
        return list(changed.items())

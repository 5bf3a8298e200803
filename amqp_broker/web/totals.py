"""Totals: what the node counts as a whole, with an hour of what it counted before."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Final

from amqp_broker.web.node_client import NodeClient
from amqp_broker.web.rates import History

REUSED_S: Final = 1.0


class Totals:
    """clock: seconds that only grow."""

    def __init__(self, node: NodeClient, clock: Callable[[], float] = time.monotonic) -> None:
        self._node = node
        self._clock = clock
        self._guard = threading.Lock()
        self._last: dict[str, Any] | None = None
        self._until = 0.0
        self.history = History()

    def read(self) -> dict[str, Any]:
        """The counts, at most a second old. Raises SystemRequestError, NodeGone."""
        with self._guard:
            if self._last is None or self._clock() >= self._until:
                self._last = self._ask()
                self._until = self._clock() + REUSED_S
            return self._last

    def sample(self) -> None:
        """A reading for the history, too."""
        with self._guard:
            self._last = self._ask()
            self._until = self._clock() + REUSED_S
        now_ms = int(time.time() * 1000)
        self.history.add(now_ms, {name: value for name, value in self._last.items() if isinstance(value, (int, float))})

    def forget(self) -> None:
        with self._guard:
            self._last = None

    def _ask(self) -> dict[str, Any]:
        return self._node.request("totals")

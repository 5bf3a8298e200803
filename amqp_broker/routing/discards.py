"""Discards: messages that are dropped because they came back too often, from queues that have no dead letter exchange.

Nobody asked for that drop, so it is not silent: the first one of a queue is logged at once, those of the next
`_SAY_EVERY_MS` together. A queue is told apart by virtual host and name, and at most `_MOST_QUEUES` are at a time: what
others drop meanwhile is in the total, and said in one line for all of them.
"""

from __future__ import annotations

import logging

from queues.timers import Timers

log = logging.getLogger("amqp_broker")

_SAY_EVERY_MS = 10_000
_MOST_QUEUES = 1000
_OTHERS = ("", "")


class Discards:
    """total: messages since the start."""

    def __init__(self, timers: Timers) -> None:
        self.total = 0
        self._timers = timers
        self._unsaid: dict[tuple[str, str], int] = {}

    def note(self, vhost: str, queue: str, messages: int, now: int) -> None:
        """So many messages of a queue are dropped."""
        self.total += messages
        key = (vhost, queue)
        if key not in self._unsaid and len(self._unsaid) >= _MOST_QUEUES:
            key = _OTHERS
        if key in self._unsaid:
            self._unsaid[key] += messages
            return
        self._unsaid[key] = 0
        _say(key, messages)
        self._timers.at(now + _SAY_EVERY_MS, lambda later: self._say_again(key, later))

    def _say_again(self, key: tuple[str, str], now: int) -> None:
        messages = self._unsaid[key]
        if messages:
            self._unsaid[key] = 0
            _say(key, messages)
            self._timers.at(now + _SAY_EVERY_MS, lambda later: self._say_again(key, later))
        else:
            del self._unsaid[key]


def _say(key: tuple[str, str], messages: int) -> None:
    vhost, queue = key
    whose = "further queues" if key == _OTHERS else f"queue '{queue}' in vhost '{vhost}'"
    log.warning(
        "%s dropped %d message%s that came back more often than the delivery limit allows: to keep them give it a dead "
        "letter exchange, or a higher limit (x-delivery-limit, or the policy key delivery-limit; -1 for none)",
        whose,
        messages,
        "" if messages == 1 else "s",
    )

"""RewritingRoom: what all share who write pages of streams anew at a node: one of them at a time has a pass, the others
wait in line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from queues.stream.compaction import KEY_BYTES

if TYPE_CHECKING:
    from amqp_broker.settings.config import Config
    from amqp_broker.turn.clock import TurnClock
    from queues.background import Background
    from queues.timers import Timers


class Waiting(Protocol):
    """Who has passes over a stream."""

    def look_again(self) -> None:
        """A pass may begin."""


class RewritingRoom:
    """See the module's docstring. passes, records: how many compactions there were, and what they have taken, since the
    node began."""

    def __init__(self, config: Config, timers: Timers, clock: TurnClock, background: Background) -> None:
        self.timers = timers
        self.clock = clock
        self.background = background
        self.every_ms = config.stream_compaction_ms
        self.pack_every_ms = config.stream_compression_ms
        self.retain_every_ms = config.stream_retention_ms
        self.percent = config.stream_compaction_percent
        self.most_keys = config.stream_compaction_keys_bytes // KEY_BYTES
        self.busy: Waiting | None = None
        self.waiting: dict[Waiting, None] = {}
        self.passes = 0
        self.records = 0

    def enter(self, rewriter: Waiting) -> bool:
        """Whether it may begin a pass. If not, it is asked to look again when it may."""
        if self.busy is not None:
            self.waiting[rewriter] = None
            return False
        self.waiting.pop(rewriter, None)
        self.busy = rewriter
        return True

    def forget(self, rewriter: Waiting) -> None:
        """It does not wait any more."""
        self.waiting.pop(rewriter, None)

    def count(self, records: int) -> None:
        """A compaction has taken so many records."""
        self.passes += 1
        self.records += records

    def leave(self) -> None:
        """The pass is over."""
        self.busy = None
        self.call_next()

    def call_next(self) -> None:
        """Whoever has waited longest may look again."""
        if self.busy is None and self.waiting:
            following = next(iter(self.waiting))
            del self.waiting[following]
            following.look_again()

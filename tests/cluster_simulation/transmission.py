"""Transmission: one time that a request of lease.* or txn.* was sent, and Answer: what came back.

A request that is asked again is sent once more, under another correlation id. One that was lost with its connection, or
answered with `busy`, may take effect at any time: its end is NEVER.

What happens has a moment: a number that rises with everything that is sent or answered, so that one of two is before
the other one even where both are at the same time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

NEVER = 1 << 60


@dataclass(slots=True, eq=False)
class Answer:
    """code: "ok", or why not. fields: of the JSON object; headers and blob: of the other kind of answer."""

    code: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, Any] = field(default_factory=dict)
    blob: bytes = b""

    @property
    def is_ok(self) -> bool:
        return self.code == "ok"


@dataclass(slots=True, eq=False)
class Transmission:
    """It takes effect, if it does, between `sent_at` and `ended_at`, which are moments."""

    verb: str
    fields: Mapping[str, Any]
    sent_at: int
    ended_at: int = NEVER
    blob: bytes = b""
    answer: Answer | None = None

    def __str__(self) -> str:
        return f"{self.verb} {dict(self.fields)}"

    def end(self, answer: Answer, moment: int) -> None:
        """It was answered."""
        self.answer = answer
        if answer.code != "busy":
            self.ended_at = moment

    @property
    def has_succeeded(self) -> bool:
        return self.answer is not None and self.answer.is_ok


def succeeded_before(transmissions: Iterable[Transmission], moment: int) -> list[Transmission]:
    """Those that had success and were answered before a moment."""
    return [each for each in transmissions if each.has_succeeded and each.ended_at < moment]

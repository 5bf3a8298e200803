"""RandomPace: a turn does some of the background's slices, and these are small: crashes and deletions fall between."""

from __future__ import annotations

import random

from queues.background import Background


class RandomPace:
    """After each slice a turn goes on with the likelihood that the seed says; with some seeds always."""

    def __init__(self, seed: object) -> None:
        self._chance = random.Random(f"pace {seed}")
        self._likelihood = self._chance.choice([0.0, 0.3, 0.8, 1.0])
        self._slice = self._chance.choice([2, 8, 128])

    def set(self, background: Background) -> None:
        """From now on the background has this pace."""
        background.set_pace(self)
        background.slice = self._slice

    def start(self) -> None:
        """The turn's first slice begins."""

    def goes_on(self) -> bool:
        return self._chance.random() < self._likelihood

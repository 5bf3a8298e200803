"""Spread: a figure of several runs as cells of a page: the median, and between what they lie."""

from __future__ import annotations

import statistics
from collections.abc import Sequence


def show(value: float) -> str:
    """A rate without decimals, a latency or a cost with three."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3f}"


def spread(values: Sequence[float]) -> list[str]:
    """The median, and the lowest and the highest."""
    return [show(statistics.median(values)), f"{show(min(values))} - {show(max(values))}"]

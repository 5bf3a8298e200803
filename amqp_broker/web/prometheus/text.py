"""Prometheus' text format 0.0.4: families of samples, each with its help, its type and its lines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

MEDIA = "text/plain; version=0.0.4; charset=utf-8"
COUNTER, GAUGE, HISTOGRAM = "counter", "gauge", "histogram"

Labels = Mapping[str, str]
Number = int | float


@dataclass(slots=True)
class Family:
    """Samples of one name. `suffixed` are those of a histogram, whose names are longer."""

    name: str
    kind: str
    help: str
    samples: list[tuple[str, str, Number]] = field(default_factory=list)

    def add(self, value: Number, labels: Labels | None = None, suffix: str = "") -> None:
        self.samples.append((suffix, write_labels(labels or {}), value))

    def add_written(self, value: Number, labels: str) -> None:
        """With labels as `write_labels` gives them: for very many samples that share them."""
        self.samples.append(("", labels, value))

    def add_histogram(self, bounds: Sequence[str], counts: Sequence[int], total: Number, labels: Labels) -> None:
        """counts: of each bound, without those below it. total: of all values."""
        within = 0
        for bound, count in zip(bounds, counts, strict=True):
            within += count
            self.add(within, {**labels, "le": bound}, "_bucket")
        self.add(within, labels, "_count")
        self.add(total, labels, "_sum")

    def lines(self) -> Iterable[str]:
        yield f"# TYPE {self.name} {self.kind}\n"
        yield f"# HELP {self.name} {_escape_help(self.help)}\n"
        for suffix, labels, value in self.samples:
            yield f"{self.name}{suffix}{labels} {_number(value)}\n"


def write(families: Iterable[Family]) -> bytes:
    """The text; families without a sample are left out."""
    lines = [line for family in families if family.samples for line in family.lines()]
    return "".join(lines).encode("utf-8", "replace")


def write_labels(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escape(value)}"' for name, value in labels.items()) + "}"


def _escape(value: str) -> str:
    """Octets that are no UTF-8 are shown by their numbers."""
    said = value.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return said.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _escape_help(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _number(value: Number) -> str:
    return repr(float(value)) if isinstance(value, float) else str(int(value))

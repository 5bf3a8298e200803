"""`amqp-broker top`: what a broker is doing now: rates from two samples, and the busiest queues and connections.

What is sampled are counters that never fall, and the broker's own clock: a rate is what has been added between two
answers, by the time between them.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

import click
from rich.console import Group
from rich.live import Live
from rich.text import Text

from amqp_broker.cli.admin.asking import add_url_options, asking
from amqp_broker.cli.admin.keys import Keys
from amqp_broker.cli.admin.kinds import KINDS
from amqp_broker.cli.admin.listing import Wish, read
from amqp_broker.cli.admin.table import Table, drawn
from amqp_broker.cli.cells import duration, size

if TYPE_CHECKING:
    from amqp_broker.protocol.json_values import JsonObject, JsonValue
    from amqp_broker.system_client import SystemClient

INTERVAL_S = 2.0
#: So many things are looked at in one sample; beyond that the screen says so.
MOST_LOOKED_AT = 10_000
_SHOWN = 100


class View(NamedTuple):
    """key: the columns that name one. counters: what is shown by the second. sizes: which of them are octets. sorts: by
    the key that is pressed, the column that the busiest come first in."""

    kind: str
    key: tuple[str, ...]
    gauges: tuple[str, ...]
    counters: tuple[str, ...]
    sorts: Mapping[str, str]

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self.key, *self.gauges, *(f"{name}/s" for name in self.counters))


VIEWS: Final = (
    View(
        "queues",
        ("vhost", "name"),
        ("messages_ready", "messages_unacknowledged", "consumers"),
        ("publish", "deliver", "ack"),
        {"m": "messages_ready", "u": "messages_unacknowledged", "p": "publish/s", "d": "deliver/s", "a": "ack/s"},
    ),
    View(
        "connections",
        ("name", "user", "vhost"),
        ("state", "channels"),
        ("recv_oct", "send_oct"),
        {"r": "recv_oct/s", "s": "send_oct/s", "c": "channels"},
    ),
)
#: Of the totals, what is shown by the second.
_RATES: Final = ("publish", "deliver_get", "ack", "confirm", "connection_created", "recv_oct", "send_oct")


@dataclass
class Sample:
    """What a broker has said at a moment (`totals["at"]`, `now`: milliseconds since the epoch)."""

    totals: JsonObject
    now: int
    rows: dict[tuple[JsonValue, ...], JsonObject] = field(default_factory=dict)
    is_cut: bool = False


def take_sample(client: SystemClient, view: View, vhost: str | None) -> Sample:
    """Raises SystemRequestError, ClientError."""
    totals = client.request("totals")
    columns = (*view.key, *view.gauges, *view.counters)
    table = read(client, KINDS[view.kind], Wish(columns, vhost, limit=MOST_LOOKED_AT))
    rows = [dict(zip(columns, row, strict=True)) for row in table.rows]
    named = {tuple(row[name] for name in view.key): row for row in rows}
    return Sample(totals, table.now, named, len(rows) >= MOST_LOOKED_AT)


def rate(before: JsonValue, after: JsonValue, milliseconds: int) -> float | None:
    """By the second; None where one of them is not known, or no time has passed."""
    if not isinstance(before, int) or not isinstance(after, int) or milliseconds <= 0:
        return None
    return round(max(0, after - before) * 1000 / milliseconds, 1)


def busiest(view: View, before: Sample | None, after: Sample, sort: str) -> Table:
    """What is to be shown, the busiest first. What came between the two samples has no rates yet."""
    table = Table(view.columns, [], after.now)
    for key, row in after.rows.items():
        old = before.rows.get(key, {}) if before is not None else {}
        elapsed = after.now - before.now if before is not None else 0
        rates = [rate(old.get(name), row[name], elapsed) for name in view.counters]
        table.rows.append([*key, *(row[name] for name in view.gauges), *rates])
    place = view.columns.index(sort)
    table.rows.sort(key=lambda row: -(row[place] or 0))
    del table.rows[_SHOWN:]
    return table


def _headline(before: Sample | None, after: Sample) -> Text:
    totals, old = after.totals, before.totals if before is not None else {}
    elapsed = totals["at"] - old["at"] if old else 0
    parts = []
    for name in _RATES:
        found = rate(old.get(name), totals[name], elapsed)
        value = "-" if found is None else size(found) if name.endswith("_oct") else f"{found:g}"
        parts.append(f"{name} {value}/s")
    held = f"memory {size(totals['memory_used'])} of {size(totals['memory_budget'])}"
    counts = ("connections", "channels", "queues", "consumers", "messages_ready", "messages_unacknowledged")
    lines = (
        f"{totals['node']}  {held}  journal {size(totals['journal_bytes'])}",
        "  ".join(f"{name} {totals[name]}" for name in counts),
        "  ".join(parts),
    )
    return Text("\n".join(lines), style="bold")


class Top:
    """What is on the screen, and what keys change of it. vhost: None for all."""

    def __init__(self, client: SystemClient, vhost: str | None, interval_s: float) -> None:
        self._client = client
        self._vhost = vhost
        self._interval_s = interval_s
        self._number = 0
        self._before: Sample | None = None
        self._after: Sample | None = None
        self._sort = next(iter(self._sorts.values()))

    @property
    def view(self) -> View:
        return VIEWS[self._number]

    @property
    def _sorts(self) -> Mapping[str, str]:
        """Its columns, by the letter that has it ordered by one."""
        return self.view.sorts

    def look(self) -> None:
        """Take the next sample."""
        self._before, self._after = self._after, take_sample(self._client, self.view, self._vhost)

    def press(self, key: str) -> None:
        """Tab: the next view; a letter: its order."""
        if key == "\t":
            self._number = (self._number + 1) % len(VIEWS)
            self._sort = next(iter(self._sorts.values()))
            self._before = self._after = None
            self.look()
        else:
            self._sort = self._sorts.get(key, self._sort)

    def screen(self) -> Group:
        """What is to be seen now."""
        assert self._after is not None, "look before you show"
        cut = f" (of the first {MOST_LOOKED_AT})" if self._after.is_cut else ""
        keys = "  ".join(f"{key} {column}" for key, column in self._sorts.items())
        every = duration(self._interval_s * 1000)
        foot = f"{self.view.kind}{cut} by {self._sort}, every {every}; q quit  Tab other  {keys}"
        table = drawn(busiest(self.view, self._before, self._after, self._sort))
        return Group(_headline(self._before, self._after), Text(foot, style="dim"), table)


@click.command()
@click.option("--vhost", metavar="NAME", help="Only what is in this virtual host. [all]")
@click.option(
    "--interval", "interval_s", metavar="SECONDS", type=click.FloatRange(0.1), default=INTERVAL_S, show_default=True
)
@add_url_options
def top(vhost: str | None, interval_s: float, url: str) -> None:
    """Watch a broker: rates, and the busiest queues and connections. Needs a terminal; q quits."""
    if not sys.stdout.isatty():
        raise click.UsageError("top needs a terminal; `amqp-broker list queues --watch` writes into a pipe")
    with suppress(KeyboardInterrupt), asking(url) as client:
        shown = Top(client, vhost, interval_s)
        shown.look()
        with Keys() as keys, Live(shown.screen(), screen=True, auto_refresh=False) as live:
            while (pressed := keys.wait(interval_s)) != "q":
                if pressed:
                    shown.press(pressed)
                else:
                    shown.look()
                live.update(shown.screen(), refresh=True)

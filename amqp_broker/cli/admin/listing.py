"""`amqp-broker list KIND`: what a broker has, page by page: it never holds more than one page for it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import click
from rich.console import Console
from rich.live import Live

from amqp_broker.cli.admin.asking import add_url_options, asking
from amqp_broker.cli.admin.keys import Keys
from amqp_broker.cli.admin.kinds import KINDS, ListedKind
from amqp_broker.cli.admin.table import Table, aligned, as_csv, as_json, drawn
from amqp_broker.cli.cells import for_programs, shown

if TYPE_CHECKING:
    from amqp_broker.protocol.json_values import JsonObject, JsonValue
    from amqp_broker.system_client import SystemClient

#: The most that the broker puts into one page.
PAGE_ROWS = 500
MOST_AUDIT_ROWS = 200
WATCH_S = 2.0


class Wish(NamedTuple):
    """What of a kind is to be shown. sort: a column, with "-" before it the other way round."""

    columns: Sequence[str]
    vhost: str | None = None
    sort: str = ""
    filter: str = ""
    limit: int | None = None


# -- reading -----------------------------------------------------------------------------------------------------------


def read(client: SystemClient, kind: ListedKind, wish: Wish) -> Table:
    """Raises SystemRequestError, ClientError."""
    sort_column = wish.sort.removeprefix("-")
    columns = list(dict.fromkeys([*wish.columns, *([sort_column] if sort_column else [])]))
    most = sys.maxsize if wish.limit is None or wish.sort or wish.filter else wish.limit
    table = Table(columns, [])
    stale: set[str] = set()
    for page in _pages(client, kind, columns, wish):
        table.rows += [row for row in _rows(page, columns) if _has(row, wish.filter)]
        table.now = page["at"]
        stale.update(page["stale"])
        if len(table.rows) >= most:
            break
    if sort_column:
        _sort(table.rows, columns.index(sort_column), is_falling=wish.sort.startswith("-"))
    table.columns = list(wish.columns) or columns
    table.rows = [row[: len(table.columns)] for row in table.rows[: wish.limit]]
    table.stale = sorted(stale)
    return table


def _pages(client: SystemClient, kind: ListedKind, columns: Sequence[str], wish: Wish) -> Iterator[JsonObject]:
    if not kind.name:
        yield _nodes(client, columns)
        return
    if kind.name == "audit":
        yield from _audit(client, columns, wish)
        return
    fields: JsonObject = {"kind": kind.name, "limit": PAGE_ROWS}
    if columns:
        fields["columns"] = list(dict.fromkeys(column.partition(".")[0] for column in columns))
    if wish.vhost is not None:
        fields["vhost"] = wish.vhost
    while True:
        page = client.request("objects.page", **fields)
        yield page
        if page["next"] is None:
            return
        fields["after"] = page["next"]


def _nodes(client: SystemClient, columns: Sequence[str]) -> JsonObject:
    """What the nodes say of themselves, as a page."""
    totals = client.request("totals")
    known = ["name", *sorted(set().union(*totals["nodes"].values()))]
    unknown = [column for column in columns if column not in known]
    if unknown:
        raise click.UsageError(f"--columns: nodes have no '{unknown[0]}'; these are: {', '.join(known)}")
    rows = [[{"name": name, **said}.get(column) for column in known] for name, said in sorted(totals["nodes"].items())]
    return {"columns": known, "rows": rows, "next": None, "at": totals["at"], "stale": totals["stale"]}


def _audit(client: SystemClient, columns: Sequence[str], wish: Wish) -> Iterator[JsonObject]:
    """Lines of the audit log, the newest first."""
    known = ["at", "time", "node", "user", "by", "from", "through", "via", "what", "vhost", "name", "outcome", "reason"]
    known += ["count", "details"]
    unknown = [column for column in columns if column.partition(".")[0] not in known]
    if unknown:
        raise click.UsageError(f"--columns: the audit log has no '{unknown[0]}'; these are: {', '.join(known)}")
    fields: JsonObject = {"limit": MOST_AUDIT_ROWS if wish.limit is None else min(wish.limit, MOST_AUDIT_ROWS)}
    if wish.vhost is not None:
        fields["vhost"] = wish.vhost
    while True:
        page = client.request("audit.page", **fields)
        rows = [[line.get(column) for column in known] for line in page["rows"]]
        yield {"columns": known, "rows": rows, "next": None, "at": 0, "stale": page["stale"]}
        if page["next"] is None:
            return
        fields["before"] = page["next"]


def _rows(page: JsonObject, columns: list[str]) -> Iterator[list[JsonValue]]:
    """With all columns of the page, if none are named: then they are written into `columns`."""
    columns[:] = columns or page["columns"]
    paths = [column.split(".") for column in columns]
    for row in page["rows"]:
        found = dict(zip(page["columns"], row, strict=True))
        yield [_under(found, path) for path in paths]


def _under(value: JsonValue, path: list[str]) -> JsonValue:
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _has(row: list[JsonValue], text: str) -> bool:
    wanted = text.casefold()
    return not wanted or any(wanted in for_programs(value).casefold() for value in row)


def _sort(rows: list[list[JsonValue]], place: int, *, is_falling: bool) -> None:
    """What is not known stands last, either way."""
    rows.sort(key=lambda row: _rank(row[place]), reverse=is_falling)
    rows.sort(key=lambda row: row[place] is None)


def _rank(value: JsonValue) -> tuple[int, float, str]:
    if isinstance(value, int | float):
        return 0, value, ""
    return 1, 0, value if isinstance(value, str) else for_programs(value)


# -- the commands ------------------------------------------------------------------------------------------------------


@click.group("list")
def list_group() -> None:
    """Show what a broker has: a table on a terminal, plain text in a pipe, JSON or CSV.

    Sizes and times have units on a terminal only.
    """


def list_command(name: str) -> click.Command:
    """The one that lists a kind."""
    kind = KINDS[name]

    def command(url: str, **given: object) -> None:
        _list(url, kind, **given)  # type: ignore[arg-type]

    columns = ", ".join(kind.columns)
    command.__doc__ = f"List {name.replace('-', ' ')}.\n\n    Columns, unless others are named: {columns}."
    for option in _options(kind):
        command = option(command)
    return click.command(name)(add_url_options(command))


def _options(kind: ListedKind) -> Iterator[Callable[[Callable[..., None]], Callable[..., None]]]:
    """From the last one shown to the first."""
    yield click.option(
        "--watch", "watch_s", metavar="SECONDS", type=click.FloatRange(0.1), is_flag=False, flag_value=WATCH_S,
        help=f"Again and again, until q or Ctrl-C. [{WATCH_S:g}]",
    )  # fmt: skip
    yield click.option("--csv", "is_csv", is_flag=True, help="Print comma-separated values.")
    yield click.option("--json", "is_json", is_flag=True, help="Print one JSON document: a list of objects.")
    yield click.option("--limit", metavar="N", type=click.IntRange(1), help="At most so many rows.")
    yield click.option("--filter", "filter_text", metavar="TEXT", default="", help="Only rows with TEXT in a column.")
    yield click.option("--sort", metavar="COLUMN", default="", help="By this column; -COLUMN: the largest first.")
    yield click.option("--columns", metavar="A,B", help="These columns, or all; a.b is what column a has under b.")
    if kind.is_in_vhosts:
        yield click.option("--vhost", metavar="NAME", help="Only what is in this virtual host. [all]")


def _list(
    url: str,
    kind: ListedKind,
    columns: str | None,
    sort: str,
    filter_text: str,
    limit: int | None,
    is_json: bool,
    is_csv: bool,
    watch_s: float | None,
    vhost: str | None = None,
) -> None:
    if is_json and is_csv:
        raise click.UsageError("--json and --csv exclude each other: name one of them")
    named = kind.columns if columns is None else tuple(each.strip() for each in columns.split(",") if each.strip())
    if not named:
        raise click.UsageError("--columns names none: write their names with commas between them, or all")
    wish = Wish(() if named == ("all",) else named, vhost, sort, filter_text, limit)
    if sort and not wish.columns:
        raise click.UsageError("--sort needs the columns by name: write them in --columns")
    try:
        with asking(url) as client:
            ask = partial(read, client, kind, wish)
            if watch_s is None:
                _write(ask(), is_json, is_csv)
            elif sys.stdout.isatty() and not is_json and not is_csv:
                _watch_on_terminal(ask, watch_s)
            else:
                _watch_in_pipe(ask, watch_s, is_json, is_csv)
    except KeyboardInterrupt:
        if watch_s is None:
            raise


def _write(table: Table, is_json: bool, is_csv: bool) -> None:
    for node in table.stale:
        click.echo(f"note: node {shown(node)} does not answer; what only it knows is missing", err=True)
    if is_json:
        click.echo(as_json(table))
    elif is_csv:
        sys.stdout.write(as_csv(table))  # click.echo would take octets out of names that a terminal obeys
    elif sys.stdout.isatty():
        Console().print(drawn(table))
    else:
        click.echo("\n".join(aligned(table)))


def _watch_on_terminal(ask: Callable[[], Table], seconds: float) -> None:
    with Keys() as keys, Live(drawn(ask()), screen=True, auto_refresh=False) as live:
        while "q" not in keys.wait(seconds):
            live.update(drawn(ask()), refresh=True)


def _watch_in_pipe(ask: Callable[[], Table], seconds: float, is_json: bool, is_csv: bool) -> None:
    """One after the other: JSON on a line each, the rest with an empty line between."""
    while True:
        table = ask()
        if is_json:
            click.echo(as_json(table, indent=None))
        else:
            _write(table, is_json, is_csv)
            click.echo()
        sys.stdout.flush()
        time.sleep(seconds)


for _name in KINDS:
    list_group.add_command(list_command(_name))

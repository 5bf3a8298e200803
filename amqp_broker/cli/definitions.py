"""`amqp-broker definitions export|import`: all that is declared and configured, in RabbitMQ's JSON format.

Live through a running broker's own service (`--url`), or on the data folder of a stopped one (`--data-dir`).
"""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

import click

from amqp_broker.cli.cells import shown
from amqp_broker.cli.management import DEFAULT_URL, URL_VARIABLE
from amqp_broker.cli.tls_options import add_tls_options, explain, tls_context
from amqp_broker.client.address import parse_url
from amqp_broker.client.errors import ClientError
from amqp_broker.management.definitions import DefinitionsError, bounds_of, export, plan_import
from amqp_broker.management.definitions.comparing import KINDS, chosen
from amqp_broker.node import Node
from amqp_broker.server.workers_file import read_stored
from amqp_broker.settings.config import Config
from amqp_broker.system_client import SystemClient, SystemRequestError
from storage.disk import FileDisk
from storage.errors import StorageError
from storage.folder_format import FORMAT_FILE

if TYPE_CHECKING:
    from amqp_broker.protocol.json_values import JsonObject

_URL_HELP = f"A running broker, and an administrator; also from {URL_VARIABLE}. [{DEFAULT_URL}]"


@click.group()
def definitions() -> None:
    """Export or import users, virtual hosts, permissions, policies, exchanges, queues and bindings."""


def _add_options(command: Callable[..., object]) -> Callable[..., object]:
    url = click.option("--url", metavar="URL", help=_URL_HELP)
    folder = click.option("--data-dir", metavar="DIR", help="The data folder of a broker that is not running.")
    vhost = click.option("--vhost", metavar="NAME", help="Only what lives in this virtual host.")
    return url(add_tls_options(folder(vhost(command))))


@definitions.command("export")
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True), default="-")
@_add_options
def export_command(file: str, url: str | None, data_dir: str | None, vhost: str | None) -> None:
    """Write the definitions to FILE (standard output without one)."""
    with _told_in_one_line():
        found = _place(url, data_dir).export(vhost)
    text = json.dumps(found, indent=2, sort_keys=True) + "\n"
    if file == "-":
        click.echo(text, nl=False)
        return
    try:
        Path(file).write_text(text, encoding="utf-8")
    except OSError as error:
        raise click.ClickException(f"{file} cannot be written: {error.strerror}; name another file") from error


@definitions.command("import")
@click.argument("file", type=click.File("r", encoding="utf-8"), default="-")
@click.option("--dry-run", "is_dry", is_flag=True, help="Change nothing; say how many changes there would be.")
@click.option("--only", "only", metavar="PLACE", multiple=True, help="Only this item, such as queues[3]; repeatable.")
@_add_options
def import_command(
    file: IO[str], is_dry: bool, only: tuple[str, ...], url: str | None, data_dir: str | None, vhost: str | None
) -> None:
    """Take over the definitions in FILE (standard input without one). Nothing is deleted."""
    wanted = _read(file)
    with _told_in_one_line():
        count, notes = _place(url, data_dir).take_over(_chosen(wanted, only), vhost, is_dry=is_dry)
    for note in notes:
        click.echo(f"note: {note}", err=True)
    made = "changes would be made" if is_dry else "changes made"
    click.echo(f"{count} {made}" if count else "nothing to change: all of it was there")


def _chosen(wanted: object, only: tuple[str, ...]) -> object:
    try:
        return chosen(wanted, list(only)) if only and isinstance(wanted, dict) else wanted
    except ValueError as error:
        raise click.UsageError(f"--only: {str(error).removeprefix('field only: ')}") from error


@definitions.command("diff")
@click.argument("file", type=click.File("r", encoding="utf-8"), default="-")
@click.option("--json", "is_json", is_flag=True, help="Print one JSON object.")
@click.option("--url", metavar="URL", help=_URL_HELP)
@click.option("--vhost", metavar="NAME", help="Only what lives in this virtual host.")
@add_tls_options
def diff_command(file: IO[str], is_json: bool, url: str | None, vhost: str | None) -> None:
    """Say what an import of FILE would add and change, what contradicts it, and what is there besides."""
    wanted = _read(file)
    with _told_in_one_line():
        found = RunningNode(_checked(url)).compare(wanted, vhost)
    if is_json:
        click.echo(json.dumps(found, indent=2))
        return
    for kind in KINDS:
        for row in found[kind]:
            name = " ".join(f"{key}={value}" for key, value in row["key"].items() if value not in ("", "{}"))
            fields = f" ({', '.join(row['fields'])})" if row.get("fields") else ""
            click.echo(shown(f"{kind} {row.get('place', row['category'])} {name}{fields}"))
    for note in found["notes"]:
        click.echo(f"note: {note}", err=True)
    click.echo(", ".join(f"{count} {kind}" for kind, count in found["counts"].items()))


def _read(file: IO[str]) -> object:
    try:
        return json.load(file)
    except ValueError as error:
        raise click.ClickException(f"{file.name}: not JSON ({error}); nothing was imported") from error


class RunningNode:
    """A broker that answers at a url."""

    def __init__(self, url: str) -> None:
        self._url = url

    def export(self, vhost: str | None) -> JsonObject:
        fields = {} if vhost is None else {"vhost": vhost}
        return dict(self._request("definitions.export", fields)["definitions"])

    def compare(self, wanted: object, vhost: str | None) -> JsonObject:
        fields = {"definitions": wanted} if vhost is None else {"definitions": wanted, "vhost": vhost}
        found = self._request("definitions.diff", fields)
        return {key: value for key, value in found.items() if key != "ok"}

    def take_over(self, wanted: object, vhost: str | None, *, is_dry: bool = False) -> tuple[int, list[str]]:
        fields = {"definitions": wanted} if vhost is None else {"definitions": wanted, "vhost": vhost}
        answer = self._request("definitions.import", fields | ({"dry_run": True} if is_dry else {}))
        return int(answer["commands"]), list(answer["notes"])

    def _request(self, verb: str, fields: Mapping[str, object]) -> JsonObject:
        try:
            with SystemClient(self._url, tls_context(self._url)) as client:
                return client.request(verb, **fields)
        except ClientError as error:
            raise click.ClickException(explain(error, self._url)) from error


class StoppedNode:
    """The data folder of a broker that is not running; locked meanwhile. A node without clients is run on it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def export(self, vhost: str | None) -> JsonObject:
        with self._opened() as node:
            broker = node.broker
            return export(broker.metadata, vhost)

    def take_over(self, wanted: object, vhost: str | None, *, is_dry: bool = False) -> tuple[int, list[str]]:
        with self._opened() as node:
            if is_dry:
                broker = node.broker
                bounds = bounds_of(broker)
                plan = plan_import(wanted, broker.metadata, secrets.token_bytes, vhost=vhost, bounds=bounds)
                return len(plan.commands), plan.notes
            system, clock = node.system, node.clock
            task = system.take_over(wanted, vhost)
            node.run_alone(lambda: task.is_done, clock.now)
        if task.error is not None:
            raise task.error
        return int(task.result["commands"]), list(task.result["notes"])

    @contextmanager
    def _opened(self) -> Iterator[Node]:
        if not (self._folder / FORMAT_FILE).is_file():
            raise click.ClickException(f"{self._folder}: no data folder of a broker; name one, or use --url")
        disk = FileDisk(self._folder)
        disk.lock()
        try:
            now = int(time.time() * 1000)
            config = Config(data_dir=self._folder, group_workers=read_stored(self._folder).group_workers())
            node = Node(config, disk, now, secrets.token_bytes)
            node.recover(now)
            if not node.is_ready:
                members = ", ".join(node.members())
                raise click.ClickException(
                    f"{self._folder}: belongs to a cluster ({members}), which alone can say what is declared: use --url"
                )
            yield node
        finally:
            disk.close()


def _place(url: str | None, data_dir: str | None) -> RunningNode | StoppedNode:
    if url is not None and data_dir is not None:
        raise click.UsageError(
            "--url and --data-dir exclude each other: name the running broker or the stopped one's folder"
        )
    if data_dir is not None:
        return StoppedNode(Path(data_dir))
    return RunningNode(_checked(url))


def _checked(url: str | None) -> str:
    """The variable counts here, and not as the flag does, which excludes --data-dir."""
    address = url or os.environ.get(URL_VARIABLE) or DEFAULT_URL
    try:
        parse_url(address)
    except ValueError as error:
        raise click.UsageError(f"--url: {error}") from error
    return address


@contextmanager
def _told_in_one_line() -> Iterator[None]:
    """Turns what may go wrong with a broker, a folder or a file into one line for the user."""
    try:
        yield
    except (ClientError, DefinitionsError, SystemRequestError, StorageError, OSError) as error:
        raise click.ClickException(str(error)) from error

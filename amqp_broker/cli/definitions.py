"""`amqp-broker definitions export|import`: all that is declared and configured, in RabbitMQ's JSON format.

Live through a running broker's own service (`--url`), or on the data folder of a stopped one (`--data-dir`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import click

from amqp_broker.client.address import parse_url
from amqp_broker.client.errors import ClientError
from amqp_broker.cluster.metadata import Metadata
from amqp_broker.definitions import DefinitionsError, export, plan_import
from amqp_broker.system_client import SystemClient, SystemRequestError
from storage.disk import FileDisk
from storage.errors import StorageError
from storage.folder_format import FORMAT_FILE
from storage.metadata_log import MetadataLog

DEFAULT_URL = "amqp://guest:guest@127.0.0.1:5672/%2F"


@click.group()
def definitions() -> None:
    """Export or import users, virtual hosts, permissions, policies, exchanges, queues and bindings."""


def _add_options(command: Callable[..., object]) -> Callable[..., object]:
    url = click.option(
        "--url", metavar="URL", help=f"A running broker; its user has to be an administrator. [{DEFAULT_URL}]"
    )
    folder = click.option("--data-dir", metavar="DIR", help="The data folder of a broker that is not running.")
    vhost = click.option("--vhost", metavar="NAME", help="Only what lives in this virtual host.")
    return url(folder(vhost(command)))


@definitions.command("export")
@click.argument("file", type=click.File("w", encoding="utf-8", lazy=True), default="-")
@_add_options
def export_command(file: IO[str], url: str | None, data_dir: str | None, vhost: str | None) -> None:
    """Write the definitions to FILE (standard output without one)."""
    with _told_in_one_line():
        found = _place(url, data_dir).export(vhost)
    json.dump(found, file, indent=2, sort_keys=True)
    file.write("\n")


@definitions.command("import")
@click.argument("file", type=click.File("r", encoding="utf-8"), default="-")
@_add_options
def import_command(file: IO[str], url: str | None, data_dir: str | None, vhost: str | None) -> None:
    """Take over the definitions in FILE (standard input without one). Nothing is deleted."""
    try:
        wanted = json.load(file)
    except ValueError as error:
        raise click.ClickException(f"{file.name}: not JSON ({error}); nothing was imported") from error
    with _told_in_one_line():
        count, notes = _place(url, data_dir).take_over(wanted, vhost)
    for note in notes:
        click.echo(f"note: {note}", err=True)
    click.echo(f"{count} changes made" if count else "nothing to change: all of it was there")


class RunningNode:
    """A broker that answers at a url."""

    def __init__(self, url: str) -> None:
        self._url = url

    def export(self, vhost: str | None) -> dict[str, Any]:
        fields = {} if vhost is None else {"vhost": vhost}
        return dict(self._request("definitions.export", fields)["definitions"])

    def take_over(self, wanted: object, vhost: str | None) -> tuple[int, list[str]]:
        fields = {"definitions": wanted} if vhost is None else {"definitions": wanted, "vhost": vhost}
        answer = self._request("definitions.import", fields)
        return int(answer["commands"]), list(answer["notes"])

    def _request(self, verb: str, fields: Mapping[str, object]) -> dict[str, Any]:
        with SystemClient(self._url) as client:
            return client.request(verb, **fields)


class StoppedNode:
    """The data folder of a broker that is not running; locked meanwhile."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def export(self, vhost: str | None) -> dict[str, Any]:
        with self._opened() as (metadata, _):
            return export(metadata, vhost)

    def take_over(self, wanted: object, vhost: str | None) -> tuple[int, list[str]]:
        with self._opened() as (metadata, log):
            plan = plan_import(wanted, metadata, os.urandom, vhost=vhost)
            for each in plan.commands:
                log.append(each)
            while (batch := log.take_batch()) is not None:
                batch.write_and_sync()
                log.batch_done(batch)
        return len(plan.commands), plan.notes

    @contextmanager
    def _opened(self) -> Iterator[tuple[Metadata, MetadataLog]]:
        if not (self._folder / FORMAT_FILE).is_file():
            raise click.ClickException(f"{self._folder}: no data folder of a broker; name one, or use --url")
        disk = FileDisk(self._folder)
        disk.lock()
        try:
            metadata, log = Metadata(), MetadataLog(disk)
            for command in log.recover():
                metadata.apply(command)
            yield metadata, log
        finally:
            disk.close()


def _place(url: str | None, data_dir: str | None) -> RunningNode | StoppedNode:
    if url is not None and data_dir is not None:
        raise click.UsageError(
            "--url and --data-dir exclude each other: name the running broker or the stopped one's folder"
        )
    if data_dir is not None:
        return StoppedNode(Path(data_dir))
    try:
        parse_url(url or DEFAULT_URL)
    except ValueError as error:
        raise click.UsageError(f"--url: {error}") from error
    return RunningNode(url or DEFAULT_URL)


@contextmanager
def _told_in_one_line() -> Iterator[None]:
    """Turns what may go wrong with a broker, a folder or a file into one line for the user."""
    try:
        yield
    except (ClientError, DefinitionsError, SystemRequestError, StorageError, OSError) as error:
        raise click.ClickException(str(error)) from error

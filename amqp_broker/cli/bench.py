"""`amqp-broker bench`: the scenario from flags, the run, its summary.

Exit status: 0 when everything went as asked, 1 when the run was cut short or a connection failed in it, 2
when it could not begin. Short flags are PerfTest's where it has them.
"""

from __future__ import annotations

import json

import click
from rich.console import Console

from amqp_broker.bench.link import LinkError
from amqp_broker.bench.load import run_load
from amqp_broker.bench.report import describe, progress_line, summary_lines, summary_table
from amqp_broker.bench.result import Progress
from amqp_broker.bench.scenario import EXCHANGE_TYPES, QUEUE_TYPES, Scenario, ScenarioError
from amqp_broker.bench.target import TargetError, parse_target
from amqp_broker.cli.tls_options import add_tls_options, explain, tls_context

STATUS_FAILED = 1
DEFAULT_URL = "amqp://guest:guest@127.0.0.1:5672"


def parse_arguments(texts: tuple[str, ...]) -> dict[str, object]:
    """Queue arguments from `name=value` texts: whole numbers and true/false become such, others stay text."""
    parsed: dict[str, object] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise click.UsageError(
                f"--queue-argument {text!r}; allowed: name=value, such as x-max-length=1000"
            )
        if value.lower() in ("true", "false"):
            parsed[name] = value.lower() == "true"
        else:
            parsed[name] = int(value) if value.lstrip("-").isdigit() else value
    return parsed


@click.command(context_settings={"show_default": True})
@click.option(
    "--url",
    "urls",
    multiple=True,
    metavar="URL",
    help=f"Broker; several (or with commas) take turns. [{DEFAULT_URL}]",
)
@add_tls_options
@click.option("--producers", "-x", default=1, help="Connections that publish.")
@click.option("--consumers", "-y", default=1, help="Connections that consume.")
@click.option("--queues", default=1, help="Queues, spread over producers and consumers.")
@click.option(
    "--queue",
    "-u",
    default="bench",
    help="Name (prefix) of the queues; names not in bench* are used as they are and kept.",
)
@click.option("--queue-type", type=click.Choice(QUEUE_TYPES), default="classic", help="Kind of queue.")
@click.option(
    "--queue-argument",
    "arguments",
    multiple=True,
    metavar="NAME=VALUE",
    help="Argument of queue.declare.",
)
@click.option(
    "--durable/--transient",
    "-d",
    "durable",
    default=False,
    help="Declare the queues durable (quorum queues always are).",
)
@click.option(
    "--exchange-type",
    "-t",
    type=click.Choice(EXCHANGE_TYPES),
    default="default",
    help="Where messages are published.",
)
@click.option(
    "--exchange", "-e", default="bench-exchange", help="Name of the exchange, unless it is the default one."
)
@click.option("--bindings", default=1, help="Bindings of the exchange, each used in turn.")
@click.option(
    "--size", "-s", default=128, help="Octets of a message body; from 8 on, latencies are measured."
)
@click.option("--persistent", "-p", is_flag=True, help="Publish persistent messages.")
@click.option("--batch", default=64, help="Messages written at once; one where they are larger than 16 KiB.")
@click.option(
    "--confirm",
    "-c",
    "confirm_window",
    default=0,
    help="Publisher confirms, with so many outstanding; 0 for none.",
)
@click.option(
    "--rate", "-r", default=0.0, help="Messages per second of all producers together; 0 for no limit."
)
@click.option("--auto-ack", "-a", is_flag=True, help="Consume without acknowledgements.")
@click.option("--ack-every", "-A", default=1, help="Acknowledge so many messages at a time.")
@click.option("--prefetch", "-q", default=1000, help="Prefetch count of each consumer; 0 for no limit.")
@click.option(
    "--messages",
    "-C",
    default=0,
    help="Publish (or, without producers, consume) so many in all; 0: the time decides.",
)
@click.option(
    "--time",
    "-z",
    "seconds",
    default=None,
    type=float,
    help="Seconds to measure. [10; no limit with --messages]",
)
@click.option("--warm-up", "-w", default=1.0, help="Seconds before measuring; none with --messages.")
@click.option("--keep", is_flag=True, help="Neither delete nor recreate queues and exchange.")
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="One JSON object on standard output; progress goes to standard error.",
)
@click.option("--quiet", is_flag=True, help="No progress lines.")
def bench(
    urls: tuple[str, ...],
    arguments: tuple[str, ...],
    seconds: float | None,
    as_json: bool,
    quiet: bool,
    **values: object,
) -> int:
    """Load an AMQP 0-9-1 broker and measure it.

    For example, confirms and acknowledgements in batches, for 30 seconds:

      amqp-broker bench --confirm 1000 --ack-every 100 --time 30
    """
    try:
        every = [url for text in urls or (DEFAULT_URL,) for url in text.split(",")]
        targets = tuple(parse_target(url, tls_context(url)) for url in every)
        if seconds is None:
            seconds = 0.0 if values["messages"] else 10.0
        scenario = Scenario(
            targets=targets,
            queue_arguments=parse_arguments(arguments),
            seconds=seconds,
            **values,  # type: ignore[arg-type]
        )
    except (ScenarioError, TargetError) as error:
        raise click.UsageError(str(error)) from error

    def show(progress: Progress) -> None:
        click.echo(progress_line(progress, scenario), err=as_json)

    click.echo(describe(scenario), err=as_json)
    try:
        result = run_load(scenario, None if quiet else show)
    except LinkError as error:
        raise click.ClickException(explain(error, every[0])) from error
    if as_json:
        click.echo(json.dumps(result.as_json()))
    else:
        Console().print(summary_table(result))
        for line in summary_lines(result):
            click.echo(line)
    return STATUS_FAILED if result.problems or not result.is_complete else 0

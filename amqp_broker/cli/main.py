"""The command amqp-broker: finds the subcommand, and turns every expected failure into one line and status 2, or
the status that it says.

What was asked for and cannot be printed is a failure too, status 74 (EX_IOERR of sysexits.h): whoever reads the output
would otherwise take half of it for the whole.

Subcommands are loaded by name, so that `amqp-broker serve` never pays for the load generator or the
inspector. A subcommand that cannot do what it was asked raises click.ClickException; nothing else is caught
here, so that a defect of ours shows its traceback.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TextIO, cast

import click

from amqp_broker import __version__, plain
from amqp_broker.cli.failed import Failed
from amqp_broker.cli.importing import without_collector
from amqp_broker.cli.standard_output import WatchedOutput, abandon, hold_standard_descriptors
from amqp_broker.settings.setting import ConfigError

_ADMIN = "amqp_broker.cli.admin"
COMMANDS = {
    "bench": "amqp_broker.cli.bench:bench",
    "binding": f"{_ADMIN}.bindings:binding",
    "cluster": "amqp_broker.cli.cluster:cluster",
    "connection": f"{_ADMIN}.connections:connection",
    "consumer": f"{_ADMIN}.consumers:consumer",
    "config": "amqp_broker.cli.config:config",
    "definitions": "amqp_broker.cli.definitions:definitions",
    "drain": "amqp_broker.cli.drain:drain",
    "exchange": f"{_ADMIN}.exchanges:exchange",
    "global-parameter": f"{_ADMIN}.global_parameters:global_parameter",
    "health": f"{_ADMIN}.health:health",
    "inspect": "amqp_broker.cli.inspect:inspect",
    "limit": f"{_ADMIN}.limits:limit",
    "list": f"{_ADMIN}.listing:list_group",
    "management": "amqp_broker.cli.management:management",
    "node": f"{_ADMIN}.nodes:node",
    "parameter": f"{_ADMIN}.parameters:parameter",
    "permission": f"{_ADMIN}.permissions:permission",
    "policy": f"{_ADMIN}.policies:policy",
    "queue": f"{_ADMIN}.queues:queue",
    "route": f"{_ADMIN}.route:route",
    "serve": "amqp_broker.cli.serve:serve",
    "size": "amqp_broker.cli.size:size",
    "status": f"{_ADMIN}.status:status",
    "stream": f"{_ADMIN}.streams:stream",
    "tail": f"{_ADMIN}.taps:tail",
    "top": f"{_ADMIN}.top:top",
    "topic-permission": f"{_ADMIN}.topic_permissions:topic_permission",
    "trace": f"{_ADMIN}.taps:trace",
    "user": f"{_ADMIN}.users:user",
    "vhost": f"{_ADMIN}.vhosts:vhost",
}
STATUS_USAGE = 2
STATUS_OUTPUT = os.EX_IOERR


class LazyGroup(click.Group):
    """A group whose commands are imported when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        target = COMMANDS.get(cmd_name)
        if target is None:
            return None
        module, _, attribute = target.partition(":")
        with without_collector():
            command = getattr(import_module(module), attribute)
        if not isinstance(command, click.Command):
            raise TypeError(f"{target} is {command!r}, not a click command")
        return command


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, message="amqp-broker %(version)s")
def command() -> None:
    """A message broker that speaks AMQP 0-9-1."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command with these arguments (the process's, without any) and returns the exit status."""
    hold_standard_descriptors()
    plain.pin_packages()
    output = sys.stdout
    watched = WatchedOutput(output)
    sys.stdout = cast("TextIO", watched)
    try:
        status = _run(arguments)
        watched.flush()
    except (OSError, SystemExit):  # the latter is what click makes of a pipe that nobody reads
        if watched.failure is None:
            raise
    finally:
        sys.stdout = output
    if watched.failure is None:
        return status
    abandon(output)
    refuse(f"amqp-broker: standard output cannot be written: {watched.failure.strerror}")
    return STATUS_OUTPUT


def _run(arguments: Sequence[str] | None) -> int:
    try:
        status = command.main(args=arguments, prog_name="amqp-broker", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return STATUS_USAGE
    except Failed as error:
        return refuse(f"amqp-broker: {error.format_message()}", error.exit_code)
    except click.ClickException as error:
        where = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else "amqp-broker"
        return refuse(f"{where}: {error.format_message()}")
    except ConfigError as error:
        return refuse(f"amqp-broker: {error}")
    except click.Abort:
        return refuse("amqp-broker: interrupted")
    return status if isinstance(status, int) else 0


def refuse(text: str, status: int = STATUS_USAGE) -> int:
    """Prints one line on standard error; returns the status, which is that of a command that could not begin."""
    print(" ".join(text.split()), file=sys.stderr)
    return status

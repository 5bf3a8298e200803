"""Writes docs/man/amqp-broker.1 from the command itself: `python -m tests.docs.man_page`.

What it says is what `--help` says: a command, an option, a default is changed there.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import click

from amqp_broker.cli.main import command
from amqp_broker.version import __version__
from tests.docs.source_names import DOCS

PAGE = DOCS / "man" / "amqp-broker.1"

_BEGIN = """\
.\\" Made from the command by `make docs`; changes belong there.
.TH AMQP\\-BROKER 1 "" "amqp\\-broker {version}" "User Commands"
.SH NAME
amqp\\-broker \\- a message broker that speaks AMQP 0\\-9\\-1, and its administration
.SH SYNOPSIS
.B amqp\\-broker
.I COMMAND
[\\fIOPTION\\fR]... [\\fIARGUMENT\\fR]...
.SH DESCRIPTION
{description}
.SH EXIT STATUS
0: done. 1: it cannot be done, and a line on standard error says why. 2: the command line is wrong, or a command that is
not about administration could not begin. 74: standard output cannot be written.
.SH ENVIRONMENT
.TP
.B AMQP_BROKER_MANAGEMENT_URL
The broker and who asks, for administration without
.BR \\-\\-url .
.TP
.B AMQP_BROKER_*
The settings of
.BR "amqp\\-broker serve" ,
each under its name in capitals.
.SH COMMANDS
"""


def escaped(text: str) -> str:
    """Text as roff prints it."""
    found = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{found}" if found.startswith((".", "'")) else found


def leaves(group: click.Group, context: click.Context) -> Iterator[tuple[click.Command, click.Context]]:
    """Each command that does something, in the order of names."""
    for name in sorted(group.list_commands(context)):
        found = group.get_command(context, name)
        assert found is not None, f"{context.command_path} lists {name} and does not have it"
        if found.hidden:
            continue
        inner = click.Context(found, context, name)
        if isinstance(found, click.Group):
            yield from leaves(found, inner)
        else:
            yield found, inner


def section(leaf: click.Command, context: click.Context) -> Iterator[str]:
    """What is said of one command."""
    usage = " ".join(leaf.collect_usage_pieces(context))
    yield f".SS {escaped(context.command_path)} {escaped(usage)}"
    for number, paragraph in enumerate((leaf.help or "").strip().split("\n\n")):
        if number:
            yield ".PP"
        yield escaped(" ".join(paragraph.replace("\b", "").split()))
    for parameter in leaf.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None and "--help" not in parameter.opts:
            yield ".TP"
            yield f".B {escaped(record[0])}"
            yield escaped(" ".join(record[1].split())) or "\\&"


def page() -> str:
    """The whole of it."""
    context = click.Context(command, info_name="amqp-broker")
    lines = [line for leaf, inner in leaves(command, context) for line in section(leaf, inner)]
    begin = _BEGIN.format(version=escaped(__version__), description=escaped(command.help or ""))
    return begin + "\n".join(lines) + "\n"


def main() -> None:
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(), encoding="utf-8")
    sys.stdout.write(f"wrote {PAGE.name}\n")


if __name__ == "__main__":
    main()

"""Failed: a command was understood, and what it asked for cannot be: one line, and exit status 1."""

from __future__ import annotations

import click

from amqp_broker.cli.cells import shown


class Failed(click.ClickException):
    """The text names the thing, the value and the way out."""

    exit_code = 1

    def __init__(self, text: str) -> None:
        super().__init__(shown(text))

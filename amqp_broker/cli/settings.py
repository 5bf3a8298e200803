"""The flags of Config for click commands: `--config FILE` and one flag for each setting.

A flag's text stays text here; parsing and precedence are those of `amqp_broker.settings.sources`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import click

from amqp_broker.settings.config import SETTINGS
from amqp_broker.settings.kinds import BOOLEAN
from amqp_broker.settings.setting import Setting
from amqp_broker.settings.sources import Resolved, resolve


def add_setting_flags(command: Callable[..., object]) -> Callable[..., object]:
    """A decorator: gives the command every flag of Config, as keyword arguments for `resolve_flags`."""
    for each in reversed(SETTINGS):
        command = _flag(each)(command)
    file = click.option("--config", "config_file", metavar="FILE", help="A TOML file with any of these settings.")
    return file(command)


def resolve_flags(config_file: str | None, values: Mapping[str, object]) -> Resolved:
    """The effective settings from a command's keyword arguments and the process's environment.

    Raises ConfigError.
    """
    flags = {key: _text(value) for key, value in values.items() if value is not None and value != ()}
    return resolve(flags, os.environ, Path(config_file) if config_file else None)


def _flag(each: Setting) -> Callable[[Callable[..., object]], Callable[..., object]]:
    if each.kind is BOOLEAN:
        # `--recover` alone means true, `--recover=false` overrules a file.
        return click.option(
            each.flag,
            each.key,
            is_flag=False,
            flag_value="true",
            default=None,
            metavar="[BOOL]",
            help=_help(each),
            hidden=each.is_hidden,
        )
    return click.option(
        each.flag,
        each.key,
        default=None,
        multiple=each.kind.is_list,
        metavar="|".join(each.choices) or each.kind.metavar,
        help=_help(each),
        hidden=each.is_hidden,
    )


def _help(each: Setting) -> str:
    default = each.default_text
    return f"{each.doc} [{default}]" if default else each.doc


def _text(value: object) -> str:
    return ",".join(value) if isinstance(value, tuple) else str(value)

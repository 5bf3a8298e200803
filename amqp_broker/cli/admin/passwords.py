"""How a command is given a password: prompt, file or standard input; never an argument, which others see."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click

from amqp_broker.cli.failed import Failed

C = TypeVar("C", bound=Callable[..., object])


def add_password_options(command: C) -> C:
    """Give a command --password-stdin and --password-file, for `read_password`."""
    stdin = click.option("--password-stdin", is_flag=True, help="Read the password from standard input.")
    file = click.option("--password-file", metavar="FILE", help="Read the password from a file.")
    return stdin(file(command))


def read_password(user: str, password_stdin: bool, password_file: str | None, *, is_new: bool = True) -> str:
    """Without the line's end; asked for twice where it is a new one. Raises click's exceptions."""
    if password_stdin and password_file is not None:
        raise click.UsageError("--password-stdin and --password-file exclude each other: name one of them")
    if password_stdin:
        password = _without_end(sys.stdin.buffer.read(), "standard input")
    elif password_file is not None:
        try:
            password = _without_end(Path(password_file).read_bytes(), password_file)
        except OSError as error:
            raise Failed(f"{password_file} cannot be read: {error.strerror}; name another --password-file") from error
    elif sys.stdin.isatty():
        prompt = f"Password of {user}"
        password = click.prompt(prompt, hide_input=True, confirmation_prompt=is_new, err=True)
    else:
        raise click.UsageError("no terminal to ask for the password: use --password-stdin or --password-file FILE")
    if not password:
        raise Failed(f"the password for user '{user}' is empty, with which nobody gets in; give another")
    return password


def _without_end(octets: bytes, place: str) -> str:
    try:
        return octets.decode("utf-8").removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError as error:
        raise Failed(f"the password in {place} is no UTF-8 ({error.reason}); write it in UTF-8") from error

"""A foreign command line program for the HTTP API, and a table of what each of its commands has to do.

What it prints is not believed: the API is asked afterwards, in requests of its own.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from string import Template
from typing import Any, NamedTuple, TypeAlias

import pytest

from amqp_broker.client import Connection
from amqp_broker.client.errors import ConnectionClosed
from amqp_broker.testing.embedded import RunningBroker
from interop_tests.http_api import HttpApi, has

TIMEOUT_S = 60


class Ended(NamedTuple):
    """status, output, errors: how a command ended, and what it wrote where."""

    status: int
    output: str
    errors: str


class AdminProgram:
    """The program with the options that lead it to a broker.

    In the words of a command `$node`, `$port`, `$folder` and what else is in `values` are replaced.
    """

    def __init__(self, command: Iterable[str], broker: RunningBroker, folder: Path) -> None:
        self._command = list(command)
        self.broker = broker
        self.folder = folder
        self.api = HttpApi(broker.management_url)
        self.values = {"node": self.api("/overview")["node"], "port": str(broker.port), "folder": str(folder)}

    def ended(self, words: str, stdin: str = "") -> Ended:
        command = [*self._command, *shlex.split(Template(words).safe_substitute(self.values))]
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(self.folder)}
        done = subprocess.run(
            command, input=stdin, capture_output=True, text=True, timeout=TIMEOUT_S, env=environment, cwd=self.folder
        )
        return Ended(done.returncode, done.stdout, done.stderr)

    def __call__(self, words: str, stdin: str = "") -> str:
        """What it prints; it has to succeed."""
        ended = self.ended(words, stdin)
        assert ended.status == 0, (words, ended)
        return ended.output

    def refused(self, words: str, *parts: str) -> None:
        """It has to fail, with these parts in what it says."""
        assert all(parts), f"nothing is expected of {words}"
        ended = self.ended(words)
        assert ended.status != 0, (words, ended)
        assert_says(ended.output + ended.errors, *parts)

    @contextmanager
    def closing_one_of(self, user: str) -> Iterator[None]:
        """A new user has a connection, `$connection`; afterwards it has to be closed, with 320."""
        self.api(f"/users/{user}", "PUT", {"password": user, "tags": ""})
        self.api(f"/permissions/%2F/{user}", "PUT", {"configure": ".*", "write": ".*", "read": ".*"})
        connection = Connection.open(self.broker.url.replace("guest:guest@", f"{user}:{user}@"))
        try:
            (found,) = self.api(f"/connections/username/{user}")
            self.values["connection"] = found["name"]
            yield
            with pytest.raises(ConnectionClosed) as closed:
                connection.channel()
            assert closed.value.reply_code == 320
        finally:
            connection.abort()


def assert_says(text: str, *parts: str) -> None:
    missing = [part for part in parts if part not in text]
    assert not missing, f"{missing} not in:\n{text}"


class Case(NamedTuple):
    """One command.

    before: what the API is asked first, as (method, path, body).
    says: in what the program prints, replaced as its words are; several spaces, as of columns, count as one.
    then: path of the API -> what has to be in its answer; None: it is not there.
    """

    words: str
    before: tuple[tuple[str, str, Any], ...] = ()
    says: tuple[str, ...] = ()
    then: Mapping[str, Any] = {}
    stdin: str = ""

    def check(self, program: AdminProgram) -> None:
        for method, path, body in self.before:
            program.api(path, method, body)
        assert self.says or self.then, f"nothing is expected of {self.words}"
        said = re.sub(" +", " ", program(self.words, self.stdin))
        assert_says(said, *(Template(part).safe_substitute(program.values) for part in self.says))
        for path, expected in self.then.items():
            found = program.api(Template(path).safe_substitute(program.values))
            assert has(found, expected), (self.words, path, found, expected)


#: A command as the program's own help names it -> how it is checked.
Checks: TypeAlias = dict[str, Callable[[AdminProgram], None]]


def checked_by(checks: Checks, command: str) -> Callable[[Callable[[AdminProgram], None]], None]:
    """Puts a function into the table."""

    def put(function: Callable[[AdminProgram], None]) -> None:
        checks[command] = function

    return put

"""One broker for the commands of administrators, and a way to call them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

import amqp_broker
from amqp_broker import RunningBroker
from amqp_broker.cli.main import main


@pytest.fixture(scope="session")
def broker() -> Iterator[RunningBroker]:
    with amqp_broker.running(node_name="solo") as made:
        yield made


class Command:
    """Calls `amqp-broker`; says what it has printed, and fails where the exit status is another than expected."""

    def __init__(self, capsys: pytest.CaptureFixture[str], url: str) -> None:
        self._capsys = capsys
        self.url = url

    def call(self, *arguments: str) -> tuple[int, str, str]:
        self._capsys.readouterr()
        status = main([*arguments, "--url", self.url])
        captured = self._capsys.readouterr()
        return status, captured.out, captured.err

    def out(self, *arguments: str) -> str:
        status, out, err = self.call(*arguments)
        assert (status, err) == (0, ""), arguments
        return out

    def rows(self, *arguments: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.out("list", *arguments, "--json"))
        return found

    def refusal(self, *arguments: str, status: int = 1) -> str:
        """The one line of a refusal."""
        found, out, err = self.call(*arguments)
        assert (found, out, err.count("\n")) == (status, "", 1), (arguments, out, err)
        return err


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], broker: RunningBroker) -> Command:
    return Command(capsys, broker.url)

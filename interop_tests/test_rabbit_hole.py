"""Go's rabbit-hole, a client of RabbitMQ's HTTP API: clients/rabbit_hole, one test for each of its checks."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import amqp_broker
from amqp_broker.client import Connection
from amqp_broker.protocol import methods as m

SOURCE = Path(__file__).parent / "clients" / "rabbit_hole"
#: One worker builds the program for all.
pytestmark = pytest.mark.xdist_group("rabbit-hole")
CHECKS = [
    "overview", "declared", "users", "vhosts", "policies", "parameters", "connections", "definitions", "health",
    "declarative",
]  # fmt: skip
BUILD_TIMEOUT_S = 600
TIMEOUT_S = 60


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checks, built once."""
    if shutil.which("go") is None:
        pytest.skip("go is not installed: these tests build a program with rabbit-hole")
    path = tmp_path_factory.mktemp("rabbit-hole") / "checks"
    command = ["go", "build", "-o", str(path), "."]
    done = subprocess.run(command, cwd=SOURCE, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S)
    assert done.returncode == 0, f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}"
    return path


@pytest.fixture(scope="module")
def api() -> Iterator[str]:
    """Of a broker with a client that consumes."""
    with amqp_broker.running(management=True) as running, Connection.open(running.url) as connection:
        channel = connection.channel()
        channel.call(m.QueueDeclare(queue="held", durable=True))
        channel.consume("held")
        yield running.management_url.rstrip("/")


@pytest.mark.parametrize("check", CHECKS)
def test_rabbit_hole(program: Path, api: str, check: str) -> None:
    """What it cannot decode, and what the check expects and does not find, it says on stderr."""
    done = subprocess.run([str(program), api, check], capture_output=True, text=True, timeout=TIMEOUT_S)
    assert done.returncode == 0, done.stderr


def test_every_check_is_run() -> None:
    """A check that is added to the program must be added here."""
    table = (SOURCE / "main.go").read_text().partition("= map[string]check{")[2].partition("\n}")[0]
    assert re.findall(r'"(\w+)":', table) == CHECKS

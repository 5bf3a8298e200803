"""Go's amqp091-go at work: clients/go, one test for each of its checks."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent / "clients" / "go"
#: One worker builds the program for all.
pytestmark = pytest.mark.xdist_group("go")
CHECKS = [
    "confirms", "returns", "nacks", "workers", "prefetch", "rpc", "exchanges", "deadLetters", "channelErrors",
    "connectionErrors", "cancelNotification", "headers", "largeBody", "heartbeats", "transactions", "secret",
    "amqplain", "requeue", "closes",
]  # fmt: skip


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checks, built once."""
    if shutil.which("go") is None:
        pytest.skip("go is not installed: these tests build a program with amqp091-go")
    path = tmp_path_factory.mktemp("go") / "checks"
    command = ["go", "build", "-o", str(path), "."]
    done = subprocess.run(command, cwd=SOURCE, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}"
    return path


@pytest.mark.parametrize("check", CHECKS)
def test_go_client(program: Path, url: str, check: str) -> None:
    """The check's own expectations speak on stderr."""
    done = subprocess.run([str(program), url, check], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_every_check_is_run() -> None:
    """A check that is added to the program must be added here."""
    table = (SOURCE / "main.go").read_text().partition("= map[string]check{")[2].partition("\n}")[0]
    assert re.findall(r'"(\w+)":', table) == CHECKS

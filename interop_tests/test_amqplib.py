"""node's amqplib at work: clients/node/checks.mjs, one test for each of its checks."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent / "clients" / "node"
CHECKS = [
    "confirms", "returns", "nacks", "workers", "prefetch", "rpc", "exchanges", "deadLetters", "errors",
    "connectionErrors", "cancelNotification", "headers", "largeBody", "heartbeats", "secret",
]  # fmt: skip


@pytest.fixture(scope="session")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the checks and amqplib installed beside them."""
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed: these tests run a script of node's amqplib")
    folder = tmp_path_factory.mktemp("amqplib")
    for file in SOURCE.iterdir():
        shutil.copy(file, folder)
    command = ["npm", "install", "--no-audit", "--no-fund", "--loglevel=error"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}"
    return folder


@pytest.mark.parametrize("check", CHECKS)
def test_amqplib(scripts: Path, url: str, check: str) -> None:
    """The check's own assertions speak on stderr."""
    command = ["node", "checks.mjs", url, check]
    done = subprocess.run(command, cwd=scripts, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_every_check_is_run() -> None:
    """A check that is added to the script must be added here."""
    script = (SOURCE / "checks.mjs").read_text()
    written = [line.split("async ")[1].split("(")[0] for line in script.splitlines() if line.startswith("  async ")]
    assert [check for check in written if check != "first"] == CHECKS

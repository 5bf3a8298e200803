"""A program with RabbitMQ's Java client, built by Maven from a folder of `clients/`, once for a test run."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

CLIENTS = Path(__file__).parent / "clients"
#: Programs that run for seconds: what the better compiler would do for them takes longer than it gains.
QUICK = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")

#: (folder of `clients/`, main class) -> the command that runs it.
JavaProgram = Callable[[str, str], list[str]]


def build(source: str, folder: Path) -> Path:
    """Build it in a new folder. Returns where it is. Skips the test where there is no Java."""
    for program in ("java", "mvn"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed: these tests run Java programs of RabbitMQ's")
    shutil.copytree(CLIENTS / source, folder, ignore=shutil.ignore_patterns("target"))
    command = ["mvn", "--quiet", "--batch-mode", "package"]
    variables = {**os.environ, "MAVEN_OPTS": " ".join([os.environ.get("MAVEN_OPTS", ""), *QUICK])}
    done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}"
    return folder / "target"

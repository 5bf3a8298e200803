"""The Java client at work: clients/java, one test for each of its checks; its automatic recovery over a cut
line.
"""

from __future__ import annotations

import re
import subprocess

import pytest

from interop_tests.cut_line import CutLine
from interop_tests.java_program import CLIENTS, JavaProgram

CHECKS = [
    "confirms", "returns", "nacks", "workers", "rpc", "channelErrors", "connectionErrors", "cancelNotification",
    "headers", "largeBody", "transactions", "heartbeats",
]  # fmt: skip

#: The program is compiled once for all of them.
pytestmark = pytest.mark.xdist_group("java")


@pytest.fixture(scope="session")
def command(java_program: JavaProgram) -> list[str]:
    """The command that runs a check, compiled once."""
    return java_program("java", "Checks")


def _java_url(url: str) -> str:
    """To this client a path of nothing but a slash is the vhost without a name."""
    return url.removesuffix("/")


@pytest.mark.parametrize("check", CHECKS)
def test_java_client(command: list[str], url: str, check: str) -> None:
    """The check's own expectations speak on stderr."""
    done = subprocess.run([*command, _java_url(url), check], capture_output=True, text=True, timeout=90)
    assert done.returncode == 0, done.stderr


def test_java_recovers_over_a_cut_line(command: list[str], line: CutLine) -> None:
    """Exchange, server-named queue, binding and consumer are restored by the client."""
    arguments = [*command, _java_url(line.url), "recovery"]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "consuming\n"
    assert line.cut() == 1
    _out, err = process.communicate(timeout=90)
    assert process.returncode == 0, err


def test_every_check_is_run() -> None:
    """A check that is added to the program must be added here."""
    source = (CLIENTS / "java" / "src" / "main" / "java" / "Checks.java").read_text()
    assert [name for name in re.findall(r"^  void (\w+)\(\)", source, re.MULTILINE) if name != "recovery"] == CHECKS

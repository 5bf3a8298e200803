"""RabbitMQ's own load generator, PerfTest, at work: each run publishes so many messages and takes as many."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable

import pytest

from interop_tests.java_program import JavaProgram

MESSAGES = 5000
#: What is asked for, beside the number of messages of each producer and consumer.
RUNS = {
    "automatic acks": ["--autoack"],
    "small bodies, several publishers": ["--producers", "3", "--autoack", "--size", "10", "--qos", "100"],
    "persistent, confirms": ["--flag", "persistent", "--confirm", "100", "--qos", "100", "--multi-ack-every", "10"],
    "mandatory, a topic exchange": ["--type", "topic", "--flag", "mandatory", "--routing-key", "a.b", "--qos", "50"],
    "a quorum queue": ["--quorum-queue", "--confirm", "100", "--qos", "100"],
    "transactions": ["--ptxsize", "10", "--ctxsize", "10", "--qos", "100"],
    "large bodies": ["--size", "200000", "--confirm", "20", "--qos", "20"],
    "polling": ["--polling", "--autoack"],
    "a rate": ["--rate", "2000", "--qos", "100"],
}

#: The jars are fetched once for all of them.
pytestmark = pytest.mark.xdist_group("java")


@pytest.fixture(scope="session")
def command(java_program: JavaProgram) -> list[str]:
    """The command that runs PerfTest."""
    return java_program("perf-test", "com.rabbitmq.perf.PerfTest")


@pytest.mark.parametrize("run", RUNS)
def test_perf_test(command: list[str], url: str, named: Callable[[str], str], run: str) -> None:
    """Nothing is lost, refused or closed, and PerfTest ends by itself."""
    flags = RUNS[run]
    messages = MESSAGES // 10 if "large" in run else MESSAGES
    amounts = ["--pmessages", str(messages), "--cmessages", str(messages)]
    queue = ["--queue", named("perf"), "--auto-delete", "false"]
    done = subprocess.run(
        [*command, "--uri", url.removesuffix("/"), *amounts, *queue, *flags],
        capture_output=True, text=True, timeout=180,
    )  # fmt: skip
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert "Producer reached message limit" in said, said
    assert "Consumer reached message limit" in said, said
    assert not re.search(r"nacked: [1-9]|returned: [1-9]|Exception", said), said

"""Debian's amqp-tools (rabbitmq-c) at work in a shell's way: declare, publish, get, consume, delete."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Named = Callable[[str], str]


@pytest.fixture(autouse=True)
def _needs_the_tools() -> None:
    for tool in ("amqp-declare-queue", "amqp-publish", "amqp-get", "amqp-consume", "amqp-delete-queue"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed: apt install amqp-tools")


def _run(url: str, tool: str, *arguments: str, octets: bytes = b"", status: int = 0) -> bytes:
    command = [tool, "--url", url, *arguments]
    done = subprocess.run(command, input=octets, capture_output=True, timeout=60)
    assert done.returncode == status, f"{command} ended with {done.returncode}: {done.stdout!r} {done.stderr!r}"
    return done.stdout


@pytest.fixture
def queue(url: str, named: Named) -> str:
    name = named("queue")
    assert _run(url, "amqp-declare-queue", "-d", "-q", name).decode().strip() == name
    return name


def test_declare_publish_get_delete(url: str, queue: str) -> None:
    """Bodies from the command line and from standard input; an empty queue is status 2."""
    _run(url, "amqp-publish", "-r", queue, "-p", "-C", "text/plain", "-b", "from the command line")
    _run(url, "amqp-publish", "-r", queue, octets=b"from standard input")
    assert _run(url, "amqp-get", "-q", queue) == b"from the command line"
    assert _run(url, "amqp-get", "-q", queue) == b"from standard input"
    assert _run(url, "amqp-get", "-q", queue, status=2) == b""
    _run(url, "amqp-publish", "-r", queue, "-b", "left")
    assert _run(url, "amqp-delete-queue", "-q", queue).decode().strip() == "1"


def test_a_binary_body_of_two_megabytes(url: str, queue: str) -> None:
    """Octet by octet."""
    body = bytes(range(256)) * 8192
    _run(url, "amqp-publish", "-r", queue, "-p", octets=body)
    assert _run(url, "amqp-get", "-q", queue) == body
    _run(url, "amqp-delete-queue", "-q", queue)


def test_lines_become_messages_and_a_command_takes_each(url: str, queue: str) -> None:
    """Each message is one run of the command, acknowledged when it succeeds."""
    lines = b"".join(b"line %d\n" % index for index in range(20))
    _run(url, "amqp-publish", "-r", queue, "-l", octets=lines)
    assert _run(url, "amqp-consume", "-q", queue, "-c", "20", "-p", "1", "cat") == lines
    assert _run(url, "amqp-delete-queue", "-q", queue).decode().strip() == "0"


def test_a_failing_command_loses_nothing(url: str, queue: str, tmp_path: Path) -> None:
    """amqp-consume acknowledges only what its command could do, and ends when it cannot; the next one gets
    the message.
    """
    _run(url, "amqp-publish", "-r", queue, "-b", "twice")
    # it reads what it is given before it fails: else the tool may die of a broken pipe
    script = tmp_path / "read-and-fail"
    script.write_text("cat > /dev/null\nexit 1\n")
    _run(url, "amqp-consume", "-q", queue, "-c", "1", "sh", str(script))
    assert _run(url, "amqp-consume", "-q", queue, "-c", "1", "cat") == b"twice"
    assert _run(url, "amqp-delete-queue", "-q", queue).decode().strip() == "0"


def test_a_consumer_with_a_queue_of_its_own(url: str, named: Named) -> None:
    """An exclusive queue bound to amq.topic: started first, fed then, ends after three messages."""
    prefix = named("prefix")
    command = [
        "amqp-consume",
        "--url",
        url,
        "-e",
        "amq.topic",
        "-r",
        f"{prefix}.#",
        "-x",
        "-A",
        "-c",
        "3",
        "cat",
    ]
    consumer = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert consumer.stderr is not None
    # it says which queue the server gave it before it binds; a queue of our own tells when the binding is
    # there
    assert b"amq.gen-" in consumer.stderr.readline()
    while consumer.poll() is None:
        for index in range(3):
            _run(url, "amqp-publish", "-e", "amq.topic", "-r", f"{prefix}.{index}", "-b", "m")
    out, err = consumer.communicate(timeout=60)
    assert (consumer.returncode, out) == (0, b"mmm"), err


def test_a_wrong_password_is_told(url: str) -> None:
    """With the broker's text."""
    wrong = url.replace("guest:guest@", "guest:wrong@")
    done = subprocess.run(["amqp-get", "--url", wrong, "-q", "any"], capture_output=True, timeout=60)
    assert done.returncode != 0
    assert b"ACCESS_REFUSED" in done.stderr


def test_a_missing_queue_is_told(url: str, named: Named) -> None:
    """404 with the name."""
    name = named("missing")
    done = subprocess.run(["amqp-get", "--url", url, "-q", name], capture_output=True, timeout=60)
    assert done.returncode != 0
    assert f"NOT_FOUND - no queue '{name}'".encode() in done.stderr

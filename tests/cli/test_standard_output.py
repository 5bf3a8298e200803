"""Standard output that cannot be written: every command says so, and none takes it for a fault of what it works on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import amqp_broker
from tests.cli.test_serve_command import TIMEOUT_S, command, connect, environment

STATUS = 74
COMMANDS = (
    (),
    ("--help",),
    ("--version",),
    ("bench", "--help"),
    ("bench", "--time", "0.2", "--warm-up", "0", "--url", "URL"),
    ("cluster", "status", "--url", "URL"),
    ("config",),
    ("config", "--json"),
    ("definitions", "export", "--url", "URL"),
    ("inspect", "FOLDER"),
)


@pytest.fixture(scope="module")
def broker() -> Iterator[amqp_broker.RunningBroker]:
    with amqp_broker.running() as broker:
        yield broker


def run(
    broker: amqp_broker.RunningBroker, arguments: tuple[str, ...], output: int, **more: str
) -> subprocess.CompletedProcess[str]:
    known = {"URL": broker.url, "FOLDER": str(broker.data_dir)}
    line = [sys.executable, "-P", "-m", "amqp_broker", *(known.get(each, each) for each in arguments)]
    return subprocess.run(
        line, env=environment() | more, stdout=output, stderr=subprocess.PIPE, text=True, timeout=TIMEOUT_S
    )


def pipe_that_nobody_reads() -> int:
    reading, writing = os.pipe()
    os.close(reading)
    return writing


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
@pytest.mark.parametrize(
    ("where", "why", "unbuffered"),
    [("full", "No space left on device", "1"), ("full", "No space left on device", ""), ("pipe", "Broken pipe", "")],
    ids=["full-at-once", "full", "pipe"],
)
def test_it_is_said(
    where: str, why: str, unbuffered: str, arguments: tuple[str, ...], broker: amqp_broker.RunningBroker
) -> None:
    output = os.open("/dev/full", os.O_WRONLY) if where == "full" else pipe_that_nobody_reads()
    try:
        done = run(broker, arguments, output, PYTHONUNBUFFERED=unbuffered)
    finally:
        os.close(output)
    assert done.returncode == STATUS, done.stderr
    assert done.stderr == f"amqp-broker: standard output cannot be written: {why}\n"


@pytest.mark.parametrize("where", ["full", "pipe", "closed"])
def test_a_broker_serves_all_the_same(where: str, tmp_path: Path) -> None:
    flags = ["--listen", "127.0.0.1:0", "--data-dir", str(tmp_path)]
    line = command(*flags)
    output = os.open("/dev/full", os.O_WRONLY) if where != "pipe" else pipe_that_nobody_reads()
    if where == "closed":
        line = ["sh", "-c", 'exec "$@" >&-', "sh", *line]
    process = subprocess.Popen(line, env=environment(), stdout=output, stderr=subprocess.PIPE, text=True)
    os.close(output)
    assert process.stderr is not None
    url, warned = "", ""
    try:
        for said in process.stderr:
            url = said.rpartition("listening on ")[2].strip() if "listening on" in said else url
            if "standard output cannot be written" in said:
                warned = said
                break
            if where == "closed" and "limits:" in said:
                break
        assert where == "closed" or f"it is said here: ready {url}" in warned
        while True:
            try:
                connect(url).close()
                break
            except ConnectionRefusedError:
                assert process.poll() is None, "it has ended instead"
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=TIMEOUT_S) == 0
    finally:
        process.kill()
        process.communicate(timeout=TIMEOUT_S)


def test_a_file_that_cannot_be_written_is_not_standard_output(broker: amqp_broker.RunningBroker) -> None:
    done = run(broker, ("definitions", "export", "/dev/full", "--url", "URL"), subprocess.DEVNULL)
    assert done.returncode == 2
    assert done.stderr == "amqp-broker: /dev/full cannot be written: No space left on device; name another file\n"

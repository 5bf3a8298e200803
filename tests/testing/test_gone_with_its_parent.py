"""The broker goes with the process that started it, however that ends; so does its temporary data."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 30

START = """
import json, sys
import amqp_broker
broker = amqp_broker.running().start()
from amqp_broker.testing import forked
server = forked._server._process.pid if forked.IS_POSSIBLE else broker.process.pid
print(json.dumps({"pids": [broker.process.pid, server], "data_dir": str(broker.data_dir)}), flush=True)
"""
WAIT = "sys.stdin.read()\n"
FORK_AND_WAIT = """
import os
if os.fork() == 0:
    os.close(1)
    sys.stdin.read()
    os._exit(0)
sys.stdin.read()
"""


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="the test watches processes as Linux can")
@pytest.mark.parametrize(
    ("rest", "how"),
    [
        pytest.param(WAIT, signal.SIGKILL, id="killed"),
        pytest.param(WAIT, signal.SIGTERM, id="terminated"),
        pytest.param("raise SystemExit", None, id="ended without a stop"),
        pytest.param("import os; os._exit(0)", None, id="ended at once"),
        pytest.param(FORK_AND_WAIT, signal.SIGKILL, id="killed while a forked copy lives on"),
    ],
)
def test_the_broker_ends_with_its_parent(rest: str, how: signal.Signals | None) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", START + rest],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdin is not None
    assert parent.stdout is not None
    told = json.loads(parent.stdout.readline())
    processes = {pid: opened for pid in told["pids"] if (opened := open_process(pid)) is not None}
    if how is not None:
        parent.send_signal(how)
    parent.wait(timeout=TIMEOUT_S)
    try:
        for opened in processes.values():
            ended, _, _ = select.select([opened], [], [], TIMEOUT_S)
            assert ended, "the broker, or the fork server, lives on"
        assert not Path(told["data_dir"]).exists()
    finally:
        parent.stdin.close()  # ends the forked copy
        parent.stdout.close()
        for opened in processes.values():
            os.close(opened)


def open_process(pid: int) -> int | None:
    """A descriptor that is readable once the process has ended; None if it has."""
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        return None

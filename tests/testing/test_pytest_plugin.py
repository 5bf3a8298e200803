"""The pytest plugin, in test runs of its own:

fresh virtual hosts, xdist, a given broker, and what it costs.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import amqp_broker
from amqp_broker.system_client import SystemClient

ROOT = Path(__file__).parents[2]
VHOST_LIMIT_S = 1.0

SOMEBODYS_TESTS = """
import time
import pytest
from amqp_broker.client import Connection
from amqp_broker.client.errors import ConnectFailed
from amqp_broker.protocol.fields import Table
from amqp_broker.protocol.methods import QueueDeclare

SEEN = set()


@pytest.mark.parametrize("number", range(6))
def test_every_test_has_a_virtual_host_of_its_own(amqp_broker, number):
    assert amqp_broker.vhost not in SEEN
    SEEN.add(amqp_broker.vhost)
    with Connection.open(amqp_broker.url) as connection, connection.channel() as channel:
        answer = channel.call(QueueDeclare(0, "orders", False, True, False, False, False, Table()))
        assert answer.message_count == 0
        channel.publish("", "orders", b"x", {"delivery_mode": 2})


def test_the_parts_make_the_url(amqp_broker):
    parts = amqp_broker.connect_kwargs
    url = "amqp://{login}:{password}@{host}:{port}/{virtualhost}".format(**parts)
    assert url == amqp_broker.url


@pytest.fixture
def one_before(amqp_broker):
    return amqp_broker


def test_they_are_one_within_a_test(one_before, amqp_broker):
    assert one_before is amqp_broker


def test_fresh_ones_are_quick(amqp_broker_system):
    times = []
    for number in range(10):
        began = time.perf_counter()
        amqp_broker_system.request("vhost.create", name=f"quick-{number}", permissions_for="guest")
        amqp_broker_system.request("vhost.delete", name=f"quick-{number}")
        times.append(time.perf_counter() - began)
    assert min(times) < LIMIT
"""


def run_pytest(folder: Path, *arguments: str, plugins: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    (folder / "test_somebodys.py").write_text(SOMEBODYS_TESTS.replace("LIMIT", str(VHOST_LIMIT_S)))
    loaded = [part for name in ("amqp_broker.pytest_plugin", *plugins) for part in ("-p", name)]
    environment = os.environ | {
        "PYTHONPATH": str(ROOT),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTEST_ADDOPTS": "",
    }
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *loaded, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_every_test_gets_a_fresh_virtual_host(tmp_path: Path) -> None:
    done = run_pytest(tmp_path)
    assert "9 passed" in done.stdout, done.stdout + done.stderr


def test_parallel_runs_do_not_clash(tmp_path: Path) -> None:
    done = run_pytest(tmp_path, "-n", "2", plugins=("xdist",))
    assert "9 passed" in done.stdout, done.stdout + done.stderr


def test_a_given_broker_is_used_and_left_clean(tmp_path: Path) -> None:
    with amqp_broker.running() as broker, SystemClient(broker.url) as client:
        before = client.request("statistics")["statistics"]["vhosts"]
        done = run_pytest(tmp_path, "--amqp-broker-url", broker.url)
        assert "9 passed" in done.stdout, done.stdout + done.stderr
        assert client.request("statistics")["statistics"]["vhosts"] == before


def test_a_given_broker_that_is_not_there_is_named(tmp_path: Path) -> None:
    done = run_pytest(tmp_path, "--amqp-broker-url", "amqp://127.0.0.1:1")
    assert done.returncode == 1
    assert "127.0.0.1:1" in done.stdout


def test_a_run_that_does_not_ask_for_it_starts_no_broker(tmp_path: Path) -> None:
    (tmp_path / "test_other.py").write_text(
        "import sys\ndef test_other():\n    assert 'amqp_broker.testing.embedded' not in sys.modules\n"
    )
    done = run_pytest(tmp_path, "test_other.py")
    assert "1 passed" in done.stdout, done.stdout + done.stderr

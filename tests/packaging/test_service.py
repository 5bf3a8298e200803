"""The unit for systemd: what it says holds for the broker, systemd accepts it, and hears what the broker has to say."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from amqp_broker.server.service_manager import ServiceManager
from amqp_broker.settings.sources import resolve

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "packaging" / "systemd" / "amqp-broker.service"
SETTINGS = ROOT / "packaging" / "amqp-broker.toml"
BINARY = "/opt/amqp-broker/bin/amqp-broker"
#: What `systemd-analyze security` may find at most, of 100: 0 is nothing to find.
MOST_EXPOSED = 20
WAIT_S = 60.0

needs_systemd = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze here")


def lines() -> list[tuple[str, str]]:
    parts = (line.partition("=") for line in UNIT.read_text().splitlines())
    return [(name, value) for name, _, value in parts if value]


def value_of(name: str) -> str:
    (value,) = [value for each, value in lines() if each == name]
    return value


def test_it_runs_the_command_with_the_settings_that_lie_beside_it() -> None:
    command = value_of("ExecStart").split()
    assert command == [BINARY, "serve", "--config", "/etc/amqp-broker/amqp-broker.toml"]
    config = resolve({}, {}, SETTINGS).config
    assert str(config.data_dir) == f"/var/lib/{value_of('StateDirectory')}"
    assert int(value_of("TimeoutStopSec")) * 1000 > config.shutdown_timeout_ms
    assert int(value_of("LimitNOFILE")) > config.max_connections
    assert value_of("RestartPreventExitStatus") == "2 3"


@needs_systemd
def test_systemd_accepts_it(tmp_path: Path) -> None:
    """With a binary that there is."""
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace(BINARY, "/bin/true").replace("=amqp-broker\n", "=root\n"))
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True)
    about_it = [line for line in done.stderr.splitlines() if UNIT.name in line]
    assert (done.returncode, about_it) == (0, []), done.stderr


@needs_systemd
def test_systemd_finds_little_that_it_is_exposed_to() -> None:
    command = ["systemd-analyze", "security", "--no-pager", "--offline=true", f"--threshold={MOST_EXPOSED}", UNIT]
    done = subprocess.run(command, capture_output=True, text=True)
    if "unrecognized option" in done.stderr:
        pytest.skip("this systemd-analyze looks at running units only")
    assert done.returncode == 0, done.stdout


@pytest.fixture
def manager_socket(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
        heard.bind(str(tmp_path / "notify"))
        heard.settimeout(WAIT_S)
        yield heard


def test_the_broker_says_that_it_is_ready_alive_and_ending(manager_socket: socket.socket, tmp_path: Path) -> None:
    told = {"NOTIFY_SOCKET": manager_socket.getsockname(), "WATCHDOG_USEC": "300000", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-P", "-m", "amqp_broker", "serve", "--listen=127.0.0.1:0", "--management-listen=off"]
    command += ["--prometheus-listen=off", f"--data-dir={tmp_path / 'data'}"]
    broker = subprocess.Popen(command, env=os.environ | told, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        assert manager_socket.recv(1000).startswith(b"READY=1")
        assert [manager_socket.recv(1000) for _ in range(4)] == 4 * [b"WATCHDOG=1"]
        broker.send_signal(signal.SIGTERM)
        while (heard := manager_socket.recv(1000)) == b"WATCHDOG=1":
            pass
        assert heard.startswith(b"STOPPING=1")
        assert broker.wait(WAIT_S) == 0
    finally:
        broker.kill()
        broker.wait()


def test_nobody_who_is_started_from_here_speaks_for_it(manager_socket: socket.socket) -> None:
    environment = {"NOTIFY_SOCKET": manager_socket.getsockname(), "WATCHDOG_USEC": "1", "WATCHDOG_PID": "1", "A": "b"}
    ServiceManager(environment).waits("waiting for n2")
    assert environment == {"A": "b"}
    assert manager_socket.recv(1000) == b"STATUS=waiting for n2"


def test_a_service_manager_that_is_gone_stops_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    ServiceManager({"NOTIFY_SOCKET": str(tmp_path / "nobody")}).stops()
    assert "does not hear: No such file or directory" in caplog.text

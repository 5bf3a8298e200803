"""`amqp-broker serve` from outside: the ready line, the end, and what keeps it from starting."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import trustme

import amqp_broker

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 60


def command(*flags: str) -> list[str]:
    return [
        sys.executable, "-P", "-m", "amqp_broker", "serve",
        "--management-listen=off", "--prometheus-listen=off", *flags,
    ]


def environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AMQP_BROKER_")}
    plain = {"AMQP_BROKER_PLAIN": "1"} if os.environ.get("AMQP_BROKER_PLAIN") else {}
    return kept | {"PYTHONPATH": str(ROOT)} | plain


@contextmanager
def serving(*flags: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A broker and the url of its ready line."""
    process = subprocess.Popen(
        command(*flags), env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line.startswith("ready amqp://127.0.0.1:"), (line, process.communicate(timeout=TIMEOUT_S))
        yield process, line.split()[1]
    finally:
        process.kill()
        process.communicate(timeout=TIMEOUT_S)


def refused(*flags: str) -> str:
    done = subprocess.run(command(*flags), env=environment(), capture_output=True, text=True, timeout=TIMEOUT_S)
    assert done.returncode == 2, done
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def connect(url: str) -> socket.socket:
    host, _, port = url.removeprefix("amqp://").rpartition(":")
    return socket.create_connection((host, int(port)), timeout=TIMEOUT_S)


def test_it_accepts_clients_when_it_says_so_and_ends_on_sigterm(tmp_path: Path) -> None:
    with serving("--listen", "127.0.0.1:0", "--data-dir", str(tmp_path / "data")) as (process, url):
        with connect(url) as client:
            client.sendall(b"AMQP\0\0\x09\x01")
            assert client.recv(1) == b"\x01", "a method frame: connection.start"
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=TIMEOUT_S) == 0


def test_sigint_ends_it_too(tmp_path: Path) -> None:
    with serving("--listen", "127.0.0.1:0", "--data-dir", str(tmp_path)) as (process, _):
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=TIMEOUT_S) == 0


def test_a_foreign_folder_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "diary.txt").write_text("dear diary")
    line = refused("--listen", "127.0.0.1:0", "--data-dir", str(tmp_path))
    assert str(tmp_path) in line
    assert "empty folder" in line, "the way out"
    assert [path.name for path in tmp_path.iterdir()] == ["diary.txt"]


def test_a_file_is_no_data_folder(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("x")
    assert f"{path}: a file, not a folder" in refused("--listen", "127.0.0.1:0", "--data-dir", str(path))
    assert path.read_text() == "x"


def test_a_second_broker_on_the_folder_is_refused(tmp_path: Path) -> None:
    with serving("--listen", "127.0.0.1:0", "--data-dir", str(tmp_path)) as (process, url):
        line = refused("--listen", "127.0.0.1:0", "--data-dir", str(tmp_path))
        assert f"process {process.pid}" in line
        connect(url).close()


def test_a_port_in_use_is_refused_before_the_folder_is_touched(tmp_path: Path) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        address = f"127.0.0.1:{holder.getsockname()[1]}"
        line = refused("--listen", address, "--data-dir", str(tmp_path / "data"))
    assert address in line
    assert "--listen" in line, "the way out"
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    folder = tmp_path / "file" / "data"
    assert str(folder) in refused("--listen", "127.0.0.1:0", "--data-dir", str(folder))


def test_a_certificate_that_is_not_there_is_refused(tmp_path: Path) -> None:
    flags = ["--tls-listen", "127.0.0.1:0", "--tls-certificate", "no.pem", "--tls-key", "no.key"]
    assert "no.pem" in refused("--listen", "127.0.0.1:0", "--data-dir", str(tmp_path / "data"), *flags)
    assert list(tmp_path.iterdir()) == []


def test_a_key_of_another_certificate_is_refused_by_the_names_of_both(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.issue_cert("localhost").cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    authority.issue_cert("localhost").private_key_pem.write_to_path(tmp_path / "key.pem")
    flags = ["--tls-listen", "127.0.0.1:0", "--tls-certificate", str(tmp_path / "cert.pem")]
    line = refused("--data-dir", str(tmp_path / "data"), *flags, "--tls-key", str(tmp_path / "key.pem"))
    assert f"{tmp_path}/key.pem: the key is not that of the certificate in {tmp_path}/cert.pem" in line
    assert "None" not in line
    assert not (tmp_path / "data").exists()


def test_the_log_begins_with_what_runs_where_and_within_what(tmp_path: Path) -> None:
    flags = ["--memory-budget", "64MiB", "--disk-free-limit", "7MiB", "--max-connections", "123"]
    with serving("--listen", "127.0.0.1:0", "--data-dir", str(tmp_path / "data"), *flags) as (process, url):
        process.send_signal(signal.SIGTERM)
        log = process.communicate(timeout=TIMEOUT_S)[1].splitlines()
    modules = "plain modules" if os.environ.get("AMQP_BROKER_PLAIN") else "(?:compiled|plain) modules"
    start = rf"amqp-broker {re.escape(amqp_broker.__version__)}, {modules}.*, Python 3\.\d+.*, process {process.pid}$"
    assert re.search(start, log[0]), log[0]
    assert log[1].endswith(f"data folder {tmp_path}/data")
    assert log[2].endswith(f"listening on {url}")
    limits = r"limits: \d+ file descriptors, memory_budget 64MiB, disk_free_limit 7MiB, max_connections 123$"
    assert re.search(limits, log[3]), log[3]


def test_only_a_temporary_folder_is_ever_removed(tmp_path: Path) -> None:
    folder = tmp_path / "amqp-broker-precious"
    line = refused("--listen", "127.0.0.1:0", "--data-dir", str(folder), "--data-dir-is-temporary")
    assert str(folder) in line

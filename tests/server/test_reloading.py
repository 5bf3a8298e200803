"""SIGHUP: certificates and the log's level are read again; what cannot be used changes nothing. The log as JSON."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest
import trustme

from amqp_broker.client import ConnectFailed, Connection
from amqp_broker.management.node_facts import NodeFacts
from amqp_broker.server.reloading import Reloading
from amqp_broker.settings.config import Config
from amqp_broker.settings.log_format import JSON, about, formatter
from amqp_broker.system_client import SystemClient
from tests.cli.test_serve_command import TIMEOUT_S, command, environment

if TYPE_CHECKING:
    from amqp_broker.audit.audit_log import AuditLog


class Served:
    """A broker with a file of settings, and what it logs."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "settings.toml"
        self.authority = trustme.CA()
        self.folder = folder
        self.settings = {
            "listen": ["127.0.0.1:0"], "tls_listen": [f"127.0.0.1:{free_port()}"], "data_dir": str(folder / "data"),
            "tls_certificate": str(folder / "cert.pem"), "tls_key": str(folder / "key.pem"), "log_format": "json",
        }  # fmt: skip
        self.issue("first.example")
        self.write()

    def issue(self, name: str) -> None:
        issued = self.authority.issue_cert(name)
        issued.private_key_pem.write_to_path(self.folder / "key.pem")
        issued.cert_chain_pems[0].write_to_path(self.folder / "cert.pem")

    def write(self, **changes: object) -> None:
        self.settings |= changes
        self.file.write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in self.settings.items()))

    def names(self) -> list[str]:
        """In the certificate that a client is shown."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        self.authority.configure_trust(context)
        host, _, port = self.settings["tls_listen"][0].rpartition(":")
        with socket.create_connection((host, int(port)), TIMEOUT_S) as plain, context.wrap_socket(plain) as client:
            shown = client.getpeercert()
            assert shown is not None
            return [value for _, value in shown["subjectAltName"]]  # type: ignore[misc]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Lines:
    """What a broker says, as JSON, line by line."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def until(self, text: str) -> list[dict[str, object]]:
        """Up to a line that has this text."""
        assert self._process.stderr is not None
        found = []
        for line in self._process.stderr:
            found.append(json.loads(line))
            if text in found[-1]["message"]:
                return found
        raise AssertionError(f"never said: {text}")


@contextmanager
def running(served: Served) -> Iterator[tuple[subprocess.Popen[str], str, Lines]]:
    process = subprocess.Popen(
        command(f"--config={served.file}"), env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        yield process, process.stdout.readline().split()[1], Lines(process)
    finally:
        process.kill()
        process.communicate(timeout=TIMEOUT_S)


@pytest.fixture
def served(tmp_path: Path) -> Served:
    return Served(tmp_path)


def test_a_new_certificate_and_level_are_taken_over(served: Served) -> None:
    with running(served) as (process, url, lines):
        assert served.names() == ["first.example"]
        served.issue("second.example")
        served.write(log_level="warning", frame_max="64KiB")
        process.send_signal(signal.SIGHUP)
        (last,) = lines.until("SIGHUP: changed and not reloaded")[-1:]
        assert str(last["message"]).endswith("a restart is needed for: frame_max")
        assert served.names() == ["second.example"]
        with Connection.open(url):
            pass  # says nothing any more
        served.write(log_level="info", frame_max="128KiB")
        process.send_signal(signal.SIGHUP)
        said = lines.until("SIGHUP: reloaded")
        assert [line["level"] for line in said] == ["info"], said
        assert "log_level info" in str(said[0]["message"])
        with SystemClient(url) as client:
            (line,) = client.request("audit.page", what="node.reload", limit=1)["rows"]
        assert "log_level info" in line["details"]["reloaded"]


@pytest.mark.parametrize("change", [{"log_level": "loud"}, {"tls_key": "nowhere.pem"}, {"unknown": 1}])
def test_what_cannot_be_used_changes_nothing(served: Served, change: dict[str, object]) -> None:
    with running(served) as (process, _, lines):
        served.issue("second.example")
        served.write(**change)
        process.send_signal(signal.SIGHUP)
        (last,) = lines.until("SIGHUP: nothing is reloaded")[-1:]
        assert next(iter(change)) in str(last["message"]) or "nowhere.pem" in str(last["message"])
        assert served.names() == ["first.example"]


def test_who_came_and_what_was_changed_are_fields(served: Served) -> None:
    with running(served) as (_, url, lines):
        with SystemClient(url) as client:
            client.request("user.put", name="eve", password="secret", tags=[])
        with pytest.raises(ConnectFailed):
            Connection.open(url.replace("amqp://", "amqp://eve:wrong@"))
        said = lines.until("login from")
    found = {str(line["event"]): line for line in said if "event" in line}
    assert found["connection_open"]["user"] == "guest"
    assert found["connection_end"]["reason"] == "closed by the client"
    changed = found["administration"]
    assert (changed["what"], changed["name"], changed["outcome"], changed["user"]) == (
        "user.put", "eve", "done", "guest",
    )  # fmt: skip
    assert (found["login_refused"]["user"], found["login_refused"]["via"]) == ("eve", "amqp")
    assert all({"time", "level", "logger", "message"} <= line.keys() for line in said)


def test_a_fault_is_one_line() -> None:
    import logging

    try:
        raise ValueError("two\nlines")
    except ValueError as error:
        record = logging.LogRecord("a", logging.ERROR, "", 0, "it is %r", ("x",), (type(error), error, None))
    record.__dict__ |= about("test", user="", count=3)
    text = formatter(JSON).format(record)
    assert "\n" not in text
    said = json.loads(text)
    assert (said["level"], said["event"], said["count"], "user" in said) == ("error", "test", 3, False)
    assert "two\nlines" in said["error"]


async def test_a_defect_in_reloading_is_logged_at_once(caplog: pytest.LogCaptureFixture) -> None:
    def read() -> Config:
        raise KeyError("defect")

    said = asyncio.Event()

    def hear(record: logging.LogRecord) -> bool:
        said.set()
        return True

    caplog.handler.addFilter(hear)
    nobody = cast("AuditLog", None)  # nothing comes to be written down
    reloading = Reloading(Config(), read, logging.NullHandler(), lambda context: None, nobody, NodeFacts(0))
    reloading.begin()
    async with asyncio.timeout(TIMEOUT_S):
        await said.wait()
    caplog.handler.removeFilter(hear)
    [record] = caplog.records
    assert "defect in reloading" in record.getMessage()
    assert record.exc_info is not None

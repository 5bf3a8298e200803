"""The management process beside its node: it may end, stand still or find its port taken; the node goes on."""

from __future__ import annotations

import os
import re
import select
import signal
import socket
from pathlib import Path

import pytest

import amqp_broker
from amqp_broker.client import Connection
from tests.web.http_client import Http

#: One broker for all of them.
pytestmark = pytest.mark.xdist_group("web process")


def children_of(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]


def works(url: str) -> bool:
    with Connection.open(url) as connection, connection.channel() as channel:
        channel.confirm_select()
        channel.publish("", "nobody", b"")
        return channel.wait_for_confirms() == []


def test_who_changes_what_is_in_the_log() -> None:
    with amqp_broker.running(management=True) as broker:
        http = Http(broker.management_url)
        http("PUT", "/queues/%2F/logged", {})
        http("PUT", "/users/a%0Ab", {"password": "p", "tags": "management"})
        other = http.as_user("a\nb", "p")
        assert other("DELETE", "/queues/%2F/logged").status == 401
        assert "PUT /api/queues/%2F/logged by user 'guest' from 127.0.0.1: 201" in broker.logs
        assert "DELETE /api/queues/%2F/logged by user 'a%0Ab' from 127.0.0.1: 401" in broker.logs
        for each in (http, other):
            each.close()


def test_it_is_started_again_and_the_node_goes_on() -> None:
    with amqp_broker.running(management=True) as broker:
        (child,) = children_of(broker.process.pid)
        command = Path(f"/proc/{child}/cmdline").read_bytes()
        assert b"management" in command
        assert b"amq.management" not in command, "what it logs in with is nobody's to read"
        os.kill(child, signal.SIGSTOP)
        assert works(broker.url)
        os.kill(child, signal.SIGKILL)
        assert works(broker.url)
        # Who connects meanwhile waits: the socket is the broker's.
        http = Http(broker.management_url)
        assert http("GET", "/overview").status == 200
        http.close()
        assert children_of(broker.process.pid) != [child]
        assert "the management process has ended" in broker.logs
        broker.end()
        assert not Path(f"/proc/{child}").exists()


def test_it_ends_with_its_parent_whatever_happens() -> None:
    with amqp_broker.running(management=True) as broker:
        (child,) = children_of(broker.process.pid)
        gone = os.pidfd_open(child)
        broker.end(kill=True)
        poller = select.poll()
        poller.register(gone, select.POLLIN)
        assert poller.poll(30_000), "it would go on without its node"
        os.close(gone)


def test_a_node_that_stands_still_is_said_so() -> None:
    with amqp_broker.running(management=True) as broker:
        http = Http(broker.management_url)
        assert http("GET", "/whoami").status == 200
        os.kill(broker.process.pid, signal.SIGSTOP)
        try:
            said = http("GET", "/queues")
            assert (said.status, said.json["error"]) == (503, "service_unavailable")
            assert http("GET", "/livez", prefix="").status == 200
            assert http("GET", "/readyz", prefix="").status == 503
            assert http("GET", "/livez/node", prefix="").status == 503
        finally:
            os.kill(broker.process.pid, signal.SIGCONT)
        assert http("GET", "/queues").status == 200
        assert http("GET", "/livez/node", prefix="").status == 200
        http.close()


def test_a_port_that_is_taken_is_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with amqp_broker.running(management_listen=address) as broker:
            assert works(broker.url)
            lines = [line for line in broker.logs.splitlines() if address in line]
            assert len(lines) == 1, lines
            assert re.search("WARNING .*Address already in use.*--management-listen", lines[0])


def test_a_node_for_others_only_has_a_door_for_it() -> None:
    """It is not reached on loopback otherwise."""
    host = socket.gethostbyname(socket.gethostname())
    with amqp_broker.running(management=True, listen=f"{host}:0", loopback_users="") as broker:
        http = Http(broker.management_url)
        assert http("GET", "/whoami").status == 200
        ports = {each["port"] for each in http.get("/overview")["listeners"] if each["protocol"] == "amqp"}
        assert ports == {broker.port}
        http.close()


def test_a_broker_without_it_says_how_to_have_it() -> None:
    with pytest.raises(RuntimeError, match=r"running\(management=True\)"):
        _ = amqp_broker.running().management_url


def test_it_goes_on_without_the_virtual_host_of_the_start() -> None:
    with amqp_broker.running(management=True) as broker:
        http = Http(broker.management_url)
        assert http("PUT", "/vhosts/other", {}).status == 201
        assert http("DELETE", "/vhosts/%2F").status == 204
        assert [each["name"] for each in http.get("/vhosts")] == ["other"]
        assert http("PUT", "/queues/other/q", {"durable": True}).status == 201
        assert http("PUT", "/vhosts/%2F", {}).status == 201
        http.close()

"""What somebody may do to the management process who wants no good: it goes on, and the node does not notice."""

from __future__ import annotations

import os
import resource
import signal
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress

import pytest

import amqp_broker
from amqp_broker.client import Connection
from amqp_broker.testing.embedded import RunningBroker
from amqp_broker.web.errors import ApiError
from amqp_broker.web.listing import answer_list, read_query
from amqp_broker.web.process.http_server import HEAD_TIMEOUT_S
from tests.processor_time import processor_time
from tests.web.http_client import Http
from tests.web.test_process import children_of

#: One broker for all of them.
pytestmark = pytest.mark.xdist_group("web attacks")
GET = b"GET /livez HTTP/1.1\r\nHost: here\r\n\r\n"
TIMEOUT_S = 60
#: What the process keeps, and what somebody opens.
IDLE = 10_000


@contextmanager
def opened(http: Http) -> Iterator[socket.socket]:
    with socket.create_connection((http.host, http.port), timeout=TIMEOUT_S) as connection:
        yield connection


def everything(connection: socket.socket) -> bytes:
    """What comes until the other side ends it."""
    heard = b""
    try:
        while chunk := connection.recv(65536):
            heard += chunk
    except ConnectionResetError:
        pass
    return heard


def works(broker: RunningBroker) -> bool:
    with Connection.open(broker.url) as connection, connection.channel() as channel:
        channel.confirm_select()
        channel.publish("", "nobody", b"")
        return channel.wait_for_confirms() == []


def test_who_says_little_is_not_waited_for(http: Http) -> None:
    """A first head, a second head, the body of a request that was refused: begun all at once, as each takes long."""
    beginnings = (
        b"GET /api/ov",
        GET + b"GET /li",
        b"PUT /api/queues/%2F/q HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n"
        b"Content-Length: 20000000\r\n\r\n{",
    )
    with ExitStack() as stack:
        connections = [stack.enter_context(opened(http)) for _ in beginnings]
        for connection, octets in zip(connections, beginnings, strict=True):
            connection.sendall(octets)
            connection.settimeout(3 * HEAD_TIMEOUT_S)
        for connection in connections:
            everything(connection)


@pytest.mark.parametrize(
    "head",
    [
        b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
        b"Content-Length: 4\r\nContent-Length: 5\r\n",
        b"Transfer-Encoding: chunked, identity\r\n",
        b"Transfer-Encoding : chunked\r\n",
        b"Content-Length: +4\r\n",
    ],
)
def test_a_request_within_a_request_is_none(http: Http, head: bytes) -> None:
    """What a proxy might take for a body is never taken for a request."""
    login = b"Authorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n"
    within = b"DELETE /api/vhosts/%2F HTTP/1.1\r\nHost: localhost\r\n" + login + b"\r\n"
    with opened(http) as connection:
        connection.sendall(b"POST /api/login HTTP/1.1\r\nHost: localhost\r\n" + head + b"\r\n0\r\n\r\n" + within)
        connection.shutdown(socket.SHUT_WR)
        heard = everything(connection)
    assert heard.startswith((b"HTTP/1.1 400", b"HTTP/1.1 501")), heard
    assert heard.count(b"HTTP/1.1 ") == 1
    assert http("GET", "/vhosts/%2F").status == 200


def test_requests_behind_each_other_are_answered_in_order(http: Http) -> None:
    paths = [b"/livez", b"/api/version", b"/nothing", b"/readyz"]
    with opened(http) as connection:
        *first, last = [b"GET " + path + b" HTTP/1.1\r\nHost: h\r\n" for path in paths]
        connection.sendall(b"\r\n".join(first) + b"\r\n" + last + b"Connection: close\r\n\r\n")
        heard = everything(connection)
    assert [part[:3] for part in heard.split(b"HTTP/1.1 ")[1:]] == [b"200", b"200", b"404", b"200"]


def test_ten_thousand_idle_connections_keep_nobody_out(http: Http, broker: RunningBroker) -> None:
    most, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < IDLE + 500:
        pytest.skip(f"the system lets a process have {hard} descriptors only")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(most, IDLE + 500), hard))
    with ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (most, hard))
        for number in range(IDLE):
            connection = stack.enter_context(socket.create_connection((http.host, http.port), timeout=TIMEOUT_S))
            if number % 3 == 0:
                connection.sendall(b"GET /api/ov")
            if number % 1000 == 0:
                assert works(broker)
        assert works(broker)
        fresh = Http(broker.management_url)
        assert fresh("GET", "/whoami").status == 200
        fresh.close()
    http.close()  # it was idle, too, and made room


def test_who_reads_nothing_delays_nobody(http: Http, broker: RunningBroker) -> None:
    for number in range(20):
        http("PUT", f"/queues/%2F/unread-{number}", {})
    login = b"Authorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n"
    with ExitStack() as stack:
        for _ in range(60):
            connection = stack.enter_context(socket.create_connection((http.host, http.port), timeout=TIMEOUT_S))
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
            for _ in range(20):
                connection.sendall(b"GET /api/queues HTTP/1.1\r\nHost: localhost\r\n" + login + b"\r\n")
        assert http("GET", "/whoami").status == 200
        assert works(broker)


def test_the_node_does_not_notice_that_it_stands_still(broker: RunningBroker) -> None:
    """Who connects to it meanwhile waits in the kernel's queue, and is no matter of the node's."""
    (child,) = children_of(broker.process.pid)
    http = Http(broker.management_url)
    os.kill(child, signal.SIGSTOP)
    try:
        with ExitStack() as stack:
            for _ in range(2000):
                connection = stack.enter_context(socket.socket())
                connection.setblocking(False)
                connection.connect_ex((http.host, http.port))
            assert all(works(broker) for _ in range(20))
    finally:
        os.kill(child, signal.SIGCONT)
    assert http("GET", "/whoami").status == 200
    http.close()


def test_many_at_once_are_answered(http: Http, broker: RunningBroker) -> None:
    def ask(number: int) -> int:
        one = Http(broker.management_url)
        try:
            return one("GET", ("/queues", "/overview", "/connections", "/nodes")[number % 4]).status
        finally:
            one.close()

    with ThreadPoolExecutor(64) as pool:
        assert set(pool.map(ask, range(256))) == {200}


@pytest.mark.parametrize(
    "pattern",
    ["^.*.*.*b", ".*.*b", "(a|b|c|d)*x", "^[a-z]*[a-z]*[a-z]*1", "a{1,100}b", "^(?:a?){20}b", "^" + "a?" * 18],
)
def test_a_regex_takes_no_longer_than_a_moment(pattern: str) -> None:
    """What is accepted, with the names that are worst for it, and very many of them."""
    rows = [{"name": "a" * 255, "vhost": "/"}] * 20_000
    with processor_time() as taken, suppress(ApiError):  # refused, before it runs or when it has run for long
        answer_list(rows, read_query({"page": "1", "use_regex": "true", "name": pattern}))
    assert taken.seconds < 5


def test_failed_logins_over_http_slow_amqp_down_too() -> None:
    with amqp_broker.running(management=True, login_backoff="1min", login_backoff_max="1min") as broker:
        http = Http(broker.management_url, "guest", "wrong")
        refused = [http("GET", "/whoami") for _ in range(12)]
        assert {each.status for each in refused} <= {401, 429}
        assert "retry-after" in refused[-1].headers
        http.close()

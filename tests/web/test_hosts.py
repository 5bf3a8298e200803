"""By which names the API may be asked: a page whose name somebody has let point to 127.0.0.1 logs in as nobody."""

from __future__ import annotations

import socket
from urllib.parse import urlencode

import pytest
from starlette.requests import Request

import amqp_broker
from amqp_broker.testing.embedded import RunningBroker
from amqp_broker.web.errors import ApiError
from amqp_broker.web.hosts import Hosts
from tests.web.http_client import Http

#: One broker for all of them.
pytestmark = pytest.mark.xdist_group("web hosts")
ELSEWHERE = "rebound.example:15672"
FORM = "application/x-www-form-urlencoded"
LOGIN = urlencode({"username": "guest", "password": "guest"}).encode()


def asked(server: str, host: str | None) -> Request:
    headers = [] if host is None else [(b"host", host.encode("latin-1"))]
    return Request({"type": "http", "server": (server, 15672), "headers": headers})


def refused(hosts: Hosts, server: str, host: str | None) -> bool:
    try:
        hosts.check(asked(server, host))
    except ApiError:
        return True
    return False


def test_a_strange_name_has_no_login(http: Http) -> None:
    said = http("GET", "/overview", host=ELSEWHERE)
    assert (said.status, said.json["error"]) == (403, "forbidden")
    assert ELSEWHERE in said.reason
    assert "management_allowed_hosts" in said.reason
    assert http("PUT", "/queues/%2F/rebound", {}, host=ELSEWHERE).status == 403
    assert http("GET", "/queues/%2F/rebound").status == 404
    # Both ways to say name and password, as a page of that name would: of one origin with its own address.
    origin = {"host": ELSEWHERE, "origin": f"http://{ELSEWHERE}", "content_type": FORM, "authorization": ""}
    for prefix in ("", "/api"):
        assert http("POST", "/login", raw=LOGIN, prefix=prefix, **origin).status == 403
        assert http("POST", "/login", raw=LOGIN, prefix=prefix, content_type=FORM, authorization="").status == 200


def test_a_wrong_password_is_not_even_looked_at(http: Http) -> None:
    """Or it would tell a right one from a wrong one."""
    guessing = http.as_user("guest", "guess")
    assert guessing("GET", "/overview", host=ELSEWHERE).status == 403
    assert guessing("GET", "/overview").status == 401
    guessing.close()


def test_names_of_this_machine_are_known(http: Http) -> None:
    for name in ("localhost", "LOCALHOST.", "a.localhost", "127.0.0.1", "[::1]", "192.0.2.7", socket.gethostname()):
        assert http("GET", "/whoami", host=f"{name}:{http.port}").status == 200, name


def test_what_asks_for_no_login_may_be_asked_by_any_name(http: Http) -> None:
    for path in ("/version", "/health/checks/ready-to-serve-clients"):
        assert http("GET", path, host=ELSEWHERE, authorization="").status == 200
    assert http("GET", "/readyz", prefix="", host=ELSEWHERE, authorization="").status == 200


@pytest.mark.parametrize("server", ["127.0.0.1", "127.8.0.1", "::1", "::ffff:127.0.0.1"])
def test_over_any_loopback_address(server: str) -> None:
    hosts = Hosts(["broker.example"])
    assert refused(hosts, server, "rebound.example")
    assert refused(hosts, server, "localhost.example")
    assert refused(hosts, server, "127.0.0.1.example:15672")
    assert refused(hosts, server, "broker.example.rebound.example")
    assert not refused(hosts, server, "Broker.Example:443")
    assert not refused(hosts, server, None)


@pytest.mark.parametrize("server", ["10.1.2.3", "2001:db8::1", "::ffff:10.1.2.3"])
def test_who_comes_from_elsewhere_may_call_it_what_he_likes(server: str) -> None:
    """A service of Kubernetes, a proxy on another machine, a scraper."""
    assert not refused(Hosts(), server, "broker.messaging.svc.cluster.local:15672")


def test_a_proxy_of_any_names() -> None:
    assert not refused(Hosts(["*"]), "127.0.0.1", "rebound.example")


def running() -> RunningBroker:
    return amqp_broker.running(management=True, management_allowed_hosts="rabbit.example,other.example")


def test_the_operator_allows_names() -> None:
    with running() as broker:
        http = Http(broker.management_url)
        assert http("GET", "/whoami", host="rabbit.example").status == 200
        assert http("GET", "/whoami", host=ELSEWHERE).status == 403
        http.close()

"""What holds for all of the API: methods, logins, representations, limits, and the fields that typed clients need."""

from __future__ import annotations

import gzip
import json
import shutil
import socket
import subprocess

import pytest

from amqp_broker.testing.embedded import RunningBroker
from exchanges.registry import EXCHANGE_TYPES
from tests.docs.blocks import block_named
from tests.web.http_client import Http

#: One broker for all of them.
pytestmark = pytest.mark.xdist_group("web general rules")


def test_heads_and_representations(http: Http) -> None:
    head = http("HEAD", "/overview")
    assert (head.status, head.body, head.headers["content-type"]) == (200, b"", "application/json")
    assert http("GET", "/overview", accept="application/bert, application/json;q=0.1").status == 200
    assert http("GET", "/overview", accept="text/html").status == 406
    packed = http("GET", "/overview", accept_encoding="gzip")
    assert packed.headers["content-encoding"] == "gzip"
    assert json.loads(gzip.decompress(packed.body))["node"]
    for name, value in (
        ("cache-control", "no-cache"), ("x-content-type-options", "nosniff"), ("x-frame-options", "DENY"),
        ("content-security-policy", "default-src 'self'; frame-ancestors 'none'"),
    ):  # fmt: skip
        assert http("GET", "/whoami").headers[name] == value
        assert http("GET", "/nothing").headers[name] == value


@pytest.mark.parametrize(
    ("accepted", "is_packed"),
    [("gzip", True), ("br, GZIP;q=0.5", True), ("gzip;q=0", False), ("gzip; q=0.000, br", False), ("x-gzip", False)],
)
def test_what_is_accepted_is_packed(http: Http, accepted: str, is_packed: bool) -> None:
    assert ("content-encoding" in http("GET", "/overview", accept_encoding=accepted).headers) is is_packed


@pytest.mark.parametrize("name", ["%zz", "%", "100%", "a%2", "%2g"])
def test_a_percent_sign_that_begins_no_octet_is_refused(http: Http, name: str) -> None:
    said = http("PUT", f"/queues/%2F/{name}", {})
    assert said.status == 400
    assert "is written %25" in said.reason
    assert http("GET", f"/queues/%2F/{name}").status == 400


@pytest.mark.parametrize("path", ["/queues/%2F/", "/exchanges/%2F/"])
def test_no_name_has_the_end_of_a_line(http: Http, path: str) -> None:
    """The broker leaves it out: what was made would not be found by the name that it was made by."""
    before = http.get("/queues")
    for name in ("%0A", "%0D%0A", "a%0Ab"):
        assert http("PUT", path + name, {}).status == 400
    assert http.get("/queues") == before


def test_logins(http: Http) -> None:
    wrong = http("GET", "/whoami", authorization="Basic eDp5")
    assert (wrong.status, wrong.json) == (401, {"error": "not_authorized", "reason": "Not_Authorized"})
    for broken in ("Basic", "Basic %", "Bearer x", "Basic eA=="):
        assert http("GET", "/whoami", authorization=broken).status == 401
    form = "application/x-www-form-urlencoded"
    said = http("POST", "/login", raw=b"username=guest&password=guest", content_type=form, authorization="")
    assert said.json["user"]["name"] == "guest"
    token = said.json["token"]
    assert http("GET", "/whoami", authorization=f"{token['type']} {token['value']}").status == 200
    assert http("POST", "/login", raw=b"{}", authorization="").status == 415
    assert http("POST", "/login", raw=b"username=guest&password=x", content_type=form, authorization="").status == 401
    assert http("DELETE", "/login", authorization="").status == 204


def test_pages_from_elsewhere_change_nothing(http: Http) -> None:
    here = f"{http.host}:{http.port}"
    for origin in ("https://evil.example", "null", "http://[", f"http://{http.host}:1"):
        said = http("PUT", "/queues/%2F/forged", {}, origin=origin)
        assert (said.status, said.json["error"]) == (403, "forbidden")
        assert "access-control-allow-origin" not in http("OPTIONS", "/queues", origin=origin).headers
    assert http("GET", "/queues/%2F/forged").status == 404
    assert http("PUT", "/queues/%2F/mine", {}, origin=f"http://{here}").status == 201
    behind = {"origin": "https://proxy", "x_forwarded_host": "proxy"}
    assert http("DELETE", "/queues/%2F/mine", **behind).status == 204


def test_bodies_have_limits(http: Http) -> None:
    ten = b"x" * (10 << 20)
    for path in ("/queues/%2F/q", "/users/u"):
        assert http("PUT", path, raw=ten).status == 413
        http.close()
    assert http("POST", "/definitions", raw=ten).reason == "not_json"
    assert http("PUT", "/queues/%2F/q", raw=b'"{}"').reason == "not_json"


@pytest.mark.parametrize(
    "path", ["/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/queues/%2F/..%2f..%2fetc", "//etc", "/\\"]
)
def test_paths_lead_nowhere_else(http: Http, path: str) -> None:
    assert http("GET", path).status == 404
    assert http("GET", path, prefix="").status == 404


def test_no_host_header_is_a_fault_of_ours(http: Http) -> None:
    for host in ("evil.example", "[::1]:5", "a b", "[", "x" * 2000):
        assert http("GET", "/whoami", host=host).status in (200, 400, 403)


@pytest.mark.parametrize(
    "octets",
    [b"\r\n" * 10, b"\x00" * 100, b"GET\r\n\r\n", b"GET /api HTTP/1.1\r\nHost: x\r\nA: " + b"y" * 100_000],
)
def test_what_is_no_http_hurts_nobody(http: Http, octets: bytes) -> None:
    with socket.create_connection((http.host, http.port), timeout=20) as strange:
        strange.sendall(octets)
        strange.shutdown(socket.SHUT_WR)
        while strange.recv(65536):
            pass
    assert http("GET", "/whoami").status == 200


def test_overview_has_what_typed_clients_need(http: Http) -> None:
    overview = http.get("/overview?lengths_age=60&lengths_incr=5&msg_rates_age=60&msg_rates_incr=5")
    for name in (
        "cluster_name", "node", "erlang_version", "erlang_full_version", "rabbitmq_version", "product_name",
        "product_version", "statistics_db_event_queue", "churn_rates", "queue_totals", "object_totals", "message_stats",
        "listeners", "exchange_types", "rates_mode",
    ):  # fmt: skip
        assert name in overview
    assert {each["name"] for each in overview["exchange_types"]} == set(EXCHANGE_TYPES)
    (node,) = http.get("/nodes")
    assert node["exchange_types"] == overview["exchange_types"]
    assert overview["rabbitmq_version"].startswith("4.")
    assert overview["object_totals"].keys() == {"channels", "connections", "consumers", "exchanges", "queues"}
    assert overview["queue_totals"]["messages_details"]["rate"] == 0
    assert {"amqp", "http", "http/prometheus"} <= {each["protocol"] for each in overview["listeners"]}
    assert overview["message_stats"]["publish_details"]["samples"]


def test_the_page_says_what_works(http: Http) -> None:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    (metrics,) = [each["port"] for each in http.get("/overview")["listeners"] if each["protocol"] == "http/prometheus"]
    lines = [line for line in block_named("the HTTP API").splitlines() if line.startswith("curl ")]
    assert len(lines) == 3
    for line in lines:
        here = line.replace(":15672", f":{http.port}").replace(":15692", f":{metrics}")
        subprocess.run(f"{here} --fail --silent --show-error", shell=True, check=True, capture_output=True, timeout=60)
    assert http("DELETE", "/queues/%2F/orders").status == 204


def test_nodes(http: Http) -> None:
    (node,) = http.get("/nodes")
    for name in (
        "name", "uptime", "run_queue", "processors", "os_pid", "fd_total", "proc_total", "mem_limit", "mem_alarm",
        "disk_free_limit", "disk_free_alarm", "rates_mode", "enabled_plugins", "being_drained", "cluster_links",
    ):  # fmt: skip
        assert name in node
    assert node["running"] is True
    assert node["fd_used"] > 5
    assert node["mem_used"] > 10 << 20
    assert node["disk_free"] > 0
    assert http.get(f"/nodes/{node['name']}?memory=true")["memory"]["total"]["rss"] > 10 << 20
    assert http.get(f"/nodes/{node['name']}/memory/relative")["memory"]["total"] == 100
    assert http("GET", "/nodes/elsewhere").status == 404


def test_health_checks(http: Http, broker: RunningBroker) -> None:
    ok = {"status": "ok"}
    assert http.get("/health/checks/alarms") == http.get("/health/checks/local-alarms") == ok
    assert http.get(f"/health/checks/port-listener/{broker.port}") == {**ok, "port": broker.port}
    missing = http("GET", "/health/checks/port-listener/1")
    assert (missing.status, missing.json["missing"], broker.port in missing.json["ports"]) == (503, 1, True)
    assert http("GET", "/health/checks/port-listener/0").status == 400
    assert http.get("/health/checks/protocol-listener/amqp091,http")["protocols"] == ["amqp", "http"]
    assert http("GET", "/health/checks/protocol-listener/mqtt").json["missing"] == ["mqtt"]
    assert http.get("/health/checks/node-is-quorum-critical") == {**ok, "reason": "single node cluster"}
    for path in ("is-in-service", "ready-to-serve-clients", "below-node-connection-limit", "virtual-hosts"):
        assert http.get(f"/health/checks/{path}") == ok
    assert http("GET", "/health/checks/certificate-expiration/1/x").status == 400
    assert http.get("/aliveness-test/%2F") == http.get("/healthchecks/node") == ok
    assert http("GET", "/aliveness-test/nowhere").status == 404
    for probe in ("/livez", "/livez/node", "/readyz", "/startupz"):
        assert http("GET", probe, prefix="", authorization="").json == ok

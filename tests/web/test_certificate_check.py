"""The health check of certificates: those that are in force, and when they end."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme

import amqp_broker
from amqp_broker.testing.embedded import RunningBroker
from tests.server.worker_load import until
from tests.web.http_client import Http

#: One broker for all of them.
pytestmark = pytest.mark.xdist_group("web certificates")
ENDS = datetime.now(UTC).replace(microsecond=0) + timedelta(days=10)
CHECK = "/health/checks/certificate-expiration"


class Place:
    def __init__(self, folder: Path) -> None:
        self.authority = trustme.CA()
        self.folder = folder
        self.authority.cert_pem.write_to_path(folder / "ca.pem")
        self.issue(ENDS)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]

    def issue(self, end: datetime) -> None:
        issued = self.authority.issue_cert("localhost", not_after=end)
        issued.private_key_pem.write_to_path(self.folder / "key.pem")
        issued.cert_chain_pems[0].write_to_path(self.folder / "cert.pem")

    def running(self) -> RunningBroker:
        files = {"tls_certificate": self.folder / "cert.pem", "tls_key": self.folder / "key.pem"}
        listen = f"127.0.0.1:{self.port}"
        return amqp_broker.running(
            management=True, tls_listen=listen, tls_client_ca=self.folder / "ca.pem", **files
        )


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture
def served(place: Place) -> Iterator[RunningBroker]:
    with place.running() as broker:
        yield broker


def test_one_that_ends_soon_is_said(place: Place, served: RunningBroker) -> None:
    http = Http(served.management_url)
    assert http.get(f"{CHECK}/9/days") == {"status": "ok"}
    said = http("GET", f"{CHECK}/11/days")
    assert (said.status, said.json["status"], said.reason) == (503, "failed", "Certificates expiring")
    (expired,) = said.json["expired"]
    assert expired == {
        "node": http.get("/overview")["node"],
        "protocol": "amqp/ssl",
        "interface": "127.0.0.1",
        "port": place.port,
        "certfile": str(place.folder / "cert.pem"),
        "cacertfile": str(place.folder / "ca.pem"),
        "certfile_expires_on": [ENDS.strftime("%Y-%m-%d %H:%M:%S")],
        "cacertfile_expires_on": [],
    }
    for within in ("1/weeks", "0/years"):
        assert http("GET", f"{CHECK}/{within}").status == 200
    for within in ("2/weeks", "1/months", "1/YEARS"):
        assert http("GET", f"{CHECK}/{within}").status == 503
    # The authority's own ends in the year 3000 (trustme's default): what is trusted is looked at, too.
    (expired,) = http("GET", f"{CHECK}/1000/years").json["expired"]
    assert len(expired["cacertfile_expires_on"]) == 1
    http.close()


def test_a_new_one_counts_when_it_is_in_force(place: Place, served: RunningBroker) -> None:
    http = Http(served.management_url)
    place.issue(ENDS + timedelta(days=100))
    assert http("GET", f"{CHECK}/11/days").status == 503, "nobody has told the broker yet"

    def is_in_force() -> bool:
        return http("GET", f"{CHECK}/11/days").status == 200

    os.kill(served.process.pid, signal.SIGHUP)
    asyncio.run(until(is_in_force, "the new certificate is not in force"))
    http.close()


def test_without_tls_there_is_none(http: Http) -> None:
    assert http.get(f"{CHECK}/1000/years") == {"status": "ok"}

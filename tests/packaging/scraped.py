"""A member of a cluster that Prometheus may ask."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import amqp_broker
from amqp_broker.system_client import SystemClient
from tests.packaging.building import ROOT


@contextmanager
def managed(url: str) -> Iterator[tuple[str, str]]:
    """A management process beside the node at an AMQP URL: where its pages are, and its metrics."""
    command = [sys.executable, "-P", "-m", "amqp_broker", "management", "--url", url]
    command += ["--listen=127.0.0.1:0", "--prometheus-listen=127.0.0.1:0"]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            said = process.stderr.readline() + process.stderr.readline()
            places = dict(re.findall(r"(\S+) on (http://[^/\s]+)", said))
            yield places["http"], places["http/prometheus"]
        finally:
            process.terminate()
            assert process.stderr is not None
            process.stderr.read()


@contextmanager
def scraped_member() -> Iterator[tuple[str, str]]:
    """One of two, which leads some groups: its AMQP URL, and that of its metrics."""
    with amqp_broker.running_cluster(2, log_level="warning") as cluster:
        url = cluster.nodes[0].url
        with managed(url) as (_, metrics):
            with SystemClient(url) as client:
                client.request("cluster.rebalance")  # so that it leads some, of which it knows who lags
            yield url, metrics

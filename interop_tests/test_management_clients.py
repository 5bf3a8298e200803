"""Stock programs that read the HTTP API: Celery's Flower, the newer rabbitmqadmin; and the requests of autoscalers and
agents, as their sources have them."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from base64 import b64encode
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import pytest

import amqp_broker
from amqp_broker.client import Connection
from amqp_broker.testing.embedded import RunningBroker

pytestmark = pytest.mark.xdist_group("management clients")
TIMEOUT_S = 60


@pytest.fixture(scope="module")
def managed() -> Iterator[RunningBroker]:
    """With a queue of three messages, one of them held, and a consumer."""
    with amqp_broker.running(management=True) as running, Connection.open(running.url) as connection:
        channel = connection.channel()
        put(running, "/api/queues/%2F/work", b'{"durable": true}')
        channel.confirm_select()
        for _ in range(3):
            channel.publish("", "work", b"a task", {"delivery_mode": 2})
        channel.wait_for_confirms()
        consumer = channel.consume("work", prefetch_count=1)
        assert consumer.next(timeout=TIMEOUT_S) is not None
        yield running


def ask(managed: RunningBroker, path: str, method: str = "GET", body: bytes | None = None) -> Any:
    login = b64encode(b"guest:guest").decode()
    url = managed.management_url.rstrip("/") + path
    request = urllib.request.Request(url, body, {"Authorization": f"Basic {login}"}, method=method)
    with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
        said = answer.read()
    return json.loads(said) if said else None


def put(managed: RunningBroker, path: str, body: bytes) -> None:
    ask(managed, path, "PUT", body)


def test_flower_sees_the_queues(managed: RunningBroker) -> None:
    """Its own class for brokers, which `--broker-api` makes."""
    if find_spec("flower") is None:
        pytest.skip("flower is not installed: pip install flower")
    url = managed.management_url.replace("http://", "http://guest:guest@") + "api/"
    program = (
        "import asyncio, json, sys\n"
        "from flower.utils.broker import Broker\n"
        "broker = Broker(sys.argv[1], http_api=sys.argv[2])\n"
        "print(json.dumps(asyncio.run(broker.queues(['work', 'nothing']))))\n"
    )
    command = [sys.executable, "-c", program, f"amqp://guest:guest@{managed.host}:{managed.port}//", url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert done.returncode == 0, done.stderr
    assert done.stdout != "[]\n", done.stderr
    (queue,) = json.loads(done.stdout)
    assert (queue["name"], queue["messages"], queue["messages_unacknowledged"], queue["consumers"]) == ("work", 3, 1, 1)


def test_keda_asks_for_lengths_and_rates(managed: RunningBroker) -> None:
    one = ask(managed, "/api/queues/%2F/work")
    listed = ask(managed, "/api/queues/%2F?page=1&use_regex=true&pagination=false&name=%5Ework%24&page_size=100")
    assert listed["page_count"] == 1
    for queue in (one, *listed["items"]):
        assert (queue["name"], queue["messages"], queue["messages_ready"]) == ("work", 3, 2)
        assert queue["message_stats"]["publish_details"]["rate"] >= 0
        assert queue["message_stats"]["deliver_get_details"]["rate"] >= 0


def test_telegraf_decodes_into_its_types(managed: RunningBroker) -> None:
    overview = ask(managed, "/api/overview")
    assert overview["listeners"]
    for part in ("message_stats", "object_totals", "queue_totals"):
        assert overview[part], part
    (node,) = ask(managed, "/api/nodes")
    names = "disk_free disk_free_limit fd_total fd_used mem_limit mem_used proc_total proc_used run_queue uptime"
    assert all(type(node[name]) is int for name in names.split())
    assert ask(managed, f"/api/nodes/{node['name']}/memory")["memory"]["total"]
    (queue,) = [each for each in ask(managed, "/api/queues") if each["name"] == "work"]
    names = (
        "message_bytes message_bytes_ready message_bytes_unacknowledged message_bytes_ram message_bytes_persistent "
        "memory consumers messages messages_ready messages_unacknowledged"
    )
    assert all(type(queue[name]) is int for name in names.split())
    assert type(queue["consumer_utilisation"]) is float
    assert (queue["message_bytes"], queue["message_bytes_persistent"]) == (18, 18)


def test_an_exporter_sorts_by_nothing_and_asks_for_erlang_terms(managed: RunningBroker) -> None:
    """kbudde/rabbitmq_exporter: `?sort=`, and an Accept that prefers what we do not speak."""
    login = b64encode(b"guest:guest").decode()
    for path in ("overview", "nodes", "queues", "exchanges", "connections", "aliveness-test/%2F"):
        headers = {"Authorization": f"Basic {login}", "Accept": "application/bert, application/json;q=0.1"}
        url = f"{managed.management_url.rstrip('/')}/api/{path}?sort="
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=TIMEOUT_S) as answer:
            assert answer.headers["content-type"] == "application/json"
            assert json.loads(answer.read())

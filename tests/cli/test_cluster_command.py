"""`amqp-broker cluster` on real nodes: what a person reads, what a program reads, and what is refused."""

from __future__ import annotations

import json
import shlex
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import amqp_broker
from amqp_broker import RunningCluster
from amqp_broker.cli.cluster import STATUS_UNSETTLED, render_status
from amqp_broker.cli.main import main
from amqp_broker.client import Connection
from amqp_broker.protocol.fields import Table
from amqp_broker.protocol.methods import QueueDeclare
from tests.docs.blocks import block_named

DEAD_URL = "amqp://guest:guest@127.0.0.1:1/%2F"


@pytest.fixture(scope="module")
def cluster() -> Iterator[RunningCluster]:
    with amqp_broker.running_cluster(2) as made:
        yield made


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    capsys.readouterr()
    status = main(["cluster", *arguments])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def status_of(capsys: pytest.CaptureFixture[str], url: str) -> dict[str, Any]:
    """The status, once every group has a leader."""
    status, out, err = run(capsys, "status", "--json", "--url", url)
    while status == STATUS_UNSETTLED:
        status, out, err = run(capsys, "status", "--json", "--url", url)
    assert (status, err) == (0, "")
    found: dict[str, Any] = json.loads(out)
    return found


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_text("0123456789abcdef" * 4)
    path.chmod(0o600)
    return path


def free_address() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


# -- looking -----------------------------------------------------------------------------------------------------------


def test_the_status_of_two_nodes(cluster: RunningCluster, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = cluster.nodes
    status_of(capsys, first.url)
    status, out, err = run(capsys, "status", "--url", first.url)
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "cluster amqp-broker, as n1 sees it"
    assert lines[3].split() == ["n1", str(first.address), "this", "node"]
    assert lines[4].split() == ["n2", str(second.address), "up"]
    assert any(line.startswith("0 metadata") for line in lines)
    assert "one more node lost, and they stand still" in out, "two nodes have no spare one"

    found = status_of(capsys, second.url)
    assert found["node"] == "n2"
    row = found["groups"][0]
    assert row["leader"] in ("n1", "n2")
    assert row["voters"] == ["n1", "n2"]
    assert row["commit_index"] >= row["applied_index"] > 0
    assert row["is_critical"] is True


def test_a_node_alone_is_a_cluster_of_one(capsys: pytest.CaptureFixture[str]) -> None:
    with amqp_broker.running(node_name="solo") as broker:
        status, out, _ = run(capsys, "status", "--url", broker.url)
        assert status == 0
        assert "as solo sees it" in out
        assert "a node alone: what it holds is as safe as its disk" in out
        status, _, err = run(capsys, "add", "n2=127.0.0.1:7102", "--url", broker.url)
        assert status == 2
        assert "start it with cluster_listen" in err, "the way out"


def made_up(**changes: Any) -> dict[str, Any]:
    """A status of five nodes, of which two are gone."""
    group = {
        "group": 0, "holds": "metadata", "role": "leader", "leader": "n1", "term": 7, "commit_index": 10,
        "applied_index": 9, "last_index": 11, "voters": ["n1", "n2", "n3"], "learners": ["n4"],
        "lag": {"n2": 0, "n3": 5}, "log_bytes": 1, "is_critical": True, "queues": 0,
    }  # fmt: skip
    members = [
        {"node": f"n{number}", "address": f"h:{number}", "is_linked": number != 3, "is_this_node": number == 1,
         "is_leaving": number == 4}
        for number in range(1, 5)
    ]  # fmt: skip
    status = {
        "cluster": "shop", "node": "n1", "members": members, "groups": [group, {**group, "group": 1, "leader": None}],
        "critical_queues": [{"vhost": "/", "name": f"q{number}", "group": 1} for number in range(30)],
        "critical_queue_count": 1234,
    }  # fmt: skip
    return {**status, **changes}


def test_what_a_person_reads() -> None:
    text = "\n".join(render_status(made_up()))
    assert "n3      h:3      down" in text
    assert "n4      h:4      up         leaving" in text
    assert "n2 0, n3 5" in text
    assert "quorum-critical: groups 0, 1: one more node lost" in text
    assert "  /  q19\n  and 1214 queues more" in text
    assert all(line == line.rstrip() for line in text.splitlines())


def test_who_keeps_the_level_down_is_named() -> None:
    def lines(level: int, *spoken: int | None) -> list[str]:
        members = [{**row, "speaks_level": each} for row, each in zip(made_up()["members"], spoken, strict=True)]
        return [line for line in render_status(made_up(members=members, level=level)) if line.startswith("level")]

    assert lines(2, 2, 2, None, 2) == []
    assert lines(1, 1, 1, 1, 1) == []
    assert lines(1, 2, 2, 1, None) == [
        "level 1, and 2 once all members speak it, which n3, n4 do not: "
        "until then each can go back to the version before"
    ]


def test_nobody_there_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    for command in (["status"], ["add", "n4=h:1"], ["remove", "n4"], ["transfer", "q", "n1"], ["rebalance"]):
        status, out, err = run(capsys, *command, "--url", DEAD_URL)
        assert (status, out, err.count("\n")) == (2, "", 1)
    assert run(capsys, "status", "--url", "http://h")[0] == 2


def test_what_cannot_be_is_one_line(cluster: RunningCluster, capsys: pytest.CaptureFixture[str]) -> None:
    url = cluster.urls[0]
    for command, text in (
        (["add", "n4"], "node 'n4' is not NAME=HOST:PORT"),
        (["add", f"n4={cluster.nodes[1].address}"], "is the address of n2 already"),
        (["remove", "n9"], "no member 'n9'; there are n1, n2"),
        (["transfer", "none", "n1"], "no queue 'none' in vhost '/'"),
        (["transfer", "none", "n1", "--vhost", "there"], "no queue 'none' in vhost 'there'"),
    ):
        status, out, err = run(capsys, *command, "--url", url)
        assert (status, out) == (2, "")
        assert text in err
        assert err.count("\n") == 1


# -- changing ----------------------------------------------------------------------------------------------------------


def test_a_queue_is_led_by_whom_one_wants(cluster: RunningCluster, capsys: pytest.CaptureFixture[str]) -> None:
    quorum = Table({"x-queue-type": "quorum"})
    with Connection.open(cluster.urls[0]) as connection, connection.channel() as channel:
        channel.call(QueueDeclare(0, "orders", False, True, False, False, False, quorum))
    for url in cluster.urls:
        for name in ("n1", "n2"):
            status, out, err = run(capsys, "transfer", "orders", name, "--url", url)
            assert (status, err) == (0, "")
            assert out.startswith(f"{name} leads group ")
            found = status_of(capsys, url)
            (row,) = [row for row in found["groups"] if row["queues"]]
            assert row["leader"] == name
    assert [queue["name"] for queue in found["critical_queues"]] == ["orders"]
    status, _, err = run(capsys, "transfer", "orders", "n9", "--url", cluster.urls[0])
    assert status == 2
    assert "it is no voter of the group" in err


def test_rebalance_says_what_it_did(cluster: RunningCluster, capsys: pytest.CaptureFixture[str]) -> None:
    url = cluster.urls[0]
    assert run(capsys, "rebalance", "--url", url)[0] == 0
    assert run(capsys, "rebalance", "--url", url)[:2] == (0, "nothing to do: the leaders are spread\n")
    status, out, _ = run(capsys, "rebalance", "--json", "--url", url)
    assert (status, json.loads(out)) == (0, {"ok": True, "moves": [], "is_done": True})


def test_a_node_joins_and_leaves(tmp_path: Path, secret: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A node alone, then `join`, `serve` and `remove` of a second one; `serve` needs no list of the members."""
    address, folder = free_address(), tmp_path / "d2"
    own = {"cluster_secret_file": str(secret), "cluster_name": "shop"}
    with amqp_broker.running(node_name="n1", cluster_listen="127.0.0.1:0", **own) as first:
        join = [
            "join", "--url", first.url, "--node-name", "n2", "--cluster-listen", address,
            "--data-dir", str(folder), "--cluster-secret-file", str(secret),
        ]  # fmt: skip
        status, out, err = run(capsys, *join)
        assert (status, err) == (0, "")
        assert f"amqp-broker serve --node-name n2 --data-dir {folder} --cluster-listen {address}" in out
        assert "--cluster-name shop" in out
        assert run(capsys, *join)[0] == 0, "again, while it was not started"
        with amqp_broker.running(folder, node_name="n2", cluster_listen=address, **own) as second:
            found = status_of(capsys, second.url)
            assert [row["node"] for row in found["members"]] == ["n1", "n2"]
            second.restart()
            assert status_of(capsys, second.url)["groups"][0]["voters"] == ["n1", "n2"]
            status, out, err = run(capsys, "remove", "n2", "--url", first.url)
            assert (status, out, err) == (0, "n2 is no member any more\n", "")
            assert second.process.wait(30) == 0
        assert [row["node"] for row in status_of(capsys, first.url)["members"]] == ["n1"]
        status, _, err = run(capsys, *join)
        assert status == 2
        assert "a node was started on it already; name a new folder" in err


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"--node-name": "a b"}, "--node-name: 'a b' is not valid"),
        ({"--cluster-listen": "0.0.0.0:7102"}, "is no address that others can reach; name one with --address"),
        ({"--cluster-listen": "7102"}, "'7102' is not HOST:PORT"),
        ({"--cluster-secret-file": "none"}, "cluster_secret_file: 'none' is not valid"),
        ({"--url": DEAD_URL}, "127.0.0.1:1"),
    ],
)
def test_a_join_that_cannot_be(
    changes: dict[str, str], text: str, tmp_path: Path, secret: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = {
        "--url": DEAD_URL, "--node-name": "n2", "--cluster-listen": "127.0.0.1:7102",
        "--data-dir": str(tmp_path / "data"), "--cluster-secret-file": str(secret), **changes,
    }  # fmt: skip
    status, out, err = run(capsys, "join", *(part for flag in flags.items() for part in flag))
    assert (status, out) == (2, "")
    assert text in err


def test_a_folder_of_somebody_else_is_left_alone(
    tmp_path: Path, secret: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "diary.txt").write_text("dear diary")
    flags = ["--url", DEAD_URL, "--node-name", "n2", "--cluster-listen", "127.0.0.1:7102"]
    flags += ["--data-dir", str(tmp_path / "d"), "--cluster-secret-file", str(secret)]
    status, _, err = run(capsys, "join", *flags)
    assert status == 2
    assert "diary.txt" in err


def test_a_node_joins_and_goes_as_the_page_says(
    tmp_path: Path, secret: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As it stands there, but for addresses and files."""
    address, folder = free_address(), tmp_path / "data"
    own = {"cluster_secret_file": str(secret)}
    with amqp_broker.running(node_name="n1", cluster_listen="127.0.0.1:0", **own) as first:
        real = {
            "amqp://guest:guest@10.0.0.1:5672/%2F": first.url,
            "10.0.0.4:7101": address,
            "/var/lib/amqp-broker": str(folder),
            "amqp-broker.secret": str(secret),
        }

        def run_block(text: str) -> None:
            words = [real.get(word, word) for word in shlex.split(text.replace("\\\n", ""))]
            assert words[:2] == ["amqp-broker", "cluster"]
            status, _out, err = run(capsys, *words[2:])
            assert status == 0, err

        run_block(block_named("a node joins"))
        with amqp_broker.running(folder, node_name="n4", cluster_listen=address, **own) as fourth:
            found = status_of(capsys, fourth.url)
            assert [row["node"] for row in found["members"]] == ["n1", "n4"]
            run_block(block_named("a node is removed"))
            assert [row["node"] for row in status_of(capsys, first.url)["members"]] == ["n1"]
            assert fourth.process.wait(60) == 0

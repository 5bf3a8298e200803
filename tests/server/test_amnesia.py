"""Three real processes of which one has forgotten what it had promised; and the handbook's commands, as shown there."""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import aio_pika
import pytest

import amqp_broker
from amqp_broker import ClusterNode, RunningCluster
from amqp_broker.client import Connection
from amqp_broker.protocol.fields import Table
from amqp_broker.protocol.methods import QueueDeclare
from amqp_broker.system_client import SystemClient
from tests.docs.blocks import block_named
from tests.server.test_hosts_of_workers import ask_all, place_at
from tests.server.test_serving_clusters import PATIENCE_S, is_voter_everywhere, links_of, until
from tests.server.worker_load import drain, homes_of

ROOT = Path(__file__).parents[2]
BATCH = 500
QUEUE = "q"
GIVEN_UP = 3


def publish(node: ClusterNode, first: int) -> None:
    """A batch of numbered messages, all of them confirmed."""
    with Connection.open(node.url) as connection, connection.channel() as channel:
        quorum = Table({"x-queue-type": "quorum"})
        channel.call(QueueDeclare(0, QUEUE, False, True, False, False, False, quorum))
        channel.confirm_select()
        for number in range(first, first + BATCH):
            channel.publish("", QUEUE, b"%d" % number)
        assert channel.wait_for_confirms(PATIENCE_S) == []


def take_all(node: ClusterNode) -> list[int]:
    """The numbers of all messages, which are taken."""
    found = []
    with Connection.open(node.url) as connection, connection.channel() as channel:
        while (message := channel.get(QUEUE, no_ack=True)) is not None:
            found.append(int(message.body))
    return found


def is_in_a_group(status: dict[str, Any], name: str) -> bool:
    return any(name in row["voters"] for row in status["groups"])


def until_all_vote(cluster: RunningCluster, asked: ClusterNode) -> None:
    names = [node.name for node in cluster.nodes]
    until(asked, lambda status: all(links_of(status).get(name) for name in names))
    until(asked, lambda status: all(is_voter_everywhere(status, name) for name in names))


def until_caught_up(asked: ClusterNode) -> None:
    """No follower lags, as the leaders among them say; asked of one that leads all."""
    until(asked, lambda status: all(not any(row["lag"].values()) for row in status["groups"]))


def set_back(folder: Path, copied: Path) -> None:
    shutil.rmtree(folder)
    shutil.copytree(copied, folder)


def start_and_end(node: ClusterNode) -> str:
    """Start a node that must not come up. Returns what it said, but for what every start says."""
    before = len(node.logs)
    node.broker.launch()
    assert node.broker.process.wait(PATIENCE_S) == GIVEN_UP, node.logs[before:]
    node.broker.end()
    return "".join(line for line in node.logs[before:].splitlines(keepends=True) if " INFO " not in line)


def unusual(said: str) -> list[str]:
    """The lines that are not what every start says."""
    return [line for line in said.splitlines() if " INFO " not in line]


def secret_of(cluster: RunningCluster) -> str:
    """The file, as the nodes were given it."""
    assert cluster._secret is not None
    return cluster._secret.name


def run_page(name: str, cluster: RunningCluster, node: ClusterNode, tmp_path: Path) -> str:
    """Run what the handbook shows, on the machine of `node`. Returns what it printed."""
    commands = block_named(name)
    for number, each in enumerate(cluster.nodes, 1):
        commands = commands.replace(f"10.0.0.{number}:7101", str(each.address))
        if each.is_running or f"10.0.0.{number}:5672" in commands:
            commands = commands.replace(f"10.0.0.{number}:5672", each.url.partition("@")[2].partition("/")[0])
    commands = re.sub(r"--node-name \S+", f"--node-name {node.name}", commands)
    commands = re.sub(r"--cluster-listen \S+", f"--cluster-listen {node.address}", commands)
    commands = commands.replace("amqp-broker.secret", secret_of(cluster))
    commands = commands.replace("/var/lib/amqp-broker", str(node.broker.data_dir))
    commands = commands.replace("/backup", str(tmp_path / "backup" / node.name))
    script = f'set -e\namqp-broker() {{ "{sys.executable}" -P -m amqp_broker "$@"; }}\n{commands}'
    done = subprocess.run(
        ["bash", "-c", script], check=False, capture_output=True, text=True, timeout=120, cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert done.returncode == 0, (commands, done.stdout, done.stderr)
    return done.stdout


@pytest.mark.parametrize("what", ["an older copy", "emptied"])
def test_who_has_forgotten_is_refused_and_rejoins(what: str, tmp_path: Path) -> None:
    """One is behind, one has forgotten, and the one who knows is down: nobody confirms anything until it is back."""
    with amqp_broker.running_cluster(3, tmp_path / "nodes") as cluster:
        first, second, third = cluster.nodes
        until_all_vote(cluster, first)
        publish(first, 0)
        third.stop()
        shutil.copytree(third.broker.data_dir, tmp_path / "copy")
        third.start()
        until_all_vote(cluster, first)
        second.stop()
        publish(first, BATCH)
        third.stop()
        first.kill()
        if what == "emptied":
            for path in third.broker.data_dir.iterdir():
                if path.name not in ("MEMBERS", "FORMAT"):
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
        else:
            set_back(third.broker.data_dir, tmp_path / "copy")
        second.broker.launch()
        said = start_and_end(third)
        assert f"{third.broker.data_dir}: this folder has forgotten what n2 knows of node n3" in said
        assert said.count("this folder has forgotten") == 1
        assert what in said or "was emptied" in said
        again = start_and_end(third)
        assert len(unusual(again)) == 1, "it knows that by itself, and says no more"
        first.start()
        second.broker.wait_until_ready(PATIENCE_S)

        out = run_page("rejoin", cluster, third, tmp_path)
        assert f"What {third.broker.data_dir} held is in {third.broker.data_dir / 'forgotten'}" in out
        third.start()
        until_all_vote(cluster, first)
        assert take_all(third) == list(range(2 * BATCH))


def test_a_host_of_which_one_worker_has_forgotten_is_refused_and_rejoins(tmp_path: Path) -> None:
    """The one group is that worker's; it is one message behind, and the one who has that is down."""
    settings = {"start_timeout_s": 90.0, "workers": 2, "spread_groups": True, "queue_groups": 1}
    with amqp_broker.running_cluster(3, tmp_path / "nodes", **settings) as cluster:  # type: ignore[arg-type]
        first, second, third = cluster.nodes
        until_all_vote(cluster, first)
        publish(first, 0)
        third.stop()
        shutil.copytree(third.broker.data_dir / "workers" / "1", tmp_path / "copy")
        third.start()
        until_all_vote(cluster, first)
        second.stop()
        publish(first, BATCH)
        third.stop()
        set_back(third.broker.data_dir / "workers" / "1", tmp_path / "copy")
        third.broker.launch()
        assert third.broker.process.wait(PATIENCE_S) == GIVEN_UP, third.logs
        third.broker.end()
        assert re.search("this folder has forgotten what n1(/1)? knows of node n3/1", third.logs)
        assert start_and_end(third).count("this folder has forgotten") == 1, "it knows that by itself"
        second.start()
        out = run_page("rejoin", cluster, third, tmp_path)
        assert f"What {third.broker.data_dir} held is in {third.broker.data_dir / 'forgotten'}" in out
        third.start()
        until_all_vote(cluster, first)
        asyncio.run(drain(third.url, QUEUE, {b"%d" % number for number in range(2 * BATCH)}))


def test_a_cluster_is_backed_up_and_restored_as_the_handbook_says(tmp_path: Path) -> None:
    (tmp_path / "backup").mkdir()
    with amqp_broker.running_cluster(3, tmp_path / "nodes") as cluster:
        first, second, third = cluster.nodes
        until_all_vote(cluster, first)
        publish(first, 0)
        until_caught_up(first)
        for node in cluster.nodes:
            node.stop()
        for node in cluster.nodes:
            run_page("backup", cluster, node, tmp_path)
        for node in cluster.nodes:
            node.broker.launch()
        for node in cluster.nodes:
            node.broker.wait_until_ready(PATIENCE_S)
        publish(first, BATCH)
        for node in cluster.nodes:
            node.stop()

        # All copies in their places: they go together.
        for node in cluster.nodes:
            set_back(node.broker.data_dir, tmp_path / "backup" / node.name)
            node.broker.launch()
        for node in cluster.nodes:
            node.broker.wait_until_ready(PATIENCE_S)
        until_all_vote(cluster, first)
        for node in cluster.nodes:
            node.stop()

        # One copy, from which the others begin anew.
        run_page("restore", cluster, first, tmp_path)
        first.start()
        for node in (second, third):
            run_page("join again", cluster, node, tmp_path)
            node.start()
        until_all_vote(cluster, first)
        assert take_all(third) == list(range(BATCH))

        # An old folder of the old cluster has no place in it.
        third.stop()
        before = third.broker.data_dir.with_name("n3.before")
        set_back(third.broker.data_dir, before)
        said = start_and_end(third)
        assert "this folder belongs to generation 0 of the cluster, and node n" in said


@pytest.mark.long
def test_hosts_of_workers_are_backed_up_and_restored_as_the_handbook_says(tmp_path: Path) -> None:
    (tmp_path / "backup").mkdir()
    with amqp_broker.running_cluster(
        3, tmp_path / "nodes", start_timeout_s=90.0, workers=2, spread_groups=True
    ) as cluster:
        first, second, third = cluster.nodes
        until_all_vote(cluster, first)
        place_at(cluster, "n1/1", "kept")
        place_at(cluster, "n2/1", "elsewhere")
        publish(first, 0)
        asyncio.run(put(first.url, "kept"))
        until_caught_up(first)
        for node in cluster.nodes:
            node.stop()
        run_page("backup", cluster, first, tmp_path)
        run_page("restore", cluster, first, tmp_path)
        first.start()
        homes = homes_of(first.url)
        assert (set(homes), homes["kept"]) == ({QUEUE, "kept"}, "n1/1")
        for node in (second, third):
            run_page("join again", cluster, node, tmp_path)
            node.start()
        until_all_vote(cluster, first)
        assert take_all(third) == list(range(BATCH))
        assert asyncio.run(take(third.url, "kept")) == b"one"
        ask_all(cluster, "totals")


async def put(url: str, queue: str) -> None:
    async with await aio_pika.connect(url) as connection, await connection.channel() as channel:
        assert await channel.default_exchange.publish(aio_pika.Message(b"one", delivery_mode=2), queue)


async def take(url: str, queue: str) -> bytes:
    async with await aio_pika.connect(url) as connection, await connection.channel() as channel:
        return (await (await channel.get_queue(queue)).get(no_ack=True, timeout=10)).body


@pytest.mark.long
def test_an_old_node_beside_a_restored_cluster_is_told_and_harms_nobody(tmp_path: Path) -> None:
    """It was forgotten to stop it; its successor is added under its name."""
    with amqp_broker.running_cluster(3, tmp_path / "nodes") as cluster:
        first, _, third = cluster.nodes
        until_all_vote(cluster, first)
        publish(first, 0)
        until_caught_up(first)
        for node in cluster.nodes:
            node.stop()
        run("cluster", "restore", "--replace", "--data-dir", first.broker.data_dir)
        first.start()
        before = third.broker.data_dir.rename(third.broker.data_dir.with_name("n3.before"))
        flags = ("--node-name", "n3", "--cluster-listen", third.address, "--cluster-secret-file", secret_of(cluster))
        old = subprocess.Popen(
            [sys.executable, "-P", "-m", "amqp_broker", "serve",
            "--management-listen=off", "--prometheus-listen=off", "--listen", "127.0.0.1:0", "--data-dir", str(before),
             *map(str, flags)],
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            run("cluster", "join", "--url", first.url, "--data-dir", third.broker.data_dir, *flags)
            said = old.communicate(timeout=PATIENCE_S)[1]
        finally:
            old.kill()
        assert first.is_running, first.logs
        assert old.returncode == GIVEN_UP, said
        assert said.count("this folder belongs to generation 0 of the cluster, and node n1 to ") == 1
        third.start()
        until(first, lambda status: is_voter_everywhere(status, "n3"))
        assert take_all(third) == list(range(BATCH))


@pytest.mark.long
def test_a_copy_that_was_restored_beside_the_running_cluster_harms_nobody(tmp_path: Path) -> None:
    """It has a member's name, its address and the secret; nobody has said that it replaces anything."""
    with amqp_broker.running_cluster(3, tmp_path / "nodes") as cluster:
        first, second, third = cluster.nodes
        until_all_vote(cluster, first)
        publish(first, 0)
        first.stop()
        copied = tmp_path / "copied"
        shutil.copytree(first.broker.data_dir, copied)
        run("cluster", "restore", "--data-dir", copied)
        before = {node.name: len(node.logs) for node in cluster.nodes}
        log = tmp_path / "copy.log"
        with log.open("wb") as file:
            copy = subprocess.Popen(
                [sys.executable, "-P", "-m", "amqp_broker", "serve",
                "--management-listen=off", "--prometheus-listen=off", "--listen", "127.0.0.1:0",
                 "--data-dir", str(copied), "--node-name", "n1", "--cluster-listen", str(first.address),
                 "--cluster-secret-file", secret_of(cluster)],
                stderr=file,
            )  # fmt: skip
        try:
            for node in (second, third):
                until(node, lambda _, node=node: "n1 is not let in" in node.logs[before[node.name] :])  # type: ignore[misc]
            publish(third, BATCH)
            assert copy.poll() is None
        finally:
            copy.terminate()
            copy.wait(PATIENCE_S)
        for node in (second, third):
            said = node.logs[before[node.name] :]
            assert node.is_running, said
            assert said.count("n1 is not let in: it belongs to generation") == 1, said
            assert "amqp-broker cluster restore` has made a cluster of its own. Stop it" in said
        for name in ("n2", "n3"):
            assert log.read_text().count(f"{name} is told that it is no member of this cluster") == 1
        first.start()
        until_all_vote(cluster, first)
        assert take_all(second) == list(range(2 * BATCH))


def run(*arguments: object) -> str:
    """`amqp-broker` with these arguments. Returns what it printed."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "amqp_broker", *map(str, arguments)],
        check=False, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, (arguments, done.stdout, done.stderr)
    return done.stdout


@pytest.mark.parametrize("workers", [1, 2])
def test_a_removed_node_that_starts_again_says_so_once_and_ends(workers: int, tmp_path: Path) -> None:
    """It was down when it was removed, so nobody has told it. The others have a line for it, however often it comes."""
    with amqp_broker.running_cluster(3, tmp_path / "nodes", start_timeout_s=90.0, workers=workers) as cluster:
        first, second, third = cluster.nodes
        until_all_vote(cluster, first)
        third.stop()
        with SystemClient(first.url) as client:
            client.request("cluster.remove", node="n3", drops_queues=True)
        for node in (first, second):
            until(node, lambda status: "n3" not in links_of(status) and not is_in_a_group(status, "n3"))
        before = [len(node.logs) for node in (first, second)]
        said = start_and_end(third)
        text = f"{third.broker.data_dir}: node n3 was removed from the cluster"
        assert said.count(text) == 1
        assert said.count("ERROR") + said.count("CRITICAL") == 0
        for _ in range(2):
            assert unusual(start_and_end(third)) == [line for line in said.splitlines() if text in line]
        for node, known in zip((first, second), before, strict=True):
            others = [line for line in node.logs[known:].splitlines() if "its consumers go" not in line]
            assert len([line for line in others if "is told that it is no member" in line]) <= 1
            # Linked, told, lost, and not reached, as it came; not one more for each time that it comes again.
            assert len(others) <= 4, others

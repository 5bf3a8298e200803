"""A cluster of hosts of which each is several processes: the clients see one broker, and what it confirms outlives any
of the processes, and any of the hosts.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from pathlib import Path

import aio_pika
import pytest
import trustme
from aio_pika.abc import AbstractConnection

from amqp_broker.client import Connection
from amqp_broker.client.errors import ClientError
from amqp_broker.server.workers_file import read_stored
from amqp_broker.system_client import SystemClient, SystemRequestError
from amqp_broker.testing.embedded_cluster import ClusterNode, RunningCluster, running_cluster
from tests.server.worker_load import (
    CLASSIC,
    LASTING,
    STREAM,
    Publisher,
    all_get_on,
    declare,
    declare_lasting,
    drain,
    homes_of,
    is_alive,
    is_another,
    process_of,
    stop_all,
    until,
)

#: Connections to each host: so many that all but certainly each of its two workers has some.
CONNECTIONS = 6
HOSTS = ("n1", "n2", "n3")
WORKERS = {"n1", "n1/1", "n2", "n2/1", "n3", "n3/1"}
LOCAL = {"x-queue-master-locator": "client-local"}


def hosts(folder: Path | None = None, **settings: object) -> RunningCluster:
    return running_cluster(3, folder, start_timeout_s=90.0, workers=2, **settings)


def folder_of(node: ClusterNode) -> Path:
    return Path(node.broker.data_dir)


def processes_of(node: ClusterNode) -> list[int]:
    """Its workers' numbers, worker 0's first."""
    return [process_of(folder_of(node), worker) for worker in (0, 1)]


async def opened(stack: contextlib.AsyncExitStack, cluster: RunningCluster) -> list[AbstractConnection]:
    """Connections to all hosts."""
    urls = [url for url in cluster.urls for _ in range(CONNECTIONS)]
    return [await stack.enter_async_context(await aio_pika.connect(url)) for url in urls]


def ask_all(cluster: RunningCluster, verb: str, **fields: object) -> dict[str, dict[str, object]]:
    """What a verb answers, by the worker that was asked: each of them. Who asks stays: a new client is given to a
    worker with fewer of them, and those that moved to their queues may all be at one."""
    answers: dict[str, dict[str, object]] = {}
    with contextlib.ExitStack() as stack:
        for _ in range(20):
            for url in cluster.urls:
                client = stack.enter_context(SystemClient(url))
                node = client.request("statistics")["statistics"]["node"]
                answers[node] = client.request(verb, **fields)
            if set(answers) == WORKERS:
                return answers
    raise AssertionError(f"only {sorted(answers)} were reached")


async def use_everywhere(cluster: RunningCluster) -> None:
    async with contextlib.AsyncExitStack() as stack:
        channels = [await each.channel() for each in await opened(stack, cluster)]
        exchange = await channels[0].declare_exchange("all", aio_pika.ExchangeType.FANOUT)
        names = [f"own{number}" for number in range(len(channels))]
        for name, channel in zip(names, channels, strict=True):
            queue = await channel.declare_queue(name, durable=True, arguments=LOCAL)
            await queue.bind(exchange.name)
        for name, more in (("lasting", LASTING), ("stream", STREAM)):
            await channels[1].declare_queue(name, durable=True, arguments=more)
        for channel in channels:  # what was answered is known at every worker of every host
            for name in (*names, "lasting", "stream"):
                await channel.declare_queue(name, passive=True)
        bodies = [b"%d" % number for number in range(len(channels))]
        for body, channel in zip(bodies, channels, strict=True):
            everywhere = await channel.get_exchange(exchange.name)
            assert await everywhere.publish(aio_pika.Message(body, delivery_mode=2), "")
            for name in ("lasting", "stream"):
                assert await channel.default_exchange.publish(aio_pika.Message(body, delivery_mode=2), name)
        for number, name in enumerate(names):  # each is read at another worker, whose connection has not declared it
            queue = await channels[number - CONNECTIONS - 1].get_queue(name)
            got = [(await queue.get(timeout=10)) for _ in bodies]
            assert [each.body for each in got] == bodies
            await got[-1].ack(multiple=True)
        lasting = await channels[-1].get_queue("lasting")
        assert [(await lasting.get(no_ack=True, timeout=10)).body for _ in bodies] == bodies
        for channel in channels:
            assert await read_stream(channel, len(bodies)) == bodies
        await look_everywhere(cluster, names)


async def read_stream(channel: aio_pika.abc.AbstractChannel, count: int) -> list[bytes]:
    """Its first messages, over another channel of the same connection."""
    found: list[bytes] = []
    came = asyncio.Event()

    async def take(message: aio_pika.abc.AbstractIncomingMessage) -> None:
        found.append(message.body)
        await message.ack()
        came.set()

    await channel.set_qos(10)
    queue = await channel.get_queue("stream")
    tag = await queue.consume(take, arguments={"x-stream-offset": "first"})
    async with asyncio.timeout(30):
        while len(found) < count:
            await came.wait()
            came.clear()
    await queue.cancel(tag)
    return found


async def look_everywhere(cluster: RunningCluster, names: list[str]) -> None:
    """Each worker says the same of the cluster."""
    homes = {}
    for answer in ask_all(cluster, "objects.page", kind="queues", vhost="/", columns=["name", "node"]).values():
        homes = homes or dict(answer["rows"])  # type: ignore[call-overload]
        assert homes == dict(answer["rows"])  # type: ignore[call-overload]
    assert {homes[name] for name in names} == WORKERS
    for answer in ask_all(cluster, "queue.list", vhost="/").values():
        counts = {each["name"]: each["messages_ready"] for each in answer["queues"]}  # type: ignore[attr-defined]
        assert counts == {**dict.fromkeys(names, 0), "lasting": 0, "stream": 3 * CONNECTIONS}
    for answer in ask_all(cluster, "cluster.status").values():
        assert [each["node"] for each in answer["members"]] == list(HOSTS)  # type: ignore[attr-defined]
        assert all(each["is_linked"] for each in answer["members"])  # type: ignore[attr-defined]
        assert all(len(each["voters"]) == 3 for each in answer["groups"])  # type: ignore[attr-defined]
    for answer in ask_all(cluster, "totals").values():
        assert set(answer["nodes"]) == WORKERS  # type: ignore[call-overload]
        assert answer["stale"] == []


def test_clients_of_every_worker_of_every_host_use_the_same_queues() -> None:
    with hosts() as cluster:
        asyncio.run(use_everywhere(cluster))
        assert all(each.is_running for each in cluster.nodes)


async def killed(node: ClusterNode, worker: int) -> None:
    """Its worker is another process since."""
    before = process_of(folder_of(node), worker)
    os.kill(before, signal.SIGKILL)
    await until(lambda: not is_alive(before), "it does not die")
    await until(lambda: is_another(folder_of(node), worker, before), "it does not come again")


async def lose_nothing(folder: Path, **settings: object) -> None:
    with hosts(folder, **settings) as cluster:
        first, second, third = cluster.nodes
        await declare(first.url)
        lasting = await declare_lasting(first.url, LASTING)
        local = [f"at{number}" for number in range(6)]
        async with contextlib.AsyncExitStack() as stack:
            for name, url in zip(local, [first.url, second.url, third.url] * 2, strict=True):
                connection = await stack.enter_async_context(await aio_pika.connect(url))
                await (await connection.channel()).declare_queue(name, durable=True, arguments=LOCAL)
        queues = (*CLASSIC, *local, "lasting", "stream", *lasting)
        publishers = [Publisher(cluster.urls[number % 3], name) for number, name in enumerate(queues)]

        async def go_on(why: str) -> None:
            await all_get_on(publishers, why)

        await go_on("at the start")
        for worker in (1, 0):
            await killed(second, worker)
            await go_on(f"since worker {worker} of n2 was killed")
        workers = processes_of(third)
        os.kill(third.broker.process.pid, signal.SIGKILL)
        await until(lambda: not any(map(is_alive, workers)), "the workers outlive the supervisor")
        await asyncio.to_thread(third.restart, kill=True)
        await go_on("since the supervisor of n3 was killed")
        for each in [first.broker.process.pid, *processes_of(first)]:
            os.kill(each, signal.SIGKILL)
        kept = ("lasting", "stream", *lasting)
        there = [each for each in publishers if each.queue in kept and each.url != first.url]
        await all_get_on(there, "while n1 is away, which is one of three")
        await asyncio.to_thread(first.restart, kill=True)
        await go_on("since the whole of n1 was killed")
        await stop_all(publishers)
        for each in publishers:
            await drain(third.url, each.queue, set(each.confirmed))


@pytest.mark.parametrize(
    "is_spread",
    [
        # test_workers.py kills the processes of one host, and tests/chaos nodes whose groups are all at worker 0.
        pytest.param(False, id="groups at workers 0", marks=pytest.mark.long),
        pytest.param(True, id="spread groups"),
    ],
)
def test_what_was_confirmed_outlives_each_process_of_each_host(tmp_path: Path, is_spread: bool) -> None:
    asyncio.run(lose_nothing(tmp_path, spread_groups=is_spread, queue_groups=4))


def use(url: str, name: str, arguments: dict[str, object] | None = None) -> None:
    """A queue is declared, published to and read, over connections that may be at any worker."""

    async def run() -> None:
        async with await aio_pika.connect(url) as connection, await connection.channel() as channel:
            await channel.declare_queue(name, durable=True, arguments=arguments)
        async with await aio_pika.connect(url) as connection, await connection.channel() as channel:
            assert await channel.default_exchange.publish(aio_pika.Message(b"one", delivery_mode=2), name)
        async with await aio_pika.connect(url) as connection, await connection.channel() as channel:
            queue = await channel.get_queue(name)
            assert (await queue.get(no_ack=True, timeout=10)).body == b"one"

    asyncio.run(run())


def test_links_of_workers_over_tls(tmp_path: Path) -> None:
    authority = trustme.CA()
    certificate = authority.issue_cert(*HOSTS)  # of all, as each has one certificate for all of its workers
    certificate.private_key_pem.write_to_path(tmp_path / "key.pem")
    certificate.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    files = {f"cluster_{name}": tmp_path / f"{name}.pem" for name in ("cert", "key", "ca")}
    with hosts(**files) as cluster:
        assert set(ask_all(cluster, "statistics")) == WORKERS
        for number in range(12):
            use(cluster.urls[number % 3], f"q{number}")
        totals = ask_all(cluster, "totals")
        assert all(set(each["nodes"]) == WORKERS for each in totals.values())  # type: ignore[call-overload]
        for health in ask_all(cluster, "health").values():
            (shown,) = health["certificates"]  # type: ignore[misc]
            assert (shown["protocol"], shown["certfile"]) == ("clustering", str(files["cluster_cert"]))
            assert len(shown["certfile_ends_at"]) == len(shown["cacertfile_ends_at"]) == 1


def place_at(cluster: RunningCluster, home: str, name: str) -> None:
    """A durable queue that lives at a worker."""

    async def run() -> None:
        url = cluster.node(home.partition("/")[0]).url
        for _ in range(60):
            async with await aio_pika.connect(url) as connection, await connection.channel() as channel:
                await channel.declare_queue(name, durable=True, arguments=LOCAL)
                with_homes = await asyncio.to_thread(homes_of, url)
                if with_homes[name] == home:
                    return
                await channel.queue_delete(name)
        raise AssertionError(f"no connection comes to {home}")

    asyncio.run(run())


def test_a_host_is_added_and_removed_with_its_workers() -> None:
    async def wait_until_removed(node: ClusterNode, left: RunningCluster) -> None:
        await until(lambda: not node.is_running, f"a host that was removed goes on:\n{node.logs}")
        assert node.broker.process.wait() == 0
        await until(lambda: members_of(left.urls[0]) == ["n2", "n3", "n4"], "it is a member still")

    with hosts(spread_groups=True) as cluster:
        cluster.add_node()
        use(cluster.urls[3], "at the new one")
        place_at(cluster, "n1/1", "kept")
        for url in cluster.urls[1:]:  # whichever worker is asked
            with SystemClient(url) as client:
                has_joined = lambda: "another change" not in refused_to_remove(client, "n1")  # noqa: E731
                asyncio.run(until(has_joined, "n4 joins still"))
                assert "1 durable classic queues live on" in refused_to_remove(client, "n1")
        with SystemClient(cluster.urls[1]) as client:
            client.request("queue.rehome", vhost="/", name="kept", home="n4/1")
            asyncio.run(until(lambda: homes_of(cluster.urls[2])["kept"] == "n4/1", "it does not move to another host"))
            client.request("cluster.remove", node="n1")
        gone = cluster.nodes.pop(0)
        try:
            asyncio.run(wait_until_removed(gone, cluster))
            for number, url in enumerate(cluster.urls):
                use(url, f"after{number}")
            with SystemClient(cluster.urls[0]) as client:
                nodes = client.request("totals")["nodes"]
            assert set(nodes) == {f"n{number}{worker}" for number in (2, 3, 4) for worker in ("", "/1")}
        finally:
            gone.close()


def test_a_host_is_drained_with_its_workers_whoever_is_asked() -> None:
    def is_closed(client: Connection) -> bool:
        try:
            client.poll()
        except ClientError:
            return True
        return False

    async def drain_first(cluster: RunningCluster) -> None:
        clients = [Connection.open(cluster.urls[0]) for _ in range(CONNECTIONS)]
        await asyncio.to_thread(place_at, cluster, "n1/1", "one")
        guards = await asyncio.to_thread(ask_all, cluster, "node.guard", node="n1")
        assert [guard["node"] for guard in guards.values()] == ["n1"] * 6
        assert [guard["classic_queues"] for guard in guards.values()] == [1] * 6
        await declare_lasting(cluster.urls[0], LASTING)
        with SystemClient(cluster.urls[1]) as asked:
            assert asked.request("node.drain", node="n1")["is_draining"]
            await until(lambda: "n1" not in leaders_of(asked), "a group of one of its workers is led there")
            await until(lambda: asked.request("node.guard", node="n1")["leads"] == 0, "it says that it leads")
        await until(lambda: all(map(is_closed, clients)), "a worker was not told")
        for client in clients:
            client.abort()
        with SystemClient(cluster.urls[1]) as asked:
            assert not asked.request("node.revive", node="n1")["is_draining"]
            await until(lambda: "n1" in leaders_of(asked), "it leads nothing again")

    with hosts(spread_groups=True) as cluster:
        asyncio.run(drain_first(cluster))


def leaders_of(client: SystemClient) -> list[str]:
    """The hosts that lead groups; "" for none."""
    return [row["leader"] or "" for row in client.request("cluster.status", brief=True)["groups"]]


def takes_over(asked: SystemClient, name: str, target: str) -> bool:
    """Whether its leader was found and told: after a start or a transfer others may take somebody else for it."""
    try:
        asked.request("cluster.transfer", vhost="/", queue=name, node=target)
    except SystemRequestError as error:
        if "this member does not lead the group" not in str(error):
            raise
        return False
    return True


def refused_to_remove(client: SystemClient, node: str) -> str:
    """Why it is refused."""
    with pytest.raises(SystemRequestError) as said:
        client.request("cluster.remove", node=node)
    return str(said.value)


def test_leaders_of_groups_at_workers_are_handed_over_and_spread(tmp_path: Path) -> None:
    """Whichever worker is asked."""

    async def hand_over(cluster: RunningCluster) -> None:
        names = await declare_lasting(cluster.urls[0], LASTING)
        publishers = [Publisher(cluster.urls[number % 3], name) for number, name in enumerate(names)]
        for target in HOSTS:
            for number, name in enumerate(names):
                with SystemClient(cluster.urls[number % 3]) as asked:
                    await until(
                        lambda asked=asked, name=name, target=target: takes_over(asked, name, target),  # type: ignore[misc]
                        f"'{name}' has nobody who hands it to {target}",
                    )
                    await until(
                        lambda asked=asked, name=name, target=target: leader_of(asked, name) == target,  # type: ignore[misc]
                        f"{target} does not lead '{name}'",
                    )
            await all_get_on(publishers, f"since {target} leads all")
        with SystemClient(cluster.urls[1]) as asked:
            asked.request("cluster.rebalance")
            await until(lambda: {*leaders_of(asked)} == {*HOSTS}, "leaders are not spread")
        await all_get_on(publishers, "since leaders are spread")
        await stop_all(publishers)
        for each in publishers:
            await drain(cluster.urls[2], each.queue, set(each.confirmed))

    with hosts(tmp_path, spread_groups=True, queue_groups=4) as cluster:
        asyncio.run(hand_over(cluster))


def leader_of(client: SystemClient, queue: str) -> str:
    """The host that leads the group of a queue."""
    rows = client.request("objects.page", kind="queues", vhost="/", columns=["name", "leader"])["rows"]
    return str(dict(rows)[queue]).partition("/")[0]


def members_of(url: str) -> list[str]:
    with SystemClient(url) as client:
        return [each["node"] for each in client.request("cluster.status", brief=True)["members"]]


async def restart_all(folder: Path) -> None:
    """Under load, from nodes of one process to hosts of three, and to hosts of two of which a third is emptied."""
    with running_cluster(3, folder, start_timeout_s=90.0) as cluster:
        await declare(cluster.urls[0])
        publishers = [Publisher(cluster.urls[number % 3], name) for number, name in enumerate((*CLASSIC, "lasting"))]
        for workers in (3, 2):
            for node in cluster.nodes:
                node.broker._flags.append(f"--workers={workers}")
                await asyncio.to_thread(node.restart)
                await all_get_on(publishers, f"since {node.name} has {workers} workers")
        await stop_all(publishers)
        for each in publishers:
            await drain(cluster.urls[1], each.queue, set(each.confirmed))
        folders = [folder / name / "workers" / "2" for name in HOSTS]
        await until(lambda: not any(each.exists() for each in folders), "a worker that holds nothing stays")


@pytest.mark.long  # hosts whose groups are spread do the same below
def test_hosts_get_workers_one_after_the_other(tmp_path: Path) -> None:
    asyncio.run(restart_all(tmp_path))


async def change_workers(folder: Path) -> None:
    """Under load, hosts whose groups are spread get more workers and fewer, one host after the other."""
    with hosts(folder, spread_groups=True, queue_groups=4) as cluster:
        names = [*await declare_lasting(cluster.urls[0], LASTING), *await declare_lasting(cluster.urls[0], STREAM)]
        publishers = [Publisher(cluster.urls[number % 3], name) for number, name in enumerate(names)]
        for workers in (3, 1):
            for node in cluster.nodes:
                node.broker._flags.append(f"--workers={workers}")
                await asyncio.to_thread(node.restart)
                await all_get_on(publishers, f"since {node.name} has {workers} workers")
        await stop_all(publishers)
        for each in publishers:
            await drain(cluster.urls[1], each.queue, set(each.confirmed))
        for name in HOSTS:
            assert read_stored(folder / name).groups == {1: 1, 3: 1}, "a log stays where it is"
        folders = [folder / name / "workers" / "2" for name in HOSTS]
        await until(lambda: not any(each.exists() for each in folders), "a worker that holds nothing stays")


def test_hosts_with_spread_groups_get_more_workers_and_fewer(tmp_path: Path) -> None:
    asyncio.run(change_workers(tmp_path))

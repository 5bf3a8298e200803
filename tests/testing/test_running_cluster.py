"""`amqp_broker.running_cluster`: nodes that are started together and end one by one."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import amqp_broker
from amqp_broker.client import Connection
from amqp_broker.settings.setting import ConfigError


def answers(url: str) -> bool:
    with Connection.open(url) as connection:
        return connection.is_open


def test_three_urls_and_nothing_is_left(tmp_path: Path) -> None:
    with amqp_broker.running_cluster(3) as cluster:
        assert len(set(cluster.urls)) == 3
        assert all(map(answers, cluster.urls))
        assert [node.name for node in cluster.nodes] == ["n1", "n2", "n3"]
        assert cluster.node("n2") is cluster.nodes[1]
        folders = [node.broker.data_dir for node in cluster.nodes]
        processes = [node.broker.process for node in cluster.nodes]
    assert [process.poll() for process in processes] == [0, 0, 0]
    assert not any(folder.exists() for folder in folders)
    assert cluster.urls == []
    cluster.stop()


async def test_it_is_an_async_context_manager_too() -> None:
    async with amqp_broker.running_cluster(2) as cluster:
        assert await asyncio.to_thread(answers, cluster.urls[1])


def test_a_node_comes_back_where_it_was(tmp_path: Path) -> None:
    with amqp_broker.running_cluster(3, tmp_path) as cluster:
        node = cluster.nodes[0]
        url = node.url
        for end in (node.kill, node.stop):
            end()
            assert not node.is_running
            assert node.url == url
            node.start()
            assert answers(url)
        node.restart(kill=True)
        assert answers(url)
        with pytest.raises(RuntimeError, match="already runs"):
            node.start()
    assert (tmp_path / "n1" / "FORMAT").exists(), "a folder that was named is kept"


def test_a_node_that_does_not_get_ready_is_down_and_keeps_its_data() -> None:
    with amqp_broker.running_cluster(2) as cluster:
        first, second = cluster.nodes
        first.stop()
        second.stop()
        said = ""
        for patience_s in (6.0, 60.0):  # long enough for a machine that others share to come so far
            with pytest.raises(amqp_broker.BrokerStartError, match="not ready within") as failure:
                first.start(timeout_s=patience_s)
            said = failure.value.log
            if "waiting for a majority" in said:
                break
        assert "waiting for a majority of n1, n2: nobody leads, no link with n2" in said
        assert not first.is_running
        assert first.broker.data_dir.exists()


def test_settings_go_to_every_node() -> None:
    with amqp_broker.running_cluster(2, channel_max=5) as cluster:
        for url in cluster.urls:
            with Connection.open(url) as connection:
                assert connection.channel_max == 5


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="a cluster of 0 nodes"):
        amqp_broker.running_cluster(0)
    cluster = amqp_broker.running_cluster(2, memory_bugdet="1GB")
    with pytest.raises(ConfigError, match="memory_bugdet"):
        cluster.start()
    assert cluster.nodes == []

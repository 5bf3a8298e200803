"""A cluster of three of the version before is upgraded node by node under load, and back again before the last one is
through: nothing that was confirmed is lost, and clients see nothing but the reconnects of the node that is away.
"""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from random import Random

import pytest

from storage.folder_format import BASE_VERSION, FORMAT_VERSION
from tests.chaos.history import QueueKind
from tests.chaos.nodes import START_TIMEOUT_S, Cluster, Program
from tests.chaos.rounds import Campaign, Round
from tests.upgrade.earlier import LEVEL_1, WITH_STREAMS, NoHistory, earlier_program
from tests.upgrade.rolling import Rolling, Step

REST_S = 1.0
SHORT = (Step.UPGRADE_N1, Step.UPGRADE_N2, Step.BACK_N1)
LONG = (
    Step.UPGRADE_N1, Step.UPGRADE_N2, Step.BACK_N2, Step.BACK_N1,
    Step.UPGRADE_N3, Step.UPGRADE_N2, Step.BACK_N3, Step.UPGRADE_N1, Step.UPGRADE_N3,
)  # fmt: skip
#: A clean run takes a tenth of it.
LIMIT_S = 400.0
#: Other tests share the processors, and the earlier version is not compiled.
OUTAGE_LIMIT_S = 15.0
#: So many times as long as in a campaign of faults do clients rest: else they and nodes that are not compiled have the
#: processors to themselves.
LEISURE = 6.0
#: All that a client may meet: its connection ends when its node does, and takes what is on it along.
RECONNECTS = {
    "AMQPConnectionError", "AMQPError", "ConnectionClosed", "ConnectionError", "ConnectionRefusedError",
    "ConnectionResetError", "CancelledError", "ChannelInvalidStateError", "RuntimeError", "TimeoutError",
}  # fmt: skip
#: A classic queue is away with its home: who declares it hears this, and who publishes to it a nack.
AWAY = re.compile(r"NOT_FOUND - home node 'n\d' of durable queue 'chaos\.classic\.n\d' in vhost '/' is down")


async def _roll(tmp_path: Path, steps: tuple[Step, ...], commit: str = LEVEL_1, *flags: str) -> Rolling:
    """flags: of the later version."""
    try:
        earlier = earlier_program(commit, tmp_path / "earlier")
    except NoHistory as error:
        pytest.skip(str(error))
    chance = Random(4)
    cluster = Cluster(tmp_path, chance, program=earlier)
    try:
        await cluster.start()
        scene = Rolling(cluster, earlier, Program(flags=(*Program.flags, *flags)))
        has_streams = commit is not LEVEL_1
        campaign = Campaign(cluster, scene, chance, OUTAGE_LIMIT_S, has_streams, LEISURE)
        await campaign.prepare()
        try:
            async with asyncio.timeout(LIMIT_S):
                done = await campaign.run(steps, REST_S)
        except TimeoutError:  # clients wait for ever for a node that does not start
            tails = "\n".join(f"{node.name}:\n{node.log_tail()}" for node in cluster.nodes.values())
            pytest.fail(f"not over after {LIMIT_S} s; {scene.told}, {scene.complaints}\n{tails}")
    finally:
        statuses = await cluster.stop()
    assert done.findings.violations == [], scene.told
    assert set(statuses.values()) == {0}
    assert _strange_errors(done) == []
    counts = done.findings.counts
    assert counts[QueueKind.QUORUM].nacked == 0
    assert min(counts[QueueKind.QUORUM].confirmed, counts[QueueKind.CLASSIC].confirmed) > 100
    if commit is not LEVEL_1:
        assert campaign.streams.confirmed > 100
        assert campaign.streams.delivered > campaign.streams.confirmed
    complaints = [line for name in cluster.names for line in _complaints(cluster.nodes[name].log)]
    assert complaints == []
    return scene


def _strange_errors(done: Round) -> list[str]:
    """What clients met that is neither a reconnect nor said of a classic queue whose home is away."""
    strange = []
    for name, texts in done.error_texts.items():
        error = name.rpartition(": ")[2]
        if error == "ChannelNotFoundEntity":
            strange += [text for text in texts if not AWAY.search(text)]
        elif error not in (*RECONNECTS, "DeliveryError"):
            strange += [f"{name}: {text}" for text in texts]
    return strange


def _complaints(log: Path) -> list[str]:
    """The lines of errors in a node's log."""
    return [f"{log.name}: {line}" for line in log.read_text().splitlines() if " ERROR " in line or " CRITICAL " in line]


async def test_a_cluster_is_upgraded_node_by_node_and_back(tmp_path: Path) -> None:
    scene = await _roll(tmp_path, SHORT)
    assert scene.commands == ["guard n1", "drain n1"], "the version before has no such command"
    assert set(scene.formats().values()) == {BASE_VERSION}, "one has not been upgraded, so that all may go back"


@pytest.mark.long
async def test_a_cluster_of_nodes_is_upgraded_to_hosts_of_workers(tmp_path: Path) -> None:
    """Those that are upgraded first serve clients with one worker, until the last one knows what workers are."""
    scene = await _roll(tmp_path, (Step.UPGRADE_N1, Step.UPGRADE_N2, Step.UPGRADE_N3), LEVEL_1, "--workers=2")
    assert set(scene.formats().values()) == {FORMAT_VERSION}
    for node in scene.cluster.nodes.values():
        assert (node.data / "workers" / "1" / "FORMAT").exists()


@pytest.mark.long
async def test_a_cluster_is_upgraded_to_the_last_node(tmp_path: Path) -> None:
    scene = await _roll(tmp_path, LONG)
    assert set(scene.formats().values()) == {FORMAT_VERSION}
    node = scene.cluster.nodes["n1"]
    node.program = scene.earlier
    await node.start()
    assert await node.wait_ended(START_TIMEOUT_S) == 2
    assert f"written in version {FORMAT_VERSION} of the format, and this broker reads {BASE_VERSION}" in node.log_tail()


@pytest.mark.long
async def test_a_cluster_with_streams_is_upgraded_to_the_last_node(tmp_path: Path) -> None:
    """Streams, groups of readers, partitions and queues over streams, all of which the earlier version has too."""
    scene = await _roll(tmp_path, LONG, WITH_STREAMS)
    assert set(scene.formats().values()) == {FORMAT_VERSION}

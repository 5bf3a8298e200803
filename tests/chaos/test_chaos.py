"""Three real nodes and short faults, one of each sort, in an order by chance.

`make kill-test` makes one of each kind. The campaign is `make chaos`: thirty rounds of longer faults, and limits for
how long nobody may write (docs/chaos.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.chaos.faults import FaultKind, Scene, kinds_for
from tests.chaos.history import QueueKind
from tests.chaos.nodes import Cluster
from tests.chaos.rounds import Campaign, Round

SECONDS = 1.5
#: Other tests share the processors: how long an outage is on a machine of its own is what the long form measures.
OUTAGE_LIMIT_S = 15.0
#: They share them with the clients as well, who would take all that there is.
LEISURE = 12.0
#: So many messages are confirmed, of each sort of queue, for each fault.
LEAST_A_FAULT = 14
#: One, or all, are gone, stand still, are alone, hear one side, lose what is on its way, cannot write, have forgotten.
#: The other kinds differ from these in whom they meet; each of them has its tests (tests/server, tests/robustness) or
#: its weather (tests/cluster_simulation).
SHORT = (
    FaultKind.KILL_LEADER,
    FaultKind.KILL_ALL,
    FaultKind.PAUSE_LEADER,
    FaultKind.ISOLATED_LEADER,
    FaultKind.RING,
    FaultKind.LOSSY,
    FaultKind.DISK_FULL,
    FaultKind.EMPTIED,
)
SHORT_OF_WORKERS = (
    FaultKind.KILL_WORKER,
    FaultKind.KILL_WORKER_0,
    FaultKind.KILL_SUPERVISOR,
    FaultKind.KILL_MOVING,
)


async def outlive(
    cluster: Cluster, chance: Random, faults: Sequence[FaultKind], least: int, **how: Any
) -> tuple[Campaign, Round]:
    """A fault of each of these kinds, in an order by chance, with so many messages at least; nothing is violated."""
    told: list[str] = []
    try:
        await cluster.start()
        campaign = Campaign(cluster, Scene(cluster, chance, told.append), chance, OUTAGE_LIMIT_S, **how)
        await campaign.prepare()
        done = await campaign.run(chance.sample(faults, len(faults)), SECONDS)
    finally:
        statuses = await cluster.stop()
    assert done.findings.violations == [], told
    assert set(statuses.values()) == {0}
    # It was a test at all: there was load on both kinds of queues, and all that was to fail did.
    counts = done.findings.counts
    assert min(counts[QueueKind.QUORUM].confirmed, counts[QueueKind.CLASSIC].confirmed) > least
    assert len(done.faults) == len(faults)
    return campaign, done


@pytest.mark.parametrize(
    "faults",
    [
        pytest.param(SHORT, id="one of each sort"),
        pytest.param(kinds_for(1), id="one of each kind", marks=pytest.mark.long),
    ],
)
async def test_every_confirmed_message_is_delivered_whatever_fails(faults: Sequence[FaultKind], tmp_path: Path) -> None:
    chance = Random(20)
    cluster = Cluster(tmp_path, chance, small_disk="n2")
    least = LEAST_A_FAULT * len(faults)
    campaign, done = await outlive(cluster, chance, faults, least, leisure=LEISURE)
    assert done.holds > len(faults), "locks were held"
    assert campaign.streams.confirmed > least
    assert campaign.streams.delivered > campaign.streams.confirmed


@pytest.mark.long
async def test_every_confirmed_message_is_delivered_whichever_process_of_a_host_fails(tmp_path: Path) -> None:
    """A few of the faults; all are those of `make chaos WORKERS=2`."""
    chance = Random(4)
    cluster = Cluster(tmp_path, chance, workers=2)
    await outlive(cluster, chance, SHORT_OF_WORKERS, 100, has_streams=False)

"""Three real nodes and a short fault of each kind, in an order by chance.

The campaign is `make chaos`: thirty rounds of longer faults, and limits for how long nobody may write (docs/chaos.md).
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


async def test_every_confirmed_message_is_delivered_whatever_fails(tmp_path: Path) -> None:
    chance = Random(20)
    cluster = Cluster(tmp_path, chance, small_disk="n2")
    campaign, done = await outlive(cluster, chance, kinds_for(1), 250, leisure=LEISURE)
    assert done.holds > 25, "locks were held"
    assert campaign.streams.confirmed > 250
    assert campaign.streams.delivered > campaign.streams.confirmed


@pytest.mark.long
async def test_every_confirmed_message_is_delivered_whichever_process_of_a_host_fails(tmp_path: Path) -> None:
    """A few of the faults; all are those of `make chaos WORKERS=2`."""
    chance = Random(4)
    cluster = Cluster(tmp_path, chance, workers=2)
    await outlive(cluster, chance, SHORT_OF_WORKERS, 100, has_streams=False)

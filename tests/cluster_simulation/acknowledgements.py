"""Acknowledgements: what the logs have of them against what clients have sent."""

from __future__ import annotations

from tests.cluster_simulation.client_model import ClientModel
from tests.cluster_simulation.log_model import LogModel
from tests.simulation.state import Violation


def check_acknowledged(log: LogModel, clients: ClientModel) -> None:
    """What the log has as acknowledged was acknowledged by a client, or needed none. Raises Violation."""
    for queue in log.queues.values():
        for copy in queue.copies.values():
            for handing in copy.handings:
                holder = handing.holder
                key = (holder.origin, "" if holder.is_getter else holder.tag, queue.kind.name, copy.number)
                if handing.end != "acknowledged" or clients.acknowledged[key]:
                    continue
                if clients.had_takers(queue.kind.name, 0):
                    continue
                raise Violation(f"{copy} was acknowledged by nobody: {handing}")

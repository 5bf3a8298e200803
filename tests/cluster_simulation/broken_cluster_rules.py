"""One rule of a cluster turned off at a time, to see that the simulation notices. Those of a group alone are in
tests/raft/broken_rules.py."""

from __future__ import annotations

from typing import Any

import pytest

from amqp_broker.cluster import metadata_machine
from amqp_broker.cluster.metadata_stream import MetadataStream
from amqp_broker.node import Node, Turn
from queues.quorum.commands import Batch
from queues.quorum.execution import Execution
from queues.quorum.state import Origin
from tests.cluster_simulation.cluster_node import ClusterNode
from tests.simulation.simulated_disk import SimulatedDisk

Patch = pytest.MonkeyPatch


class ForgetfulDisk(SimulatedDisk):
    """A disk that says it has synced, and has not."""

    def sync(self, path: str) -> None:
        self.size(path)


def a_sync_that_is_none(patch: Patch) -> None:
    patch.setattr(ClusterNode, "disk_type", ForgetfulDisk)


class _Hasty(Node):
    def end_turn(self, now: int) -> Turn:
        turn = super().end_turn(now)
        for channel in self._awaiting:
            channel.synced(1 << 62)
        turn.dirty.extend(self.dirty)
        self.dirty = []
        return turn


def confirm_before_the_sync(patch: Patch) -> None:
    """Of classic queues: the node's own disk is not waited for."""
    patch.setattr(ClusterNode, "node_type", _Hasty)


def streams_are_not_deduplicated(patch: Patch) -> None:
    """What a node sends again is executed again."""
    run_stream = Execution._run_stream

    def forgetful(self: Execution, batch: Batch) -> None:
        origin = self.state.origins.get(batch.origin)
        if origin is not None and origin.session == batch.session and batch.first <= origin.last_sequence:
            last = origin.last_sequence
            origin.last_sequence = batch.first - 1
            run_stream(self, batch)
            origin.last_sequence = max(last, origin.last_sequence)
        else:
            run_stream(self, batch)

    patch.setattr(Execution, "_run_stream", forgetful)


def gaps_in_streams_are_skipped(patch: Patch) -> None:
    """What comes behind a gap is executed, and what fills the gap comes too late."""
    run_stream = Execution._run_stream

    def hasty(self: Execution, batch: Batch) -> None:
        origin = self.state.origins.get(batch.origin)
        if origin is not None and origin.session == batch.session and batch.first > origin.last_sequence + 1:
            origin.last_sequence = batch.first - 1
        run_stream(self, batch)

    patch.setattr(Execution, "_run_stream", hasty)


def sessions_are_not_fenced(patch: Patch) -> None:
    """Commands of a session that was closed are executed all the same."""
    admit = Execution._admit

    def open_again(self: Execution, batch: Batch) -> Origin | None:
        origin = self.state.origins.get(batch.origin)
        if origin is not None and origin.session == batch.session:
            origin.is_open = True
        return admit(self, batch)

    patch.setattr(Execution, "_admit", open_again)


def a_closed_session_keeps_what_it_holds(patch: Patch) -> None:
    """Nobody else ever gets it."""

    def keep(self: Execution, origin: Origin) -> None:
        origin.is_open = False

    patch.setattr(Execution, "_close", keep)


def declarations_are_answered_at_once(patch: Patch) -> None:
    """The other nodes may not have heard of them."""
    settle = MetadataStream.settle

    def hasty(self: MetadataStream, index: int, now: int) -> Any:
        return settle(self, 1 << 60, now)

    patch.setattr(MetadataStream, "settle", hasty)


def metadata_commands_are_not_deduplicated(patch: Patch) -> None:
    """What a node sends again is applied again, maybe after a deletion."""
    apply = metadata_machine.MetadataMachine.apply

    def forgetful(self: Any, index: int, term: int, data: bytes, now: int) -> None:
        batch = metadata_machine.Batch.decode(data)
        session, last = self._sessions.get(batch.origin, (0, 0))
        if batch.session == session and batch.first <= last:
            self._sessions[batch.origin] = (session, batch.first - 1)
            apply(self, index, term, data, now)
            self._sessions[batch.origin] = (session, max(last, self._sessions[batch.origin][1]))
        else:
            apply(self, index, term, data, now)

    patch.setattr(metadata_machine.MetadataMachine, "apply", forgetful)

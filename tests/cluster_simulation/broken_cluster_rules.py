"""One rule of a cluster turned off at a time, to see that the simulation notices. Those of a group alone are in
tests/raft/broken_rules.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from amqp_broker.links.acquaintances import Acquaintances
from amqp_broker.metadata import machine as metadata_machine
from amqp_broker.metadata.stream import MetadataStream
from amqp_broker.node import Node, Turn
from amqp_broker.queue_types.groups.dead_letters import DeadLetterPublisher
from queues.quorum import checkpoint, machine
from queues.quorum.capture import Capture
from queues.quorum.commands import Batch, NodeDown
from queues.quorum.execution import Execution
from queues.quorum.state import Origin
from queues.receipts import JointReceipt
from raft.checkpointing import Checkpointing
from raft.memory import Memory
from tests.cluster_simulation.cluster_node import ClusterNode
from tests.simulation.simulated_disk import SimulatedDisk

Patch = pytest.MonkeyPatch


class ForgetfulDisk(SimulatedDisk):
    """A disk that says it has synced, and has not."""

    def sync(self, path: str) -> None:
        self.size(path)


def a_sync_that_is_none(patch: Patch) -> None:
    patch.setattr(ClusterNode, "disk_type", ForgetfulDisk)


#: After everything that was ever written.
_FAR = 1 << 62


class _Hasty(Node):
    def end_turn(self, now: int) -> Turn:
        turn = super().end_turn(now)
        for channel in self.confirming.awaiting:
            channel.synced(_FAR)
        turn.dirty.extend(self.take_dirty())
        self.remote_queues.synced(_FAR)
        self.remote_queues.end_turn(now)
        turn.peers = [*turn.peers, *self.take_peers()]
        return turn


def confirm_before_the_sync(patch: Patch) -> None:
    """Of classic queues: the node's own disk is not waited for, neither by its clients nor by those of other nodes."""
    patch.setattr(ClusterNode, "node_type", _Hasty)


def change_batches(patch: Patch, before: Callable[[Execution, Batch, Origin | None], Batch]) -> None:
    """`before` sees each batch that is about to be executed, and whose stream it belongs to; it returns what is to be
    executed instead."""

    class Changed(Execution):
        def run(self, batch: Batch) -> Any:
            super().run(before(self, batch, self.state.origins.get(batch.origin)))
            return 0  # what the compiled method returns

    patch.setattr(machine, "Execution", Changed)


def streams_are_not_deduplicated(patch: Patch) -> None:
    """What a node sends again is executed again."""

    def forget(execution: Execution, batch: Batch, origin: Origin | None) -> Batch:
        if origin is not None and origin.session == batch.session and batch.first <= origin.last_sequence:
            origin.last_sequence = batch.first - 1
        return batch

    change_batches(patch, forget)


def gaps_in_streams_are_skipped(patch: Patch) -> None:
    """What comes behind a gap is executed, and what fills the gap comes too late."""

    def skip(execution: Execution, batch: Batch, origin: Origin | None) -> Batch:
        if origin is not None and origin.session == batch.session and batch.first > origin.last_sequence + 1:
            origin.last_sequence = batch.first - 1
        return batch

    change_batches(patch, skip)


def sessions_are_not_fenced(patch: Patch) -> None:
    """Commands of a session that was closed are executed all the same."""

    def open_again(execution: Execution, batch: Batch, origin: Origin | None) -> Batch:
        if origin is not None and origin.session == batch.session:
            origin.is_open = True
        return batch

    change_batches(patch, open_again)


def a_closed_session_keeps_what_it_holds(patch: Patch) -> None:
    """Nobody else ever gets it."""

    def keep(execution: Execution, batch: Batch, origin: Origin | None) -> Batch:
        if origin is not None and batch.session > origin.session:
            origin.is_open = False
        for command in batch.commands:
            if isinstance(command, NodeDown) and command.node in execution.state.origins:
                execution.state.origins[command.node].is_open = False
        return batch

    change_batches(patch, keep)


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


def a_checkpoint_does_not_hear_of_changes(patch: Patch) -> None:
    """Of what changes before its slice has come it has what is there then; slices are small, so that something does."""
    begin = Capture.__init__

    def begun(self: Capture, *arguments: Any) -> None:
        begin(self, *arguments)
        self._captures.remove(self)

    patch.setattr(checkpoint, "SLICE_BYTES", 1)
    patch.setattr(Capture, "__init__", begun)


def a_checkpoint_is_as_of_its_end(patch: Patch) -> None:
    """It counts for entries that were applied while it was made."""
    step = Checkpointing.step

    def stepped(self: Checkpointing, now: int) -> bool:
        self.index = self._member.last_applied
        self.term = self._member.term_applied(self.index)
        return step(self, now)

    patch.setattr(checkpoint, "SLICE_BYTES", 1)
    patch.setattr(Checkpointing, "step", stepped)


def nobody_is_held_to_what_others_have_seen(patch: Patch) -> None:
    """Whoever has forgotten what it has promised votes as if it had not."""
    patch.setattr(Memory, "missing", lambda self, seen: "")
    patch.setattr(Acquaintances, "_unacknowledged", lambda self, leads: "")


def letters_are_not_numbered(patch: Patch) -> None:
    """Delayed messages and dead letters come again with every new leader."""
    patch.setattr(DeadLetterPublisher, "_receipt", staticmethod(lambda queue, effect: JointReceipt()))

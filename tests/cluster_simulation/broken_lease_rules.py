"""One rule of leases or transactions turned off at a time, to see that the simulation notices."""

from __future__ import annotations

from typing import Any

import pytest

from amqp_broker.leases.app import App
from amqp_broker.leases.apps import Apps
from amqp_broker.leases.publication import Publication
from amqp_broker.leases.queue_leases import QueueLeases
from queues.classic_leases import ClassicLeases
from queues.lease_source import Caller
from queues.quorum.commands import Batch
from queues.quorum.execution import Execution
from queues.quorum.lease_commands import AckLease, Claim, ReleaseLease
from queues.quorum.state import Origin
from tests.cluster_simulation.broken_cluster_rules import change_batches

Patch = pytest.MonkeyPatch


def owners_are_not_fenced(patch: Patch) -> None:
    """Whoever has opened a group before goes on."""

    def own(execution: Execution, batch: Batch, origin: Origin | None) -> Batch:
        for command in batch.commands:
            if isinstance(command, Claim | AckLease | ReleaseLease):
                queue = execution.state.queues.get(command.queue_id)
                leases = queue.lease_groups if queue is not None else None
                group = leases.groups.get(command.name) if leases else None
                if group is not None and command.owner:
                    group.owner = command.owner
        return batch

    change_batches(patch, own)
    find = ClassicLeases._find

    def found(self: ClassicLeases, caller: Caller) -> Any:
        group = self.groups().get(caller.group)
        return find(self, caller if group is None else caller._replace(owner=group.owner))

    patch.setattr(ClassicLeases, "_find", found)


def a_claim_adds_to_what_is_held(patch: Patch) -> None:
    """Who claims again what nobody has written down is given something else."""

    def add(execution: Execution, batch: Batch, origin: Origin | None) -> Batch:
        commands = [
            command._replace(adds=True) if isinstance(command, Claim) else command for command in batch.commands
        ]
        return batch._replace(commands=commands)

    change_batches(patch, add)
    claim = ClassicLeases.claim

    def hasty(self: Any, *arguments: Any) -> None:
        *named, _, now, then = arguments
        claim(self, *named, True, now, then)

    patch.setattr(ClassicLeases, "claim", hasty)


def epochs_are_forgotten(patch: Patch) -> None:
    """What was committed can be committed again."""
    finish = App.finish

    def forgetful(self: App) -> Any:
        self.last_epoch = -1
        return finish(self)

    patch.setattr(App, "finish", forgetful)


def published_messages_are_not_numbered(patch: Patch) -> None:
    """A quorum queue does not know a message that comes again."""
    patch.setattr(Publication, "_producer", property(lambda self: b"", lambda self, producer: None), raising=False)


def aborts_are_only_answered(patch: Patch) -> None:
    """What was staged is still there."""
    patch.setattr(Apps, "_drop", lambda self, app, parts: None)


def a_reader_may_be_behind(patch: Patch) -> None:
    """A node says that there is nothing, and has not heard of it yet."""
    patch.setattr(QueueLeases, "catch_up", lambda self, group, incarnation, then: False)

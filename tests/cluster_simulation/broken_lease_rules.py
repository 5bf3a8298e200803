"""One rule of leases or transactions turned off at a time, to see that the simulation notices."""

from __future__ import annotations

from typing import Any

import pytest

from amqp_broker.leases.app import App
from amqp_broker.leases.apps import Apps
from amqp_broker.leases.publication import Publication
from amqp_broker.leases.queue_leases import QueueLeases
from queues.lease_rules import LeaseRules
from queues.lease_source import Caller

Patch = pytest.MonkeyPatch


def owners_are_not_fenced(patch: Patch) -> None:
    """Whoever has opened a group before goes on."""
    find = LeaseRules._find

    def found(self: LeaseRules[Any], caller: Caller, now: int) -> Any:
        group = self.groups.get(caller.group)
        is_asking = group is None or not caller.owner
        return find(self, caller if is_asking else caller._replace(owner=group.owner), now)

    patch.setattr(LeaseRules, "_find", found)


def a_claim_adds_to_what_is_held(patch: Patch) -> None:
    """Who claims again what nobody has written down is given something else."""
    claim = LeaseRules.claim

    def hasty(self: Any, *arguments: Any) -> Any:
        *named, _, now = arguments
        return claim(self, *named, True, now)

    patch.setattr(LeaseRules, "claim", hasty)


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

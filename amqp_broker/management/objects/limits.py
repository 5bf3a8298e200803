"""Limits of virtual hosts and of users: those only that have any."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from amqp_broker.management.objects.kind import Cursor, Scope
from amqp_broker.management.objects.records import Records, VhostRecords
from amqp_broker.metadata.access import ADMINISTRATOR
from amqp_broker.metadata.entities import User, VHost

if TYPE_CHECKING:
    from amqp_broker.management.node_counts import NodeCounts
    from amqp_broker.management.objects.sorted_copies import SortedCopies


class VhostLimits(VhostRecords[VHost]):
    """A thing is the record of the virtual host."""

    name = "vhost_limits"
    singular = "limit"
    names = ("vhost",)

    def __init__(self, counts: NodeCounts, copies: SortedCopies) -> None:
        super().__init__(counts, copies)
        self.columns = {"vhost": lambda one: one.name, "value": lambda one: dict(one.limits)}

    def keys_in(self, vhost: str) -> Iterable[Cursor]:
        """See VhostRecords."""
        return [(vhost,)]

    def record(self, key: Cursor) -> VHost | None:
        """See Records."""
        vhost = self.metadata.vhost(key[0])
        return vhost if vhost is not None and vhost.limits else None


class UserLimits(Records[User]):
    """A thing is the record of the user. Everybody may see the own ones."""

    name = "user_limits"
    singular = "limit"
    names = ("user",)

    def __init__(self, counts: NodeCounts, copies: SortedCopies) -> None:
        super().__init__(counts, copies)
        self.columns = {"user": lambda one: one.name, "value": lambda one: dict(one.limits)}

    def keys(self, scope: Scope) -> Iterable[Cursor]:
        """See Records."""
        return ((user.name,) for user in self.metadata.users())

    def record(self, key: Cursor) -> User | None:
        """See Records."""
        user = self.metadata.user(key[0])
        return user if user is not None and user.limits else None

    def is_shown(self, scope: Scope, key: Cursor) -> bool:
        """See Records."""
        return key[0] == scope.asker.name or scope.asker.has(ADMINISTRATOR)

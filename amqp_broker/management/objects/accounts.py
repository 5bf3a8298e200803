"""Users, and what they may do: lists for administrators."""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import TYPE_CHECKING

from amqp_broker.management.definitions.exporting import describe_user
from amqp_broker.management.objects.kind import Cursor, Scope
from amqp_broker.management.objects.records import Records
from amqp_broker.metadata.access import ADMINISTRATOR
from amqp_broker.metadata.entities import PermissionGrant, TopicGrant, User

if TYPE_CHECKING:
    from amqp_broker.management.node_counts import NodeCounts
    from amqp_broker.management.objects.sorted_copies import SortedCopies


class Users(Records[User]):
    """With their password hashes, as definitions have them."""

    name = "users"
    singular = "user"
    needs_tag = ADMINISTRATOR

    def __init__(self, counts: NodeCounts, copies: SortedCopies) -> None:
        super().__init__(counts, copies)
        names = ("name", "password_hash", "hashing_algorithm", "tags", "limits")
        self.columns = {name: lambda one, name=name: describe_user(one)[name] for name in names}  # type: ignore[misc]

    def keys(self, scope: Scope) -> Iterable[Cursor]:
        """See Records."""
        return ((user.name,) for user in self.metadata.users())

    def record(self, key: Cursor) -> User | None:
        """See Records."""
        return self.metadata.user(key[0])


class Permissions(Records[PermissionGrant]):
    """Of a user in a virtual host."""

    name = "permissions"
    singular = "permission"
    needs_tag = ADMINISTRATOR
    is_in_vhosts = True
    names = ("vhost", "user")

    def __init__(self, counts: NodeCounts, copies: SortedCopies) -> None:
        super().__init__(counts, copies)
        self.columns = {name: attrgetter(name) for name in ("user", "vhost", "configure", "write", "read")}

    def keys(self, scope: Scope) -> Iterable[Cursor]:
        """See Records."""
        vhost = scope.vhost
        return ((one.vhost, one.user) for one in self.metadata.permissions() if vhost in (None, one.vhost))

    def record(self, key: Cursor) -> PermissionGrant | None:
        """See Records."""
        return self.metadata.permission(key[1], key[0])


class TopicPermissions(Records[TopicGrant]):
    """Of a user on an exchange."""

    name = "topic_permissions"
    singular = "topic permission"
    needs_tag = ADMINISTRATOR
    is_in_vhosts = True
    names = ("vhost", "user", "exchange")

    def __init__(self, counts: NodeCounts, copies: SortedCopies) -> None:
        super().__init__(counts, copies)
        self.columns = {name: attrgetter(name) for name in ("user", "vhost", "exchange", "write", "read")}

    def keys(self, scope: Scope) -> Iterable[Cursor]:
        """See Records."""
        found = self.metadata.topic_permissions()
        return ((one.vhost, one.user, one.exchange) for one in found if scope.vhost in (None, one.vhost))

    def record(self, key: Cursor) -> TopicGrant | None:
        """See Records."""
        return self.metadata.topic_permission(key[1], key[0], key[2])

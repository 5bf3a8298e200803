"""Records: a kind of what administrators set, of which the metadata have a record each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from amqp_broker.management.objects.kind import Cursor, Kind, Scope, Things
from amqp_broker.turn.task import Steps

if TYPE_CHECKING:
    from amqp_broker.management.node_counts import NodeCounts
    from amqp_broker.management.objects.sorted_copies import SortedCopies
    from amqp_broker.management.request import Request

#: What the metadata have of one.
Record = TypeVar("Record")


class Records(Kind[Record, Record]):
    """In the order of their keys. names: the fields of a request that name one, in the order of the key."""

    names: tuple[str, ...] = ("name",)

    def __init__(self, counts: NodeCounts, copies: SortedCopies) -> None:
        super().__init__(counts)
        self._copies = copies
        self.cursor = (str,) * len(self.names)

    def keys(self, scope: Scope) -> Iterable[Cursor]:
        """Of all that there are, or of those in the virtual host that is asked for."""
        raise NotImplementedError

    def record(self, key: Cursor) -> Record | None:
        """The one with this key, None where there is none."""
        raise NotImplementedError

    def is_shown(self, scope: Scope, key: Cursor) -> bool:
        """Whether a user sees it."""
        return True

    def things(self, scope: Scope, after: Cursor | None) -> Things[Record]:
        """See Kind."""
        for key in self._copies.keys((self.name, scope.vhost), after, lambda: self.keys(scope)):
            if key is None:
                yield None
            elif self.is_shown(scope, key) and (record := self.record(key)) is not None:
                yield key, record

    def find(self, scope: Scope, request: Request) -> Steps:
        """See Kind."""
        key = tuple(request.text(name) for name in self.names)
        return self.record(key) if self.is_shown(scope, key) else None
        yield


AnyRecords = Records[Any]  # own class: each kind has that of its records


class VhostRecords(Records[Record]):
    """The first of a key is the virtual host."""

    names: tuple[str, ...] = ("vhost", "name")
    is_in_vhosts = True

    def keys(self, scope: Scope) -> Iterable[Cursor]:
        """See Records."""
        if scope.vhost is not None:
            return self.keys_in(scope.vhost)
        return (key for vhost in self.metadata.vhosts() for key in self.keys_in(vhost.name))

    def keys_in(self, vhost: str) -> Iterable[Cursor]:
        """Of those in one virtual host."""
        raise NotImplementedError

    def is_shown(self, scope: Scope, key: Cursor) -> bool:
        """See Records."""
        return scope.covers(key[0])

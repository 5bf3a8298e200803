"""Kind: a kind of object that is listed page by page, with a column for each thing that is known of one.

    things(scope, after)       -> (cursor, thing), ...; None: nothing to show among those that were just looked at
    columns[name](look(thing)) -> a value that JSON can carry

Things stand in an order that does not change while they are there. A cursor says behind which one a page begins; that
one may have gone meanwhile. So what stays is seen once, whatever comes and goes between two pages.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar, cast

from amqp_broker.management.access import VIEWER
from amqp_broker.protocol.json_values import JsonObject, JsonValue
from amqp_broker.turn.task import Steps

if TYPE_CHECKING:
    from amqp_broker.management.access import Asker
    from amqp_broker.management.node_counts import NodeCounts
    from amqp_broker.management.request import Request

#: What the things of a kind are, and what its columns are given of one.
Thing = TypeVar("Thing")
Seen = TypeVar("Seen")
#: What a kind has found out about things before it looks at one; its own business.
Prepared = object
#: Where a page ended.
Cursor = tuple[JsonValue, ...]
#: The things behind a cursor, each with its own.
Things = Iterator[tuple[Cursor, Thing] | None]
#: So many are looked at in one slice, if none of them is shown.
LOOK = 32
#: So many things of one are shown with it.
DETAILS = 200


class Scope(NamedTuple):
    """Whose request it is, and which virtual host it is about (None: all that may be seen)."""

    asker: Asker
    vhost: str | None

    def covers(self, vhost: str) -> bool:
        """Whether what is in this virtual host is to be shown."""
        return self.vhost in (None, vhost) and self.asker.sees(vhost)


class Kind(Generic[Thing, Seen]):
    """name: in requests. singular: what a refusal calls one. cursor: the types of what a cursor has. needs_tag: without
    which a user sees none. is_in_vhosts: each is in a virtual host. is_by_node: each node has its own."""

    name = ""
    singular = ""
    cursor: tuple[type, ...] = ()
    needs_tag = VIEWER
    is_in_vhosts = False
    is_by_node = False

    def __init__(self, counts: NodeCounts) -> None:
        self.broker = counts.broker
        self._vhost_names = counts.broker.vhost_names
        self.metadata = counts.broker.metadata
        self.clock = counts.broker.clock
        self.clients = counts.clients
        self.node_name = counts.config.node_name
        self.columns: Mapping[str, Callable[[Seen], JsonValue]] = {}

    def things(self, scope: Scope, after: Cursor | None) -> Things[Thing]:
        """See the module's docstring."""
        raise NotImplementedError

    def row(self, thing: Thing, prepared: Prepared = None) -> JsonObject:
        """All columns of one."""
        seen = self.look(thing, prepared)
        return {name: column(seen) for name, column in self.columns.items()}

    def look(self, thing: Thing, prepared: Prepared) -> Seen:
        """What columns are given of a thing: read once for all of them. The thing itself, for most kinds. prepared:
        what `prepare` has found."""
        return cast("Seen", thing)

    def prepare(self, things: Sequence[Thing], columns: Collection[str]) -> Steps:
        """Find out what these columns need that takes several slices, or that only other nodes know. Its result is for
        `look`."""
        return
        yield

    def home_of(self, thing: Thing) -> str:
        """The node that has to be asked for its row, "" where this one makes it."""
        return ""

    def key_of(self, thing: Thing) -> list[str]:
        """What names it to its home."""
        raise NotImplementedError

    def keyed(self, key: Cursor) -> Thing | None:
        """The one that `key_of` names, None where there is none."""
        raise NotImplementedError

    def is_there(self, thing: Thing) -> bool:
        """Whether it has not gone since `things` gave it."""
        return True

    def find(self, scope: Scope, request: Request) -> Steps:
        """Its result: the one that a request names, None where there is none."""
        raise NotImplementedError

    def details(self, scope: Scope, thing: Thing) -> Steps:
        """What is shown of one thing besides its columns."""
        return {}
        yield

    def vhosts_of(self, scope: Scope, after: str | None) -> Iterator[str | None]:
        """The names of the virtual hosts that are shown, beginning with `after`; None: some that are not."""
        if scope.vhost is not None:
            if after is None or after <= scope.vhost:
                yield scope.vhost
            return
        if after is not None and after in self.broker.vhosts and scope.covers(after):
            yield after
        while found := self._vhost_names.after(after, LOOK):
            for name in found:
                if name in self.broker.vhosts and scope.covers(name):
                    yield name
            after = found[-1]
            yield None


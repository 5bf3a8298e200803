"""VhostThings: a kind whose things have a name within a virtual host: queues, exchanges."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_broker.management.objects.kind import LOOK, Cursor, Kind, Scope, Seen, Thing, Things
from amqp_broker.turn.task import Steps

if TYPE_CHECKING:
    from amqp_broker.management.request import Request
    from amqp_broker.octets.sorted_keys import SortedKeys
    from amqp_broker.routing.vhost import VHost


class VhostThings(Kind[Thing, Seen]):
    """In the order of virtual host and name."""

    cursor = (str, str)
    is_in_vhosts = True

    def names(self, vhost: VHost) -> SortedKeys[str]:
        """Of those in a virtual host."""
        raise NotImplementedError

    def one(self, vhost: VHost, name: str) -> Thing | None:
        """The one of that name, None where there is none."""
        raise NotImplementedError

    def things(self, scope: Scope, after: Cursor | None) -> Things[Thing]:
        """See Kind."""
        for vhost_name in self.vhosts_of(scope, after[0] if after is not None else None):
            if vhost_name is None:
                yield None
                continue
            last = after[1] if after is not None and after[0] == vhost_name else None
            vhost = self.broker.vhosts[vhost_name]
            while found := self.names(vhost).after(last, LOOK):
                for name in found:
                    thing = self.one(vhost, name)
                    if thing is not None:
                        yield (vhost_name, name), thing
                last = found[-1]
                yield None
                if not self.broker.has(vhost):
                    break

    def find(self, scope: Scope, request: Request) -> Steps:
        """See Kind."""
        return self.one(self.broker.vhosts[scope.vhost or ""], request.text("name"))
        yield

"""RehomeVerb: `queue.rehome`: a classic queue is to live at another node, or at another worker of its node; and
`queue.homes`: which there are.

The answer comes when it does, or when it is known that it stays. As long as the move goes on its asker waits, who may
go away: it goes on without.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from amqp_broker.management.refused import FAILED, Refused
from amqp_broker.management.request import Request
from amqp_broker.protocol.json_values import JsonObject
from amqp_broker.turn.task import Steps

if TYPE_CHECKING:
    from amqp_broker.rehoming.rehoming import Heard, Rehoming
    from amqp_broker.turn.completion import Completion


#: An answer's fields, and what it waits for; or the steps that lead to it.
Answer = tuple[JsonObject, None] | Steps


class RehomeVerb:
    """See the module's docstring."""

    def __init__(self, rehoming: Rehoming) -> None:
        self._rehoming = rehoming
        self.verbs: dict[str, Callable[[Request], Answer]] = {
            "queue.rehome": self._rehome,
            "queue.homes": self._homes,
        }

    def _homes(self, request: Request) -> Answer:
        """The nodes and workers that may be homes; those that are to be emptied are not among them. types: of queues
        that have one. busy: thousandths of a core that workers of this host have used in the last second, where it is
        known. With `name` of `vhost`: where that queue lives, and where else it might. Raises ValueError,
        Refused."""
        homes, types = self._rehoming.taking(), self._rehoming.types()
        if not request.has("name"):
            return {"homes": homes, "types": types, "busy": self._rehoming.busy()}, None
        record = self._rehoming.movable(request.text("vhost", "/"), request.text("name"))
        others = [home for home in homes if home != record.home]
        return {"home": record.home, "homes": others, "types": types}, None

    def _rehome(self, request: Request) -> Steps:
        """`name` of `vhost` is to live at `home`, a node or a worker. Raises ValueError, Refused."""
        vhost, name, home = request.text("vhost", "/"), request.text("name"), request.text("home")
        record = self._rehoming.check(vhost, name, home)
        awaited: Completion[Heard] | None = self._rehoming.begin(record, home)
        while awaited is not None:
            said, awaited = yield awaited
        if said.error:
            raise Refused(FAILED, f"queue '{name}' in vhost '{vhost}' stays at {record.home}: {said.error}")
        return {"name": name, "vhost": vhost, "from": record.home, "home": home, "messages": said.messages,
                "octets": said.octets}  # fmt: skip

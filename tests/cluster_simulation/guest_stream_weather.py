"""GuestStreamWeather: streams, and queues over them, in groups on some of the nodes.

Who publishes, reads a stream, alone or in a group, or consumes from a queue over one does so at any node, and stays
there when that leaves the group of the stream or comes to it. When it is calm all nodes become members, so that each
has to have everything in the end; then one of them leaves again, and all is read once more at each node, there too.
"""

from __future__ import annotations

from tests.cluster_simulation.guest_weather import GuestWeather
from tests.cluster_simulation.stream_weather import StreamWeather


class GuestStreamWeather(StreamWeather, GuestWeather):
    """A mixture of both."""

    def has_read(self, node: str, stream: str, how: str) -> None:
        """See StreamWeather."""
        broker = self.nodes[node].node
        record = broker.broker.metadata.queue("/", stream)
        if record is not None and broker.groups.of(record.queue_id).guest is not None:
            self.counts[f"{how} at guests"] += 1

    def _dismiss(self) -> None:
        self.wait_for(self._are_everywhere, "all groups are on all nodes")
        super()._dismiss()

    def _are_everywhere(self) -> bool:
        """If not, it is asked for."""
        serving = self.serving()
        if len(serving) < len(self.members):
            return False
        for node in serving:
            self.ask_members(serving[0], "queues.grow", {"node": node.name})
        groups = self.groups()
        return all(group.guest is None and len(group.raft.members) == len(self.members) for group in groups)

    def before_the_last_readers(self) -> None:
        """See StreamWeather."""
        node = self.chance.choice(self.serving())
        self.wait_for(lambda: self._is_guest(node.name), f"{node.name} is a guest of all groups")

    def _is_guest(self, name: str) -> bool:
        """If not, it is asked for."""
        self.ask_members(self.serving()[0], "queues.shrink", {"node": name})
        groups = self.nodes[name].node.groups.all.values()
        return all(group.guest is not None and group.guest.leader is not None for group in groups)

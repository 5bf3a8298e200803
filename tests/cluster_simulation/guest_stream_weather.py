"""GuestStreamWeather: streams, and queues over them, in groups on some of the nodes.

Who publishes, and consumes from a queue over a stream, does so at any node. Who reads a stream is sent away by a guest,
and when its node leaves the group: it comes again somewhere. When it is calm all nodes become members, so that each has
to have everything in the end.
"""

from __future__ import annotations

from typing import Any

from tests.cluster_simulation.application import Application
from tests.cluster_simulation.cluster_node import MS
from tests.cluster_simulation.guest_weather import GuestWeather
from tests.cluster_simulation.stream_weather import StreamWeather


class GuestStreamWeather(StreamWeather, GuestWeather):
    """A mixture of both."""

    def may_refuse(self, text: str) -> bool:
        """See ClusterWorld: there is nothing to read at a guest."""
        return "does not have a running replica on the local node" in text

    def channel_refused(self, application: Application, text: str) -> None:
        """See ClusterWorld."""
        super().channel_refused(application, text)
        if self.may_refuse(text):
            self.counts["readers sent away"] += 1
            self._send_away(application)

    def reader_cancelled(self, reader: Application) -> None:
        """See StreamWeather."""
        self.counts["readers cancelled"] += 1
        self._send_away(reader)

    def _send_away(self, reader: Any) -> None:
        reader.channel = None
        node, connection = reader.node, reader.connection

        def leave() -> None:
            if reader.client is not None and (reader.node, reader.connection) == (node, connection):
                self.leave(reader)

        self.after(MS, leave)

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

"""Clients: the connections of a node, and what is to be told of them at the end of the turn.

Invariants:
1. A connection is in `dirty` or in `held` while it has something to say that the driver has not taken. What is held
   leaves with whatever else the connection has to say, or after `release`.
2. `users` has those that are open, and `pending_handshakes` those that are not open yet.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import islice
from typing import TYPE_CHECKING

from amqp_broker.flow.message_sizes import MessageSizes
from amqp_broker.octets.sorted_keys import SortedKeys

if TYPE_CHECKING:
    from amqp_broker.flow.client import Client


#: So many handshakes are looked at for one that does not wait for the broker.
_EXCUSED = 64


class ClosedSums:
    """What connections and channels have done that are closed: octets, messages published, those of them
    that were to be confirmed, those that were, and deliveries. routed: to how many queues all together went what they
    have published; that of all transactions, too."""

    def __init__(self) -> None:
        self.received_bytes = self.sent_bytes = 0
        self.published = self.to_confirm = self.confirmed = self.delivered = self.routed = 0


class Clients:
    """connections: all, by their numbers; numbers: these in order. closing: those whose end is awaited, the oldest
    first. users: the open ones of each user that has any. starved: deliveries to them have stopped. dropped: the driver
    is to close them. opened, closed, channels_opened, channels_closed: since the start; moved: those of the opened ones
    that have come from another worker, which has closed them; sums: what closed ones did, less what those had done;
    message_sizes: how large was what all of them have published, as far as it was counted.
    holds_back: deliveries that are made now may leave a little later, with more of them. held: whose were held back.
    max_connections, max_transports: what the settings allow, or less if the driver has less to give."""

    def __init__(self, max_connections: int) -> None:
        self.max_connections = max_connections
        self.max_transports = 1 << 62
        self.numbers: SortedKeys[int] = SortedKeys()
        self.connections: dict[int, Client] = {}
        self.pending_handshakes: dict[int, Client] = {}
        self.closing: dict[int, Client] = {}
        self.users: dict[str, dict[Client, None]] = {}
        self.open_count = 0
        self.opened = self.closed = self.channels_opened = self.channels_closed = 0
        self.moved = 0
        self.sums = ClosedSums()
        self.message_sizes = MessageSizes()
        self.dirty: list[Client] = []
        self.holds_back = False
        self.held: list[Client] = []
        self.dropped: list[Client] = []
        self.starved: dict[Client, None] = {}

    def allow(self, connections: int, transports: int) -> None:
        """The driver has no room for more."""
        self.max_connections = connections
        self.max_transports = transports

    def add(self, client: Client) -> None:
        """There is a transport."""
        self.connections[client.number] = client
        self.numbers.add(client.number)

    def all(self) -> list[Client]:
        """Every one that has a transport; some may come and go while they are looked through."""
        return list(self.connections.values())

    def find(self, number: int) -> Client | None:
        """The one of that number, None where there is none any more."""
        return self.connections.get(number)

    def of_user(self, name: str) -> Collection[Client]:
        """The open ones of a user."""
        return self.users.get(name, ())

    def slowest_handshake(self) -> Client:
        """Of those that are not open yet the oldest, which has had the longest chance, unless it is waiting for the
        broker (to compare its password). There is one."""
        pending = self.pending_handshakes.values()
        slowest = next((each for each in islice(pending, _EXCUSED) if not each.is_parked), None)
        return slowest or next(iter(pending))

    def end_handshake(self, client: Client) -> None:
        """It has failed."""
        self.pending_handshakes.pop(client.number, None)

    def feed(self, client: Client) -> None:
        """Deliveries to it go on."""
        self.starved.pop(client, None)

    def drop(self, client: Client) -> None:
        """The driver is to close its transport."""
        self.dropped.append(client)

    def abandon(self, client: Client) -> None:
        """The same, and its end is not awaited."""
        self.closing.pop(client.number, None)
        self.dropped.append(client)

    def arrive(self, client: Client, user: str) -> None:
        """An open connection has come from another worker, which has counted what it has done so far."""
        self.add(client)
        self.enter(client, user)
        self.moved += 1
        self.sums.received_bytes -= client.received_bytes
        self.sums.sent_bytes -= client.sent_bytes

    def go_on_with_channel(self, published: int, to_confirm: int, delivered: int, routed: int) -> None:
        """The same of a channel of it. to_confirm: of what was published, all of which is confirmed."""
        self.channels_opened += 1
        self.sums.published -= published
        self.sums.to_confirm -= to_confirm
        self.sums.confirmed -= to_confirm
        self.sums.delivered -= delivered
        self.sums.routed -= routed

    def count_channel(self) -> None:
        """One was opened."""
        self.channels_opened += 1

    def count_routed(self, copies: int) -> None:
        """Messages of a transaction went to so many queues."""
        self.sums.routed += copies

    def retire_channel(
        self, published: int, to_confirm: int, confirmed: int, delivered: int, routed: int
    ) -> None:
        """One is closed that has done so much. to_confirm: of what was published."""
        self.sums.routed += routed
        self.channels_closed += 1
        self.sums.published += published
        self.sums.to_confirm += to_confirm
        self.sums.confirmed += confirmed
        self.sums.delivered += delivered

    def add_dirty(self, client: Client) -> None:
        """It has something to say, for the first time in this turn."""
        self.dirty.append(client)

    def take_dirty(self) -> list[Client]:
        """Those that have something to say."""
        dirty, self.dirty = self.dirty, []
        return dirty

    def hold_back(self, holds_back: bool) -> None:
        """Whether deliveries that are made from now on leave a little later, where they are not much."""
        self.holds_back = holds_back

    def hold(self, client: Client) -> None:
        """A delivery to it is held back, the first since `release`."""
        self.held.append(client)

    def release(self) -> None:
        """What was held back leaves with this turn."""
        held, self.held = self.held, []
        for client in held:
            client.let_go()

    def take_dropped(self) -> list[Client]:
        """Those that are to be closed."""
        dropped, self.dropped = self.dropped, []
        return dropped

    def enter(self, client: Client, user: str) -> None:
        """The connection is open, and this user's."""
        self.pending_handshakes.pop(client.number, None)
        self.open_count += 1
        self.opened += 1
        self.users.setdefault(user, {})[client] = None

    def leave(self, client: Client, user: str) -> None:
        """The connection is not open any more."""
        self.open_count -= 1
        self.closed += 1
        del self.users[user][client]
        if not self.users[user]:
            del self.users[user]

    def forget(self, client: Client) -> None:
        """Its transport is gone."""
        if client.number in self.connections:
            self.sums.received_bytes += client.received_bytes
            self.sums.sent_bytes += client.sent_bytes
        self.starved.pop(client, None)
        self.numbers.discard(client.number)
        for group in (self.connections, self.pending_handshakes, self.closing):
            group.pop(client.number, None)

    def count_channels(self, user: str) -> int:
        """Open channels of all connections of a user."""
        return sum(client.channel_count() for client in self.users[user])

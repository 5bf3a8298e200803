"""The network between simulated nodes: at most one link for each pair, as TCP with a time-out makes them.

What is sent on a link arrives once and in order, or is cut off with the link's end. A direction may be blocked: what is
in it waits, and comes late if the link lives long enough; a link on which nothing comes for `timeout` is dropped by
the side that waits, and the other side hears of it, if it can, or finds out by itself. New links are made by
themselves, between nodes that know each other.

It knows nodes by name only; what they do about it is behind `Inputs`. Times are microseconds.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Protocol

MS = 1000

_LOOK_EVERY = 20 * MS


class Inputs(Protocol):
    """What the network needs of the world: the nodes, and time."""

    @property
    def time(self) -> int: ...

    def after(self, delay: int, call: Callable[[], None]) -> None: ...

    def is_up(self, name: str) -> bool: ...

    def is_frozen(self, name: str) -> bool: ...

    def knows(self, name: str, peer: str) -> bool: ...

    def connected(self, name: str, peer: str) -> None: ...

    def disconnected(self, name: str, peer: str) -> None: ...

    def receive(self, name: str, peer: str, frame: bytes) -> None: ...


class Pipe:
    """One direction of a link: (arrival, frame), in order."""

    __slots__ = ("frames", "last_arrival", "octets")

    def __init__(self) -> None:
        self.frames: deque[tuple[int, bytes]] = deque()
        self.last_arrival = 0
        self.octets = 0


class Link:
    """A connection. `number` tells it from earlier ones of the pair."""

    def __init__(self, number: int, names: tuple[str, str]) -> None:
        self.number = number
        self.pipes = {names: Pipe(), (names[1], names[0]): Pipe()}


class Network:
    """See the module's docstring. `timeout`: silence that ends a link. `buffer_limit`: octets on their way that do."""

    def __init__(
        self, inputs: Inputs, names: Sequence[str], chance: random.Random, timeout: int, buffer_limit: int = 10_000_000
    ) -> None:
        self.names = list(names)
        self.timeout = timeout
        self.buffer_limit = buffer_limit
        self.blocked: dict[tuple[str, str], None] = {}
        self.slow: dict[tuple[str, str], int] = {}
        self.counts: Counter[str] = Counter()
        self._inputs = inputs
        self._chance = chance
        self._held: dict[str, dict[str, Link]] = {name: {} for name in self.names}
        self._mute_since: dict[tuple[str, str], int] = {}
        self._dialling: dict[tuple[str, str], None] = {}
        self._next_number = 1
        self._delay = {
            pair: chance.choice([100, 500, 3000]) for each in combinations(self.names, 2) for pair in (each, each[::-1])
        }

    def start(self) -> None:
        """Begin to look after the links."""
        self._look()

    # -- what nodes do -------------------------------------------------------------------------------------------------

    def links_of(self, name: str) -> list[str]:
        """The peers to which this node believes it has a link."""
        return list(self._held[name])

    def send(self, sender: str, receiver: str, frames: Sequence[bytes]) -> None:
        """Frames on the link, if there is one."""
        link = self._held[sender].get(receiver)
        if link is None:
            self.counts["frames without a link"] += len(frames)
            return
        pipe = link.pipes[sender, receiver]
        delay = self._delay[sender, receiver] + self.slow.get((sender, receiver), 0)
        for frame in frames:
            self.counts["frames"] += 1
            arrival = self._inputs.time + self._chance.randint(delay // 2, 2 * delay)
            arrival = pipe.last_arrival = max(arrival, pipe.last_arrival + 1)
            pipe.frames.append((arrival, frame))
            pipe.octets += len(frame)
            self._inputs.after(arrival - self._inputs.time, lambda: self._pump(link, sender, receiver))
        if pipe.octets > self.buffer_limit:
            self.counts["full buffers"] += 1
            self.drop(sender, receiver)

    def _pump(self, link: Link, sender: str, receiver: str) -> None:
        """Hand over what has arrived."""
        inputs = self._inputs
        pipe = link.pipes[sender, receiver]
        while pipe.frames and pipe.frames[0][0] <= inputs.time:
            if self._held[receiver].get(sender) is not link or (sender, receiver) in self.blocked:
                return
            _, frame = pipe.frames.popleft()
            pipe.octets -= len(frame)
            inputs.receive(receiver, sender, frame)

    def drop(self, name: str, peer: str) -> None:
        """This side closes its link; the other one hears of it, unless the way there is blocked."""
        link = self._forget(name, peer)
        if link is None:
            return
        self._inputs.disconnected(name, peer)
        if (name, peer) not in self.blocked:
            self._inputs.after(self._chance.randint(0, 4 * MS), lambda: self._closed(link, peer, name))

    def _closed(self, link: Link, name: str, peer: str) -> None:
        """The other side's close arrives, behind some of what it had sent."""
        if self._held[name].get(peer) is link and (peer, name) not in self.blocked:
            self._forget(name, peer)
            self._inputs.disconnected(name, peer)

    def _forget(self, name: str, peer: str) -> Link | None:
        self._mute_since.pop((peer, name), None)
        return self._held[name].pop(peer, None)

    def died(self, name: str, *, tells: bool) -> None:
        """A node is gone, with its sides of its links; if it tells, the others get closes."""
        links, self._held[name] = self._held[name], {}
        for peer, link in links.items():
            self._mute_since.pop((peer, name), None)
            if tells and (name, peer) not in self.blocked:
                delay = self._chance.randint(0, 4 * MS)
                self._inputs.after(delay, lambda link=link, peer=peer: self._closed(link, peer, name))  # type: ignore[misc]

    # -- what weather does ---------------------------------------------------------------------------------------------

    def block(self, sender: str, receiver: str) -> None:
        """Nothing goes from here to there until `heal`."""
        self.blocked[sender, receiver] = None

    def heal(self) -> None:
        """All ways are open again, and what was in them comes."""
        blocked = list(self.blocked)
        self.blocked.clear()
        self.slow.clear()
        for sender, receiver in blocked:
            link = self._held[receiver].get(sender)
            if link is not None:
                self._pump(link, sender, receiver)

    def reset(self, name: str, peer: str) -> None:
        """The link breaks, with some of what was on it."""
        if self._held[name].get(peer) is not None:
            self.counts["resets"] += 1
            self.drop(name, peer)

    # -- time ----------------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        """Drop links that are silent, and dial where there is none."""
        time = self._inputs.time
        for name in self.names:
            if self._inputs.is_frozen(name):
                continue
            for peer in list(self._held[name]):
                if not self._is_mute(peer, name):
                    self._mute_since.pop((peer, name), None)
                elif time - self._mute_since.setdefault((peer, name), time) >= self.timeout:
                    self.counts["timeouts"] += 1
                    self.drop(name, peer)
        for pair in combinations(self.names, 2):
            if pair not in self._dialling and self._lacks_link(pair):
                self._dialling[pair] = None
                delay = self._chance.choice([2, 30, 300]) * MS
                self._inputs.after(delay, lambda pair=pair: self._dial(pair))  # type: ignore[misc]
        self._inputs.after(_LOOK_EVERY, self._look)

    def _is_mute(self, sender: str, receiver: str) -> bool:
        """Whether not even a ping comes on the link."""
        return (
            (sender, receiver) in self.blocked
            or self._inputs.is_frozen(sender)
            or self._held[sender].get(receiver) is not self._held[receiver].get(sender)
        )

    def _lacks_link(self, pair: tuple[str, str]) -> bool:
        one, two = pair
        is_linked = one in self._held[two] and self._held[one].get(two) is self._held[two].get(one)
        inputs = self._inputs
        return (
            not is_linked
            and all(inputs.is_up(name) for name in pair)
            and inputs.knows(one, two)
            and inputs.knows(two, one)
        )

    def _dial(self, pair: tuple[str, str]) -> None:
        del self._dialling[pair]
        is_blocked = pair in self.blocked or pair[::-1] in self.blocked
        if is_blocked or not self._lacks_link(pair) or any(self._inputs.is_frozen(name) for name in pair):
            return
        link = Link(self._next_number, pair)
        self._next_number += 1
        self.counts["links"] += 1
        for name, peer in (pair, pair[::-1]):
            if self._forget(name, peer) is not None:
                self._inputs.disconnected(name, peer)
            self._held[name][peer] = link
            self._inputs.connected(name, peer)

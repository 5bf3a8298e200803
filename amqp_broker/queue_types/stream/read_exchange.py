"""ReadExchange: a node asks members for what it reads of streams of which it has no copy, and answers as a member.

    ask -> a linked member -> what has come, together
        -> refused, the link is gone, nothing comes: another member is asked the same
        -> all have refused, or there is none: again a little later; all for good: nothing

Invariants:
1. A question ends once: with what was said, with None where nobody will ever say anything, or because it is closed.
2. Nothing here goes over all questions in one turn: those of a node that is gone are for slices.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from amqp_broker.links.frame_kinds import FrameKind
from amqp_broker.metadata.group_placing import host_of
from amqp_broker.queue_types.stream.read_desk import HOLD_MS, ReadDesk
from amqp_broker.queue_types.stream.read_frames import (
    Asked,
    End,
    Look,
    Piece,
    Question,
    Read,
    Seen,
    Stop,
    decode_answer,
    encode_question,
)
from amqp_broker.settings.workers import node_of_worker
from queues.background import SLICE
from queues.stream.log import split_page
from queues.stream.tail import Stored
from queues.wire.reader import Malformed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from amqp_broker.links.tenants import Tenants
    from amqp_broker.queue_types.groups.group import QueueGroup
    from amqp_broker.queue_types.groups.groups import QuorumGroups
    from amqp_broker.turn.clock import TurnClock
    from queues.background import Background
    from queues.timers import Timer, Timers

log = logging.getLogger("amqp_broker.cluster")

#: When nothing has come for so long another member is asked, milliseconds; of READ and LOOK that time after HOLD_MS.
PATIENCE_MS = 10_000
#: All are asked again after this time where none of them answers, twice as long each time up to MOST_AGAIN_MS,
#: milliseconds.
AGAIN_MS = 100
MOST_AGAIN_MS = 3200


class Told(NamedTuple):
    """What was said, and by which node. octets: of the chunks. chunks: from the offset on that was asked for. seen: of
    a group."""

    node: str
    end: End
    octets: int
    chunks: list[Stored]
    seen: Seen | None = None


#: Called with what a question has come to; None: nobody will ever say anything.
Then = Callable[[Told | None], None]


class Asking:
    """A question about a stream. node: who is asked, "" for nobody at the moment; first_choice, last_choice: who is
    asked before others, and only where nobody else can be. refused: who has, and whether for good."""

    def __init__(
        self, group: QueueGroup, queue_id: int, asked: Asked, then: Then, first_choice: str = "", last_choice: str = ""
    ) -> None:
        self.group = group
        self.queue_id = queue_id
        self.asked = asked
        self.then = then
        self.first_choice = first_choice
        self.last_choice = last_choice
        self.node = ""
        self.number = 0
        self.octets: list[bytes] = []
        self.refused: dict[str, bool] = {}
        self.again_ms = AGAIN_MS
        self.timer: Timer | None = None
        self.is_closed = False


class ReadExchange:
    """See the module's docstring. addresses: of the members of the cluster."""

    def __init__(
        self, tenants: Tenants, groups: QuorumGroups, background: Background, timers: Timers, clock: TurnClock,
        addresses: Callable[[], Mapping[str, str]],
    ) -> None:  # fmt: skip
        answer = tenants.register(FrameKind.STREAM_READ_ANSWER, self._receive)
        self.desk = ReadDesk(groups, background, timers, clock, answer)
        self._send = tenants.register(FrameKind.STREAM_READ, self.desk.receive)
        self._background = background
        self._timers = timers
        self._clock = clock
        self._addresses = addresses
        self._own_node = groups.own_node
        self._open: dict[str, dict[int, Asking]] = {}
        self._resting: dict[Asking, None] = {}
        self._unasked: deque[tuple[str, Iterator[Asking]]] = deque()  # where they were asked, "" for nowhere

    # -- asking --------------------------------------------------------------------------------------------------------

    def ask(self, asking: Asking) -> Asking:
        """It is asked from now on; its `then` hears later. Returns it."""
        self._say(asking)
        return asking

    def close(self, asking: Asking) -> None:
        """Nobody wants to know any more."""
        if asking.is_closed:
            return
        node, number = asking.node, asking.number
        self._end(asking)
        if node:
            self._send(node, encode_question(Question(number, asking.queue_id, Stop())))

    def _end(self, asking: Asking) -> None:
        asking.is_closed = True
        self._take_back(asking)

    def _take_back(self, asking: Asking) -> None:
        """Nobody is asked."""
        if asking.timer is not None:
            asking.timer.cancel()
        self._resting.pop(asking, None)
        if asking.node:
            self._open.get(asking.node, {}).pop(asking.number, None)
        asking.node = ""
        asking.octets = []

    def _say(self, asking: Asking) -> None:
        """Ask whoever has not refused; a little later, if there is nobody."""
        now = self._clock.now
        for node in self._choices(asking):
            number = asking.group.draw_number()
            if self._send(node, encode_question(Question(number, asking.queue_id, asking.asked))):
                asking.node, asking.number = node, number
                self._open.setdefault(node, {})[number] = asking
                self._be_patient(asking)
                return
        refused, asking.refused = asking.refused, {}
        if refused and all(refused.values()) and len(refused) >= len(asking.group.wanted_members()):
            self._end(asking)
            asking.then(None)
            return
        self._resting[asking] = None
        asking.timer = self._timers.at(now + asking.again_ms, lambda _: self._say_again(asking))
        asking.again_ms = min(2 * asking.again_ms, MOST_AGAIN_MS)

    def _say_again(self, asking: Asking) -> None:
        self._take_back(asking)
        self._say(asking)

    def nearest(self, group: QueueGroup, queue_id: int) -> str:
        """The member that is asked first about a stream, "" while there is a link to none."""
        return next(iter(self._choices(Asking(group, queue_id, Stop(), _nobody_hears))), "")

    def _choices(self, asking: Asking) -> list[str]:
        """Who may be asked: the one of choice first, then those on the own host; else whoever the number of the stream
        falls on, so that not all read from one."""
        group, addresses = asking.group, self._addresses()
        names = [name for name in group.wanted_members() if group.is_linked(name) and name not in asking.refused]
        host = host_of(addresses.get(node_of_worker(self._own_node), ""))
        turn = asking.queue_id % (len(names) or 1)

        def rank(name: str) -> tuple[bool, bool, bool]:
            is_far = host_of(addresses.get(name, "")) != host
            return name == asking.last_choice, name != asking.first_choice, is_far

        return sorted(names[turn:] + names[:turn], key=rank)

    def _be_patient(self, asking: Asking) -> None:
        if asking.timer is not None:
            asking.timer.cancel()
        patience = PATIENCE_MS + (HOLD_MS if isinstance(asking.asked, Read | Look) and not asking.octets else 0)
        asking.timer = self._timers.at(self._clock.now + patience, lambda _: self._refused(asking, False))

    def _refused(self, asking: Asking, is_for_good: bool) -> None:
        """Somebody else is asked."""
        asking.refused[asking.node] = is_for_good
        self._say_again(asking)

    # -- links ---------------------------------------------------------------------------------------------------------

    def peer_connected(self) -> None:
        """There is somebody to ask, maybe."""
        resting, self._resting = self._resting, {}
        self._ask_later("", iter(resting))

    def peer_disconnected(self, name: str) -> None:
        """Whatever it was asked others are asked."""
        self._ask_later(name, iter(self._open.pop(name, {}).values()))

    def _ask_later(self, node: str, asked: Iterator[Asking]) -> None:
        if not self._unasked:
            self._background.add(self._ask_some)
        self._unasked.append((node, asked))

    def _ask_some(self, now: int) -> bool:
        """A slice of those."""
        for _ in range(SLICE):
            node, asked = self._unasked[0]
            asking = next(asked, None)
            if asking is None:
                self._unasked.popleft()
                if not self._unasked:
                    return False
            elif not asking.is_closed and asking.node == node:
                self._say_again(asking)
        return True

    # -- answers -------------------------------------------------------------------------------------------------------

    def _receive(self, name: str, payload: bytes, now: int) -> None:
        try:
            number, said = decode_answer(payload)
        except Malformed as error:
            log.error("%s sends what is nothing of a stream: %s", name, error)
            return
        asking = self._open.get(name, {}).get(number)
        if asking is None:
            return
        if isinstance(said, Piece):
            asking.octets.append(said.octets)
            self._be_patient(asking)
        elif isinstance(said, End):
            self._complete(asking, said)
        elif isinstance(said, Seen):
            self._end(asking)
            asking.then(Told(name, End(0, said.first, said.next), 0, [], said))
        else:
            self._refused(asking, said.is_for_good)

    def _complete(self, asking: Asking, end: End) -> None:
        node, octets = asking.node, b"".join(asking.octets)
        try:
            chunks = list(split_page(octets, 0, 0, is_sound=False)) if octets else []
        except Malformed as error:
            log.error("%s sends chunks of a stream that are none: %s", node, error)
            self._refused(asking, False)
            return
        self._end(asking)
        asking.then(Told(node, end, len(octets), chunks))


def _nobody_hears(told: Told | None) -> None:
    """Of what is not asked."""

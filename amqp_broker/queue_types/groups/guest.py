"""Guest: this node's side of a queue group of which it is no member.

    looking -> OPEN at a member -> OPENED: attached -> EFFECTS ... -> the link is gone, CLOSED: looking again

The node's stream of commands is the same as that of a member (OwnStream): the log executes each command once, whoever
is asked, so nothing has to be found out about a publish of which no confirm has come. It goes again to the next leader,
and the log skips what it has. What was confirmed, delivered and refused follows from the log, and whoever leads says
what is missing from what this node has heard.

Invariants:
1. Effects are taken in the order of the log, each once, whichever member says them.
2. `index` is of an entry, or above it, up to which effects were heard: whoever goes on has applied that.
3. Numbers of feeds are drawn, and do not depend on a clock.
4. One member is asked at a time, and while it has time to answer at most one other, of which it has said that it leads.
5. Nothing counts as heard of frames whose entry goes on in one that has not come.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_broker.queue_types.groups.guest_counts import GuestCounts, TakeFigures
from amqp_broker.queue_types.groups.guest_frames import (
    GOES_ON,
    Answer,
    Close,
    Closed,
    Counted,
    Effects,
    Find,
    Found,
    Open,
    Opened,
    Standing,
    Taken,
    encode_request,
)
from amqp_broker.queue_types.remote.effects_codec import Blocked, HomeEffect, QueueCounted, decode_from_home
from queues.effects import (
    AttachRefused,
    Confirmed,
    ConsumerCancelled,
    Delivered,
    Effect,
    GetAnswered,
    SettleMissed,
)
from queues.effects import (
    Counted as CommandCounted,
)
from queues.page import AddressBook
from queues.quorum.feed import Heard

if TYPE_CHECKING:
    from amqp_broker.links.tenants import Send
    from amqp_broker.queue_types.groups.group import QueueGroup


#: Who was asked has so long to answer before the next one is asked, twice as long each time, up to MOST_ASK_MS where
#: nobody answers (the links are slow), and MOST_FOUND_MS where somebody does (nobody leads); milliseconds.
ASK_MS = 200
MOST_ASK_MS = 3200
MOST_FOUND_MS = 800
#: So often a node that is a member, and is to be none, asks whether it is one still, milliseconds.
FIND_MS = 500
#: The leader hears how much was taken when it is so much more, octets.
_TELL_BYTES = 1024 * 1024
#: Consumers that are gone are forgotten when there are so many more than those that are there.
_MOST_GONE = 4096


class Guest:
    """Of one group. send: a request to another node. leader: the member that this node is attached to, None while it
    looks for one. index: see invariant 2. newest_session: of this node, as the log knows it. counts: asks for the
    figures of queues."""

    def __init__(self, group: QueueGroup, send: Send, heard: Heard, index: int) -> None:
        self._group = group
        self._group_id = group.group_id
        self._send = send
        self.leader: str | None = None
        self.index = index
        self.newest_session = 0
        self._session = heard.session
        self._last_sequence = heard.last_sequence
        self._next_notice = heard.next_notice
        self._consumers = dict(heard.consumers)
        self._number = 0
        self._asked = ""
        self._hint = ""
        self._is_answered = False
        self._may_follow = False  # a hint, before the next one is asked
        self._wait = 0
        self._next_at = 0
        self._turn = 0
        self._taken = 0
        self._told = 0
        self._parts: list[HomeEffect] = []  # of an entry that goes on in the next frame
        self._addresses = AddressBook()
        self.counts = GuestCounts(group, send)

    def heard(self) -> Heard:
        """What was heard of this node's session."""
        return Heard(self._session, self._last_sequence, self._next_notice, self._consumers)

    def begin_session(self, session: int) -> None:
        """The stream of commands goes on in a new one."""
        self._session, self._last_sequence, self._next_notice = session, 0, 1
        self._consumers = {}
        self._hint = self.leader or ""
        self._look_again()

    # -- looking for who leads -----------------------------------------------------------------------------------------

    def work(self, now: int) -> None:
        """At the end of a turn: somebody is asked, if nobody was in time."""
        self.counts.work(now)
        if self.leader is not None and not self._group.is_linked(self.leader):
            self._look_again()
        if self.leader is None and not now < self._next_at <= now + self._wait:
            most = MOST_FOUND_MS if self._is_answered else MOST_ASK_MS
            self._wait = max(ASK_MS, min(2 * self._wait, most))
            self._next_at = now + self._wait
            self._may_follow = True
            self._ask_next()

    def _ask_next(self) -> None:
        group = self._group
        hint, self._hint, self._asked = self._hint, "", ""
        members = [name for name in group.wanted_members() if group.is_linked(name)]
        if hint and group.is_linked(hint):
            self._ask(hint)
        elif members:
            self._turn += 1
            self._ask(members[self._turn % len(members)])

    def _ask(self, name: str) -> None:
        self._asked = name
        self._is_answered = False
        self._number = self._draw()
        self._taken = self._told = 0
        self._parts = []
        self._forget_gone()
        self._send(name, encode_request(Open(self._group_id, self._number, self.index, self.heard())))

    def _draw(self) -> int:
        return self._group.draw_number()

    def _look_again(self) -> None:
        self.leader = None
        self.counts.detached()
        self._number = 0
        self._parts = []
        self._wait = self._next_at = 0
        self._group.touch()

    def _forget_gone(self) -> None:
        owners = self._group.delivery_owners
        if len(self._consumers) > 2 * len(owners) + _MOST_GONE:
            self._consumers = {each: following for each, following in self._consumers.items() if each in owners}

    def peer_connected(self) -> None:
        """There is a link more: somebody to ask, maybe."""
        if self.leader is None and not self._asked:
            self._look_again()

    def peer_disconnected(self, name: str) -> None:
        """A link is gone."""
        if name == self.leader or (self.leader is None and name == self._asked):
            self._look_again()

    def close(self) -> None:
        """This node is a member from now on."""
        if self.leader is not None:
            self._send(self.leader, encode_request(Close(self._group_id, self._number)))
        self.counts.close()

    # -- what members say ----------------------------------------------------------------------------------------------

    def receive(self, name: str, frame: Answer, now: int) -> None:
        """Raises Malformed."""
        if isinstance(frame, Counted):
            self.counts.receive(frame)
        elif frame.number != self._number or not self._number:
            return
        elif isinstance(frame, Effects):
            if name == self.leader:
                self._take(frame, now)
        elif isinstance(frame, Opened):
            self.leader = name
            self.newest_session = frame.newest_session
            self._asked = ""
            self._wait = 0
            self.counts.attached(name)
            self._group.attached(now)
        elif isinstance(frame, Closed):
            self._hint = frame.leader
            self._look_again()
        elif isinstance(frame, Found) and self.leader is None:
            self._is_answered = True
            self._hint = frame.leader
            if self._may_follow and frame.leader not in ("", name) and self._group.is_linked(frame.leader):
                self._may_follow = False
                self._next_at = now + self._wait
                self._ask_next()

    def _take(self, frame: Effects, now: int) -> None:
        self._parts += decode_from_home(frame.octets, self._addresses).effects
        self._taken += len(frame.octets)
        if self._taken - self._told >= _TELL_BYTES:  # of parts, too: the rest may wait for that
            self._told = self._taken
            self._send(self.leader or "", encode_request(Taken(self._group_id, self._number, self._taken)))
        if frame.at == GOES_ON:
            return
        said, self._parts = self._parts, []
        self.index = max(self.index, frame.at)
        for effect in said:
            if type(effect) is Delivered:
                self._consumers[effect.consumer] = effect.delivery_id + 1
            elif isinstance(effect, Confirmed):
                self._last_sequence = effect.last
                self._next_notice += len(effect.refused)
            elif isinstance(effect, ConsumerCancelled):
                self._consumers.pop(effect.consumer, None)
                self._next_notice += 1
            elif isinstance(effect, GetAnswered | CommandCounted | AttachRefused | SettleMissed):
                self._next_notice += 1
        effects: list[Effect] = [each for each in said if not isinstance(each, QueueCounted | Blocked)]
        self._group.absorb_effects(effects, now)
        self._forget_gone()

    def count(self, queue_id: int, then: TakeFigures, waits: bool, now: int) -> None:
        """See GuestCounts."""
        self.counts.count(queue_id, then, waits, now)

    def next_deadline(self, now: int) -> int:
        """When `work` has something to do; 0 for never."""
        due = self.counts.next_deadline()
        if self.leader is None:
            again = self._next_at or now
            due = min(due, again) if due else again
        return due


class LeavingMember:
    """A member that the metadata do not name: it asks who leads whether it is one still."""

    def __init__(self, group: QueueGroup, send: Send) -> None:
        self._group = group
        self._send = send
        self._number = 0
        self.next_at = 0

    def work(self, now: int) -> None:
        """At the end of a turn."""
        if now < self.next_at <= now + FIND_MS:
            return
        self.next_at = now + FIND_MS
        group = self._group
        self._number = group.draw_number()
        for name in group.wanted_members():
            if group.is_linked(name):
                self._send(name, encode_request(Find(group.group_id, self._number)))

    def has_left(self, frame: Answer) -> bool:
        """Whether a frame says so."""
        is_answer = isinstance(frame, Found) and frame.number == self._number != 0
        return is_answer and isinstance(frame, Found) and frame.standing is Standing.LEADS

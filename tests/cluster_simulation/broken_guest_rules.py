"""One rule of groups on some of the nodes turned off at a time, to see that the simulation notices."""

from __future__ import annotations

import pytest

from amqp_broker.queue_types.groups.guest import Guest, LeavingMember
from amqp_broker.queue_types.groups.guest_frames import Answer, Found
from amqp_broker.queue_types.stream import distant_stream
from amqp_broker.queue_types.stream.read_exchange import Asking, ReadExchange
from amqp_broker.queue_types.stream.read_frames import GroupSeen, Read
from queues.effects import Confirmed
from queues.stream.groups import ReaderGroup

Patch = pytest.MonkeyPatch


def a_guest_confirms_what_it_has_sent(patch: Patch) -> None:
    """And not what the log has."""
    work = Guest.work

    def hasty(self: Guest, now: int) -> None:
        work(self, now)
        stream = self._group.stream
        if self.leader is not None and stream.unapplied and not stream.has_open:
            first, last = self._last_sequence + 1, self._last_sequence + stream.unapplied
            self._last_sequence = last
            self._group.absorb_effects([Confirmed(self._session, first, last, ())], now)

    patch.setattr(Guest, "work", hasty)


def a_member_forgets_before_it_is_let_go(patch: Patch) -> None:
    """As soon as it hears anything, although it votes."""
    patch.setattr(LeavingMember, "has_left", _hears)


def _hears(self: LeavingMember, frame: Answer) -> bool:
    return isinstance(frame, Found)


def a_reader_goes_on_behind_what_a_member_was_asked(patch: Patch) -> None:
    """When that is gone, as if it had answered."""
    say_again = ReadExchange._say_again

    def said(self: ReadExchange, asking: Asking) -> None:
        if asking.node and isinstance(asking.asked, Read):
            asking.asked = asking.asked._replace(offset=asking.asked.offset + 1)
        say_again(self, asking)

    patch.setattr(ReadExchange, "_say_again", said)


def a_reader_at_a_guest_does_not_see_that_it_begins_anew(patch: Patch) -> None:
    """It goes on where it was when it read last, whoever has read meanwhile."""
    as_group = distant_stream._as_group

    def seen(group: GroupSeen, own_node: str) -> ReaderGroup:
        found = as_group(group, own_node)
        found.generation = 1
        return found

    patch.setattr(distant_stream, "_as_group", seen)

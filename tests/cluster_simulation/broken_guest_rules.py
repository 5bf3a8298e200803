"""One rule of groups on some of the nodes turned off at a time, to see that the simulation notices."""

from __future__ import annotations

import pytest

from amqp_broker.queue_types.quorum.guest import Guest, Leaving
from amqp_broker.queue_types.quorum.guest_frames import Answer, Found
from amqp_broker.queue_types.stream.read_desk import ReadDesk
from amqp_broker.queue_types.stream.read_exchange import Asking, ReadExchange
from amqp_broker.queue_types.stream.read_frames import Look, Question, Read, decode_question, encode_question
from queues.quorum.effects import Confirmed

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
    patch.setattr(Leaving, "has_left", _hears)


def _hears(self: Leaving, frame: Answer) -> bool:
    return isinstance(frame, Found)


def a_reader_goes_on_behind_what_a_member_was_asked(patch: Patch) -> None:
    """When that is gone, as if it had answered."""
    say_again = ReadExchange._say_again

    def said(self: ReadExchange, asking: Asking) -> None:
        if asking.node and isinstance(asking.asked, Read):
            asking.asked = asking.asked._replace(offset=asking.asked.offset + 1)
        say_again(self, asking)

    patch.setattr(ReadExchange, "_say_again", said)


def a_member_says_who_reads_as_far_as_it_knows(patch: Patch) -> None:
    """Though the node that asks has heard more."""
    receive = ReadDesk.receive

    def received(self: ReadDesk, name: str, payload: bytes, now: int) -> None:
        number, queue_id, asked = decode_question(payload)
        if isinstance(asked, Look):
            payload = encode_question(Question(number, queue_id, asked._replace(at=0)))
        receive(self, name, payload, now)

    patch.setattr(ReadDesk, "receive", received)

"""Settlement: very many deliveries that are acknowledged, refused or put back at a time, in slices.

    out of their channels, at once -> acknowledged or refused, the first of them first
                                   -> back into their queues

Whoever asked for it says nothing more until all of it is done; should its connection be lost meanwhile, the rest is
done all the same. In which order a queue gets them back, and how many before it is waited for, is its own to say: one
that has them itself delivers nothing between the first that comes back to it and the last, so that they are where they
were before anybody gets what stood behind them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from itertools import islice
from typing import TYPE_CHECKING

from amqp_broker.routing.taps import RETURNED
from amqp_broker.turn.task import Steps, Task
from queues.effects import Refusal
from queues.receipts import Receipt
from queues.returning import PUT_BACK, runs_by_queue

if TYPE_CHECKING:
    from amqp_broker.channel.channel import Channel
    from amqp_broker.channel.services import ChannelServices
    from queues.message import Delivery
    from queues.queue import Parting, Queue
    from queues.timers import Timers

#: So many deliveries at a time, the settled ones among them included, are few enough to be settled at once.
FEW = 2000
#: So many are acknowledged or refused in a slice.
_SETTLED = 256
#: A queue is waited for so long at most, milliseconds: a log without a majority takes nothing, and who closes a channel
#: is not to wait for that.
_PATIENCE_MS = 50


class _Taken(Receipt):
    """What a task waits for until a queue has it, or for a while: an Awaited."""

    def __init__(self, timers: Timers, now: int, queue: Queue) -> None:
        self.is_done = False
        self._waiting = 0
        self._then: Callable[[object], None] | None = None
        self._timer = timers.at(now + _PATIENCE_MS, lambda _: self._end())
        queue.when_settled(self, True)
        if not self._waiting:  # what was held in a session that is over is not settled
            self._end()

    def expect(self) -> None:
        """One more command is on its way."""
        self._waiting += 1

    def complete(self, refusal: Refusal | None) -> None:
        """One of the commands is done."""
        self._waiting -= 1
        if not self._waiting:
            self._end()

    def when_done(self, then: Callable[[object], None]) -> None:
        """See Awaited."""
        if self.is_done:
            then(None)
        else:
            self._then = then

    def _end(self) -> None:
        if not self.is_done:
            self.is_done = True
            self._timer.cancel()
            if self._then is not None:
                self._then(None)


def settle_many(
    channel: Channel, entries: list[Delivery | None], what: str, settle: Callable[[list[Delivery]], None]
) -> None:
    """`settle(some)` of the entries, in order, until there are none, nothing else of the connection being handled
    meanwhile. what: the method that asks for it."""

    def steps() -> Steps:
        for start in range(0, len(entries), _SETTLED):
            some = [entry for entry in entries[start : start + _SETTLED] if entry is not None]
            entries[start : start + _SETTLED] = [None] * min(_SETTLED, len(entries) - start)
            settle(some)
            yield None

    services = channel.services
    pending = services.answers.begin(channel.connection, what, is_timed=False)
    Task(services.background, steps()).when_done(lambda _: pending.release(_say_nothing))


def put_back_many(
    channel: Channel,
    held: Iterable[list[Delivery | None]],
    leaving: Generator[None, None, list[tuple[Queue, Parting]]] | None = None,
    what: str = "",
    then: Callable[[], None] | None = None,
) -> None:
    """What channels held returns to its queues. channel: one of them. held: of each, with None for what was settled.
    leaving: the channels are closed; how their consumers leave, which is before anything is taken of `held`, and what
    the queues of these are to be told. what: the method that asks for it, if one does; its connection waits. then:
    called when all is done, if the connection is still there."""
    services = channel.services
    task = Task(services.background, _put_back(services, held, leaving, channel if leaving is None else None))
    if what:
        pending = services.answers.begin(channel.connection, what, is_timed=False)
        task.when_done(lambda _: pending.release(then or _say_nothing))


def _say_nothing() -> None:
    """The method has no answer."""


def _depart(services: ChannelServices, parting: list[tuple[Queue, Parting]]) -> Steps:
    """All of them, before anything goes back that one of them could get; what no client has seen goes along."""
    unseen = 0
    for queue, parted in parting:
        unseen += parted.unseen
        parted.tell()
        if queue.return_window and unseen >= queue.return_window:
            unseen = 0
            yield _Taken(services.timers, services.clock.now, queue)
        else:
            yield None


def _put_back(
    services: ChannelServices,
    held: Iterable[list[Delivery | None]],
    leaving: Generator[None, None, list[tuple[Queue, Parting]]] | None,
    channel: Channel | None,
) -> Steps:
    """channel: whose consumers have credit for others then."""
    if leaving is not None:
        yield from _depart(services, (yield from leaving))
    runs = yield from runs_by_queue(held)
    for queue, found in runs.items():
        deliveries = queue.begin_return(found)
        untaken = 0
        while some := list(islice(deliveries, PUT_BACK)):
            if channel is not None:
                if channel.is_traced:
                    channel.trace_settled(RETURNED, some)
                channel.forget_holders(some)
                queue.put_back(some, services.clock.now)
            else:
                queue.fail(some, services.clock.now)
            untaken += len(some)
            if queue.return_window and untaken >= queue.return_window:
                untaken = 0
                yield _Taken(services.timers, services.clock.now, queue)
            else:
                yield None
        queue.end_return(services.clock.now)
    if channel is not None and channel.is_open and not channel.is_closing:
        channel.dispatch()

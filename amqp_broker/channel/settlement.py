"""Settlement: very many deliveries that are acknowledged, refused or put back at a time, in slices.

    out of their channels, at once -> acknowledged or refused, the first of them first
                                   -> back into their queues, the last of them first

Whoever asked for it says nothing more until all of it is done; should its connection be lost meanwhile, the rest is
done all the same. A queue delivers nothing between the first that comes back to it and the last, so that they are where
they were before anybody gets what stood behind them; the last go first because each then stands in front of all that
is there. A queue whose log is elsewhere has its own order, and gets them as they were.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import merge
from itertools import chain, islice
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from amqp_broker.task import Steps, Task

if TYPE_CHECKING:
    from amqp_broker.channel.channel import Channel

#: So many deliveries at a time, the settled ones among them included, are few enough to be settled at once.
FEW = 2000
#: So many are acknowledged or refused, and put back, in a slice.
_SETTLED = 256
_PUT_BACK = 128

_sequence_of = attrgetter("sequence")


def settle_many(channel: Channel, entries: list[Any], what: str, settle: Callable[[list[Any]], None]) -> None:
    """`settle(some)` of the entries, in order, until there are none, nothing else of the connection being handled
    meanwhile. what: the method that asks for it."""

    def steps() -> Steps:
        for start in range(0, len(entries), _SETTLED):
            some = [entry for entry in entries[start : start + _SETTLED] if entry is not None]
            entries[start : start + _SETTLED] = [None] * min(_SETTLED, len(entries) - start)
            channel.vhost.now = node.now
            settle(some)
            yield None

    node = channel.connection.node
    hold = node.hold(channel.connection, what, is_timed=False)
    Task(node.background, steps()).when_done(lambda _: hold.release(_say_nothing))


def put_back_many(
    channel: Channel, held: list[list[Any]], is_left: bool, what: str = "", then: Callable[[], None] | None = None
) -> None:
    """What channels held returns to its queues. channel: one of them. held: of each, with None for what was settled.
    is_left: the channels are closed. what: the method that asks for it, if one does; its connection waits. then:
    called when all is done, if the connection is still there."""
    node = channel.connection.node
    task = Task(node.background, _put_back(node, held, None if is_left else channel))
    if what:
        hold = node.hold(channel.connection, what, is_timed=False)
        task.when_done(lambda _: hold.release(then or _say_nothing))


def _say_nothing() -> None:
    """The method has no answer."""


def _put_back(node: Any, held: list[list[Any]], channel: Channel | None) -> Steps:
    """channel: whose consumers have credit for others then."""
    runs: dict[Any, list[list[Any]]] = {}  # of each queue, from the last delivery to the first
    while held:
        entries = held.pop()
        by_queue: dict[Any, list[Any]] = {}
        while entries:
            for entry in reversed(entries[-_SETTLED:]):
                if entry is not None:
                    by_queue.setdefault(entry.consumer.queue, []).append(entry)
            del entries[-_SETTLED:]
            yield None
        for queue, run in by_queue.items():
            runs.setdefault(queue, []).append(run)
    for queue, found in runs.items():
        if queue.is_proxy:
            entries = list(chain.from_iterable(found))
            entries.reverse()
            steps = iter(entries)
        else:
            queue.begin_return()
            steps = iter(found[0]) if len(found) == 1 else merge(*found, key=_sequence_of, reverse=True)
        while some := list(islice(steps, _PUT_BACK)):
            if channel is not None:
                channel.forget_holders(some)
            queue.put_back(some, node.now)
            yield None
        if not queue.is_proxy:
            queue.end_return()
        elif channel is not None:
            queue.dispatch(node.now)

"""What very many consumers held, made ready in slices to go back into its queues.

    held, of each consumer or channel, in order -> runs of each queue -> Queue.begin_return, put_back ..., end_return

A queue takes any number of runs (`Queue.begin_return`), but thousands of very short ones cost it more than a few that
were joined.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from queues.message import Delivery
    from queues.queue import Queue

#: So many deliveries are taken out of what was held in a slice.
_TAKEN: Final = 256
#: So many go back into a queue in a slice: to put one back takes a microsecond.
PUT_BACK: Final = 128
#: A run of at most so many is joined with others, so many of these.
_SHORT: Final = 64
_JOINED: Final = 32

#: For each queue what is to go back to it: of each run from the last delivery to the first.
Runs = dict["Queue", list[list["Delivery"]]]


def runs_by_queue(held: Iterable[list[Any]]) -> Generator[None, None, Runs]:
    """Steps of a Task. held: the deliveries of one consumer or channel each, of the queues' own classes, with None for
    what was settled; the lists are emptied."""
    runs: Runs = {}
    loose: Runs = {}  # short ones, that stand behind those
    for entries in held:
        by_queue: dict[Queue, list[Any]] = {}
        while entries:
            for entry in reversed(entries[-_TAKEN:]):
                if entry is not None:
                    by_queue.setdefault(entry.consumer.queue, []).append(entry)
            del entries[-_TAKEN:]
            yield None
        for queue, run in by_queue.items():
            short = loose.setdefault(queue, [])
            if len(run) <= _SHORT:
                short.append(run)
            if short and (len(run) > _SHORT or len(short) == _JOINED):
                runs.setdefault(queue, []).append(queue.join_returns(short))
                loose[queue] = []
                yield None
            if len(run) > _SHORT:
                runs.setdefault(queue, []).append(run)
    for queue, short in loose.items():
        if short:
            runs.setdefault(queue, []).append(short[0] if len(short) == 1 else queue.join_returns(short))
            yield None
    return runs

"""Task: work that costs by the number of things, or that waits for others, written as a generator.

    steps -> `yield None`: the slice is over, the next one comes when the background has time (queues/background.py)
          -> `yield awaited`: goes on when that is done, with its result as the value of the `yield`
          -> `return result`

Invariants:
1. While it waits it is not in the background's list, so that whoever runs slices until there are none comes to an end.
2. What its steps raise ends it, and nothing else: it is in `error`, for whoever waits for the task. But for what the
   disk raises, which ends the node.
3. Nothing of that is silent: it is a defect, and logged, unless whoever began the task expects it and looks at `error`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from typing import Any, Protocol, TypeAlias

from amqp_broker.turn.completion import Completion
from queues.background import Jobs
from storage.errors import StorageError

log = logging.getLogger("amqp_broker")

#: What a request or a file can do wrong: `expected` of those who tell whoever has sent it.
EXPECTED_ERRORS = (ValueError, KeyError, TypeError, RecursionError)


class Awaited(Protocol):
    """Something that will be done."""

    @property
    def is_done(self) -> bool:
        """Whether it is."""
        ...

    def when_done(self, then: Callable[[object], None]) -> None:
        """Call `then(result)`; at once if it is done already."""
        ...


#: What a `yield` gives is what was awaited came to, of whatever class: who writes the steps knows which.
Steps: TypeAlias = Generator[Awaited | None, Any, Any]  # result: of what is awaited, and of the whole


class Task(Completion[Any]):  # result: what its steps return
    """Steps on their way; itself an Awaited. expected: errors of these classes are no defects, and who begins it sees
    to them. on_progress: called after each slice. error: what ended it, if it is not a result."""

    def __init__(self, background: Jobs, steps: Steps, expected: tuple[type[Exception], ...] = ()) -> None:
        super().__init__()
        self.error: Exception | None = None
        self.on_progress: Callable[[], None] | None = None
        self._background = background
        self._steps = steps
        self._expected = expected
        self._value: object = None
        background.add(self._slice)

    def tell_progress(self, told: Callable[[], None]) -> None:
        """Call `told()` after each slice."""
        self.on_progress = told

    def _slice(self, now: int) -> bool:
        value, self._value = self._value, None
        try:
            awaited = self._steps.send(value)
        except StopIteration as end:
            self._finish(end.value, None)
            return False
        except self._expected as error:
            self._finish(None, error)
            return False
        except (OSError, StorageError):
            raise
        except Exception as error:
            name = getattr(self._steps, "__qualname__", "a task")
            log.exception("defect in %s: what it had not done yet is not done; report it", name)
            self._finish(None, error)
            return False
        if self.on_progress is not None:
            self.on_progress()
        if awaited is not None:
            awaited.when_done(self._go_on)
        return awaited is None

    def _go_on(self, result: object) -> None:
        self._value = result
        self._background.add(self._slice)

    def _finish(self, result: object, error: Exception | None) -> None:
        self.error = error
        self._steps.close()
        self.complete(result)

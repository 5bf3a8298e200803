"""PendingAnswer: what a connection has asked for and gets later; none of its frames are handled until then.
PendingAnswers: all that a node has, and those that wait for its disk."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from amqp_broker.errors import ConnectionException
from amqp_broker.flow.reason import Reason
from amqp_broker.flow.state import OPEN
from amqp_broker.protocol.constants import ReplyCode

if TYPE_CHECKING:
    from amqp_broker.flow.client import Client
    from amqp_broker.flow.pauses import Pauses
    from amqp_broker.turn.clock import TurnClock

Answer = Callable[[], None]

_ANSWER = int(Reason.ANSWER)


class PendingAnswer:
    """Made by PendingAnswers.begin for the method that is being handled. what: is waited for, and said when it does not
    come. deadline: until when, milliseconds, 0: for as long as it takes. is_over: it is not waited for."""

    def __init__(self, answers: PendingAnswers, connection: Client, what: str) -> None:
        self.connection = connection
        self.what = what
        self.deadline = 0
        self.is_over = False
        self._answers = answers
        self._serve = connection.served_later()

    def extend(self) -> None:
        """What is waited for goes on: the whole time begins anew."""
        if not self.is_over:
            self._answers.restart(self)

    def release(self, answer: Answer) -> None:
        """It has happened: answer, and go on with the connection's frames. `answer` may raise as a handler may, and may
        hold the connection again."""
        if not self.is_over:
            self.is_over = True
            self._answers.end(self, lambda: self._serve(answer))

    def give_up(self, waited_ms: int) -> None:
        """It does not happen in time."""

        def refuse() -> None:
            raise ConnectionException(
                ReplyCode.INTERNAL_ERROR,
                f"{self.what}: no majority of the members has answered within {waited_ms} ms (command_timeout); "
                "whether it takes effect is not known",
            )

        self.release(refuse)


class PendingAnswers:
    """timed: those that are timed, in the order of their deadlines. parked: what waits for the disk, with how far that
    has to be."""

    def __init__(self, pauses: Pauses, clock: TurnClock, timeout_ms: int) -> None:
        self._pauses = pauses
        self._clock = clock
        self._timeout_ms = timeout_ms
        self.timed: dict[PendingAnswer, None] = {}
        self.parked: deque[tuple[int, Client, Answer]] = deque()

    def park(self, connection: Client, position: int, answer: Answer) -> None:
        """Handle no more frames of the connection until the journal is synced up to `position`; then answer, and go
        on."""
        self._pauses.pause(connection, _ANSWER)
        self.parked.append((position, connection, answer))

    def begin(self, connection: Client, what: str, is_timed: bool = True) -> PendingAnswer:
        """Handle no more frames of the connection until the answer is released; `what` names what is waited for. After
        command_timeout the connection is closed, unless what is waited for is our own work (not `is_timed`)."""
        self._pauses.pause(connection, _ANSWER)
        pending = PendingAnswer(self, connection, what)
        if is_timed:
            self.restart(pending)
        return pending

    def restart(self, pending: PendingAnswer) -> None:
        """It holds for command_timeout from now on."""
        pending.deadline = self._clock.now + self._timeout_ms
        self.timed.pop(pending, None)
        self.timed[pending] = None

    def end(self, pending: PendingAnswer, answer: Answer) -> None:
        """It is over."""
        self.timed.pop(pending, None)
        self._go_on(pending.connection, answer)

    def _go_on(self, connection: Client, answer: Answer) -> None:
        self._pauses.resume(connection, _ANSWER, self._clock.now, answer if connection.state == OPEN else None)

    def tick(self, now: int) -> None:
        """Time has passed: what does not come is given up."""
        while self.timed and (pending := next(iter(self.timed))).deadline <= now:
            pending.give_up(self._timeout_ms)

    def synced(self, position: int) -> None:
        """The journal is on the disk up to there."""
        while self.parked and self.parked[0][0] <= position:
            _, connection, answer = self.parked.popleft()
            self._go_on(connection, answer)

    @property
    def deadline(self) -> int:
        """When `tick` has something to do; 0 for never."""
        return next(iter(self.timed)).deadline if self.timed else 0

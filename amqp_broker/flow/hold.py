"""Hold: a connection none of whose frames are handled until something has happened elsewhere; PendingAnswers: all that
a node has, and those that wait for its disk."""

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


class Hold:
    """Made by PendingAnswers.hold for the method that is being handled. `what`: what is waited for, to be named when it
    does not come. deadline: until when, milliseconds, 0: for as long as it takes. is_over: it is not waited for."""

    def __init__(self, answers: PendingAnswers, connection: Client, what: str) -> None:
        self.connection = connection
        self.what = what
        self.deadline = 0
        self.is_over = False
        self._answers = answers
        self._channel, self._serving = connection.now_served()

    def extend(self) -> None:
        """What is waited for goes on: the whole time begins anew."""
        if not self.is_over:
            self._answers.begin(self)

    def release(self, answer: Answer) -> None:
        """It has happened: answer, and go on with the connection's frames. `answer` may raise as a handler may, and may
        hold the connection again."""
        if not self.is_over:
            self.is_over = True
            self._answers.end(self, lambda: self.connection.serve(self._channel, self._serving, answer))

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
    """holds: those that are timed, in the order of their deadlines. parked: what waits for the disk, with how far that
    has to be."""

    def __init__(self, pauses: Pauses, clock: TurnClock, timeout_ms: int) -> None:
        self._pauses = pauses
        self._clock = clock
        self._timeout_ms = timeout_ms
        self.holds: dict[Hold, None] = {}
        self.parked: deque[tuple[int, Client, Answer]] = deque()

    def park(self, connection: Client, position: int, answer: Answer) -> None:
        """Handle no more frames of the connection until the journal is synced up to `position`; then answer, and go
        on."""
        self._pauses.pause(connection, _ANSWER)
        self.parked.append((position, connection, answer))

    def hold(self, connection: Client, what: str, is_timed: bool = True) -> Hold:
        """Handle no more frames of the connection until the hold is released; `what` names what is waited for. After
        command_timeout the connection is closed, unless what is waited for is our own work (not `is_timed`)."""
        self._pauses.pause(connection, _ANSWER)
        hold = Hold(self, connection, what)
        if is_timed:
            self.begin(hold)
        return hold

    def begin(self, hold: Hold) -> None:
        """It holds for command_timeout from now on."""
        hold.deadline = self._clock.now + self._timeout_ms
        self.holds.pop(hold, None)
        self.holds[hold] = None

    def end(self, hold: Hold, answer: Answer) -> None:
        """It is over."""
        self.holds.pop(hold, None)
        self._go_on(hold.connection, answer)

    def _go_on(self, connection: Client, answer: Answer) -> None:
        self._pauses.resume(connection, _ANSWER, self._clock.now, answer if connection.state == OPEN else None)

    def tick(self, now: int) -> None:
        """Time has passed: what does not come is given up."""
        while self.holds and (hold := next(iter(self.holds))).deadline <= now:
            hold.give_up(self._timeout_ms)

    def synced(self, position: int) -> None:
        """The journal is on the disk up to there."""
        while self.parked and self.parked[0][0] <= position:
            _, connection, answer = self.parked.popleft()
            self._go_on(connection, answer)

    @property
    def deadline(self) -> int:
        """When `tick` has something to do; 0 for never."""
        return next(iter(self.holds)).deadline if self.holds else 0

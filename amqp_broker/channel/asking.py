"""What a channel asks of a queue, which may have to ask elsewhere.

If the queue answers at once, so does the channel. If not, the connection's other frames wait meanwhile
(PendingAnswers.begin), so that answers keep their order; whether it was so, the client cannot tell from what it gets.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from amqp_broker.errors import ChannelException
from amqp_broker.protocol.constants import ReplyCode
from queues.refusal import QueueRefusal

if TYPE_CHECKING:
    from amqp_broker.channel.channel import Channel
    from amqp_broker.flow.pending_answers import PendingAnswer


def ask(
    channel: Channel,
    what: str,
    question: Callable[[Callable[..., None]], None],
    answer: Callable[..., None],
    refused: Callable[[], None] | None = None,
    unheard: Callable[..., None] | None = None,
) -> None:
    """Ask `question(then)`. answer: is called with what `then` has got behind the refusal, and says it to the client.
    refused: is called first where there is a refusal, which the client is told. unheard: instead of `answer`, where the
    client is gone when it comes. what: is waited for."""
    asked = _Question(answer, refused, unheard)
    question(asked.then)
    if not asked.is_answered:
        asked.pending = channel.services.answers.begin(channel.connection, what)


class _Question:
    """pending: once it has to be waited for."""

    def __init__(
        self, answer: Callable[..., None], refused: Callable[[], None] | None, unheard: Callable[..., None] | None
    ) -> None:
        self.is_answered = False
        self.pending: PendingAnswer | None = None
        self._answer = answer
        self._refused = refused
        self._unheard = unheard
        self._is_heard = False

    def then(self, refusal: Exception | None, *found: object) -> None:
        """The queue has answered."""
        assert not self.is_answered, "a queue has answered a question twice"
        self.is_answered = True
        if self.pending is None:
            self._tell(refusal, found)
            return
        self.pending.release(lambda: self._tell(refusal, found))
        if not self._is_heard and refusal is None and self._unheard is not None:
            self._unheard(*found)

    def _tell(self, refusal: Exception | None, found: tuple[object, ...]) -> None:
        self._is_heard = True
        if refusal is None:
            self._answer(*found)
            return
        if self._refused is not None:
            self._refused()
        raise as_exception(refusal)


def as_exception(refusal: Exception) -> Exception:
    """What is raised for a refusal of a queue: those of queues that know nothing of AMQP are in its terms then."""
    if isinstance(refusal, QueueRefusal):
        return ChannelException(ReplyCode(refusal.reply_code), refusal.text)
    return refusal

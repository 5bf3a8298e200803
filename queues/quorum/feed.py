"""Feed: what a node that is no member of the group is to hear: the effects of its session, on the member that leads.

Effects follow from the log alone, so whichever member leads can go on where another one has stopped: the node says what
it has heard (`Heard`), and the difference to the state is what it has missed, as after an install.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from queues.effects import Confirmed, Effect, Refused
from queues.quorum.state import Origin


class Heard(NamedTuple):
    """What a node has heard of its session. last_sequence: of its commands; next_notice: the number of the notice that
    it hears next; consumers: by number, the delivery that comes next."""

    session: int
    last_sequence: int
    next_notice: int
    consumers: Mapping[int, int]

    @classmethod
    def nothing(cls, session: int) -> Heard:
        """Of one that has just begun."""
        return cls(session, 0, 1, {})


class Known:
    """A consumer of which a node has heard. next_delivery: what comes next for it."""

    __slots__ = ("next_delivery",)

    def __init__(self, next_delivery: int) -> None:
        self.next_delivery = next_delivery


def as_origin(name: str, heard: Heard) -> Origin:
    """The state of a node's session as it was when the node had heard so much."""
    origin = Origin(name)
    origin.begin(heard.session)
    origin.last_sequence = heard.last_sequence
    origin.next_notice = heard.next_notice
    consumers: dict[int, Any] = {number: Known(following) for number, following in heard.consumers.items()}
    origin.consumers = consumers
    return origin


def heard_by(origin: Origin | None, session: int) -> Heard:
    """What a node has heard that has taken all effects of a state."""
    if origin is None or origin.session != session:
        return Heard.nothing(session)
    consumers = {number: origin.consumers[number].next_delivery for number in origin.consumers}
    return Heard(session, origin.last_sequence, origin.next_notice, consumers)


class Feed:
    """effects: those that were not taken yet, in order. refused: of the batch that is being applied."""

    __slots__ = ("effects", "refused", "session")

    def __init__(self, session: int) -> None:
        self.session = session
        self.effects: list[Effect] = []
        self.refused: list[Refused] = []

    def confirm(self, first: int, last: int) -> None:
        """The commands first..last were applied."""
        self.effects.append(Confirmed(self.session, first, last, tuple(self.refused)))
        self.refused = []

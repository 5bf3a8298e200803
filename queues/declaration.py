"""Declaration: how a client declared a queue, as far as queues and who works with them ask."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from queues.queue import Queue


class Owner(Protocol):
    """Who has an exclusive queue."""

    def is_in(self, vhost: object) -> bool: ...

    def own(self, queue: Queue) -> None: ...

    def disown(self, queue: Queue) -> None: ...


class Declaration(Protocol):
    """owner: of an exclusive queue. type: in force also where the arguments have none. part_of: the stream of which it
    is a partition, "" for none. governed_as: the name by which policies apply to it."""

    @property
    def name(self) -> str: ...

    @property
    def vhost(self) -> str: ...

    @property
    def type(self) -> str: ...

    @property
    def is_durable(self) -> bool: ...

    @property
    def is_auto_delete(self) -> bool: ...

    @property
    def owner(self) -> Owner | None: ...

    @property
    def arguments(self) -> Any: ...  # field values: those of a header table

    @property
    def part_of(self) -> str: ...

    @property
    def governed_as(self) -> str: ...

    def disown(self, queue: Queue) -> None:
        """The queue that was declared so goes."""

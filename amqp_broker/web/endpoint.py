"""Endpoint: a method and a path, who may ask, and what answers; and the table in which they are found.

A path is written as `/queues/{vhost}/{queue}`: what stands in braces is one name, whatever its octets.

Invariant: of two paths that fit, the one with fewer names in braces is found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from amqp_broker.web.access import Access
from amqp_broker.web.answer import JSON, Answer

if TYPE_CHECKING:
    from amqp_broker.web.asked import Asked

KIB, MIB = 1 << 10, 1 << 20
BODY_LIMIT_BYTES = MIB
#: Statuses of success: with an answer, without one, of what is made; of a job, or of what one would do; of what is
#: imported, or would be.
ANSWER: Final = (200,)
NO_ANSWER: Final = (204,)
MADE: Final = (201,)
JOB: Final = (202,)
JOB_OR_PREVIEW: Final = (200, 202)
IMPORTED: Final = (200, 204)
#: The statuses of success, where an endpoint has no others.
_DONE: Final[Mapping[str, tuple[int, ...]]] = {"GET": (200,), "PUT": (201, 204), "POST": (200,), "DELETE": (204,)}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """`media`: what a GET answers with. `body`: what a request has to bring, None where it is read otherwise.
    `for_viewers`: a GET that changes nothing and shows nothing of what messages hold. `done`: the statuses of success,
    None for those of its method; `refused`: of refusals that others do not have."""

    method: str
    path: str
    answer: Callable[[Asked], Answer]
    access: Access = Access.MANAGEMENT
    body_limit_bytes: int = BODY_LIMIT_BYTES
    media: str = JSON
    body: type[msgspec.Struct] | None = None
    for_viewers: bool = True
    done: tuple[int, ...] | None = None
    refused: tuple[int, ...] = ()

    @property
    def needed(self) -> Access:
        """Who may ask: who may look may have what is only shown."""
        is_look = self.access is Access.MANAGEMENT and self.method == "GET" and self.for_viewers
        return Access.VIEWER if is_look else self.access

    @property
    def successes(self) -> tuple[int, ...]:
        """The statuses of what is done."""
        return _DONE[self.method] if self.done is None else self.done

    @property
    def refusals(self) -> tuple[int, ...]:
        """The statuses of what is not done, but for faults of the server: those of everything that is asked in this
        way, and its own."""
        found = {400, 503, *self.refused}
        if self.access is not Access.NOBODY_ASKED:
            found |= {401, 403}
        if self.method == "GET":
            found |= {406} if self.media == JSON else set()
        else:
            found |= {403, 408, 413}
        if "{" in self.path:
            found.add(404)
        return tuple(sorted(found))


class Place:
    """What is at one path: its endpoints by method."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self.endpoints: dict[str, Endpoint] = {}

    @property
    def allowed(self) -> str:
        """The value of `Allow`."""
        methods = {*self.endpoints, "OPTIONS"} | ({"HEAD"} if "GET" in self.endpoints else set())
        return ", ".join(sorted(methods))

    def find(self, method: str) -> Endpoint | None:
        return self.endpoints.get("GET" if method == "HEAD" else method)


class _Fork:
    """One segment further on."""

    def __init__(self) -> None:
        self.words: dict[str, _Fork] = {}
        self.name: _Fork | None = None
        self.place: Place | None = None


class Endpoints:
    """All endpoints, found by path."""

    def __init__(self, endpoints: Iterable[Endpoint]) -> None:
        self._root = _Fork()
        self.all: list[Endpoint] = []
        for each in endpoints:
            self._add(each)

    def _add(self, endpoint: Endpoint) -> None:
        self.all.append(endpoint)
        fork, names = self._root, []
        for part in endpoint.path.strip("/").split("/"):
            if part.startswith("{"):
                names.append(part[1:-1])
                fork.name = fork.name or _Fork()
                fork = fork.name
            else:
                fork = fork.words.setdefault(part, _Fork())
        if fork.place is None:
            fork.place = Place(tuple(names))
        if fork.place.names != tuple(names) or endpoint.method in fork.place.endpoints:
            raise ValueError(f"{endpoint.method} {endpoint.path}: this path is taken already")
        fork.place.endpoints[endpoint.method] = endpoint

    def find(self, segments: tuple[str, ...]) -> tuple[Place, dict[str, str]] | None:
        """The place of a path, and what the names in it are."""
        found = _walk(self._root, segments, ())
        if found is None:
            return None
        place, names = found
        return place, dict(zip(place.names, names, strict=True))


def _walk(fork: _Fork, segments: tuple[str, ...], names: tuple[str, ...]) -> tuple[Place, tuple[str, ...]] | None:
    if not segments:
        return None if fork.place is None else (fork.place, names)
    first, rest = segments[0], segments[1:]
    if first in fork.words:
        found = _walk(fork.words[first], rest, names)
        if found is not None:
            return found
    return None if fork.name is None else _walk(fork.name, rest, (*names, first))

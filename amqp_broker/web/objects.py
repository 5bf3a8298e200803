"""Objects: lists of the node's objects, read page by page as the user who asks, and reused for a second.

Invariants:
1. Of several requests for the same list at the same time, one reads it and the others wait for that.
2. Lists that nobody reads now have `most_rows` rows at most, all together.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from amqp_broker.protocol.json_values import JsonObject
from amqp_broker.web.node_client import NodeClient

REUSED_S: Final = 1.0
#: The setting management_list_rows, where nobody says another.
MOST_ROWS: Final = 100_000
#: Fewer than the node would give: to put the answer together is one slice.
PAGE_ROWS: Final = 250

Row = JsonObject
#: Of a row; None: all that there are.
Columns = tuple[str, ...] | None
_Key = tuple[str, str | None, str | None, Columns]


@dataclass(slots=True)
class Objects:
    """The objects of one kind, as they were `at` (milliseconds); `stale`: members that did not answer."""

    rows: list[Row] = field(default_factory=list)
    at: int = 0
    stale: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Kept:
    """readers: so many read it, or wait for it, now."""

    readers: int = 0
    guard: threading.Lock = field(default_factory=threading.Lock)
    until: float = 0.0
    objects: Objects | None = None


class ObjectLists:
    """Reads through one node. most_rows: of lists that are kept for the next who asks. clock: seconds that only
    grow."""

    def __init__(
        self, node: NodeClient, most_rows: int = MOST_ROWS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._node = node
        self._most_rows = most_rows
        self._clock = clock
        self._kept: dict[_Key, _Kept] = {}
        self._guard = threading.Lock()

    def read(self, kind: str, user: str | None, vhost: str | None = None, columns: Columns = None) -> Objects:
        """What a user may see, of one virtual host or of all; without a user all there is. columns: who needs a few of
        all rows asks for these, which is several times as fast. Rows are shared: whoever changes one makes a copy.
        Raises SystemRequestError, NodeGone."""
        key = (kind, user, vhost, columns)
        with self._guard:
            self._drop_old()
            kept = self._kept.setdefault(key, _Kept())
            kept.readers += 1
        try:
            with kept.guard:
                if kept.objects is None or self._clock() >= kept.until:
                    kept.objects = self._read(kind, user, vhost, columns)
                    kept.until = self._clock() + REUSED_S
                return kept.objects
        finally:
            with self._guard:
                kept.readers -= 1
                self._drop_surplus()

    def forget(self) -> None:
        """Something was changed through here: who changed it sees that at once."""
        with self._guard:
            self._kept.clear()

    def _drop_old(self) -> None:
        now = self._clock()
        old = [key for key, kept in self._kept.items() if kept.until + REUSED_S < now and not kept.readers]
        for key in old:
            del self._kept[key]

    def _drop_surplus(self) -> None:
        """Too many rows are kept: those go that were read first."""
        rows = {key: len(kept.objects.rows) for key, kept in self._kept.items() if kept.objects is not None}
        surplus = sum(rows.values()) - self._most_rows
        if surplus <= 0:
            return
        for key in sorted(rows, key=lambda each: self._kept[each].until):
            if surplus > 0 and not self._kept[key].readers:
                surplus -= rows[key]
                del self._kept[key]

    def _read(self, kind: str, user: str | None, vhost: str | None, columns: Columns) -> Objects:
        asked: JsonObject = {"kind": kind, "limit": PAGE_ROWS}
        if user is not None:
            asked["as_user"] = user
        if vhost is not None:
            asked["vhost"] = vhost
        if columns is not None:
            asked["columns"] = list(columns)
        found = Objects()
        stale: set[str] = set()
        while True:
            page = self._node.request("objects.page", **asked)
            names = page["columns"]
            found.rows += [dict(zip(names, row, strict=True)) for row in page["rows"]]
            found.at = page.get("at", 0)
            stale.update(page.get("stale") or ())
            if page.get("next") is None:
                found.stale = sorted(stale)
                return found
            asked["after"] = page["next"]

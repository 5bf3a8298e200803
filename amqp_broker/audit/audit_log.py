"""AuditLog: what users change, and what they are refused, written down by the node itself (decision 0033).

    record, refuse -> lines -> AuditWrite (end of turn), in a thread of the driver -> `done` -> the next lines
    read -> AuditRead, the same way -> whoever waits for it

A line is a JSON object: v, at, time, node, user, by, from, through, via, what, vhost, name, outcome, reason, count,
details; what is empty is left out. docs/management.md says what is recorded.

Invariants:
1. The loop touches no file: a line that is recorded costs its JSON.
2. Whoever reads finds what was recorded before: one thread does both, in order.
3. What waits for the disk holds `backlog_bytes` at most; what comes above that is counted, and the count is a line.
4. A disk that takes no line stops nobody: they wait, and it is tried again. Whether the node goes on is the journal's.
"""

from __future__ import annotations

import json
import logging
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from amqp_broker.audit.actor import VIA_NODE, Actor
from amqp_broker.audit.files import AuditFiles, Place
from amqp_broker.audit.refused import Refusal, RefusedAlike
from amqp_broker.audit.work import AuditRead, AuditWork, AuditWrite

if TYPE_CHECKING:
    from amqp_broker.protocol.json_values import JsonObject, JsonValue
    from amqp_broker.settings.config import Config
    from amqp_broker.turn.clock import TurnClock
    from amqp_broker.turn.file_work import FileWork
    from queues.timers import Timers
    from storage.disk import Disk

log = logging.getLogger("amqp_broker.audit")

#: Of the lines.
VERSION: Final = 1
DONE: Final = "done"
REFUSED: Final = "refused"
#: A refused disk is tried again after this time, milliseconds.
_RETRY_MS: Final = 1000
#: Details longer than that are left out but for their names, octets of JSON.
_MOST_DETAILS_BYTES: Final = 4096
_MOST_TEXT: Final = 512
#: So many pages that are asked for wait for the thread; who asks for more is told to ask again.
MOST_READS: Final = 16


class AuditLog:
    """waiting: what is to be run by a thread, for `take`; others add theirs. is_on: whether anything is written
    down."""

    def __init__(self, config: Config, disk: Disk, clock: TurnClock, timers: Timers) -> None:
        self.is_on = config.audit_log
        self._node = config.node_name
        self._clock = clock
        self._timers = timers
        self._files = AuditFiles(disk, config.audit_file_size_bytes, config.audit_files)
        self._backlog_bytes = config.audit_backlog_bytes
        self._lines: list[bytes] = []
        self._size = 0
        self._lost = 0
        self._writing: AuditWrite | None = None
        self._has_failed = False
        self._reads = 0
        self._held: list[AuditRead] = []
        self.waiting: deque[FileWork] = deque()
        self._refused = RefusedAlike(timers, lambda: int(clock.now), self._write_refusal)

    def open(self) -> None:
        """Find what is there already. Raises OSError."""
        if self.is_on:
            self._files.open()

    # -- what is written -------------------------------------------------------------------------------------------

    def record(
        self, actor: Actor, what: str, vhost: str = "", name: str = "", details: JsonObject | None = None
    ) -> None:
        """Somebody has done something."""
        if self.is_on:
            self._add(actor, what, (vhost, name), {"outcome": DONE}, details)

    def record_own(self, what: str, name: str = "", details: JsonObject | None = None) -> None:
        """The node has done something by itself."""
        self.record(Actor("", "", "", VIA_NODE), what, "", name, details)

    def refuse(self, actor: Actor, what: str, why: str, vhost: str = "", name: str = "") -> None:
        """Somebody was refused something; the same again is counted for a while, and said then."""
        if self.is_on:
            self._refused.record(Refusal(actor, what, (vhost, name), why[:_MOST_TEXT]))

    def _write_refusal(self, refusal: Refusal, count: int) -> None:
        said = {"outcome": REFUSED, "reason": refusal.why, **({"count": count} if count > 1 else {})}
        self._add(refusal.actor, refusal.what, refusal.where, said, None)

    def _add(
        self,
        actor: Actor,
        what: str,
        where: tuple[str, str],
        said: JsonObject,
        details: JsonObject | None,
    ) -> None:
        at = int(self._clock.now)
        fields: JsonObject = {
            "v": VERSION, "at": at, "time": _time_of(at), "node": self._node, "user": actor.user, "by": actor.by,
            "from": actor.host, "through": actor.through, "via": actor.via, "what": what,
            "vhost": where[0], "name": where[1], **said,
        }  # fmt: skip
        if details:
            fields["details"] = _shortened(details)
        octets = json.dumps({key: _cut(value) for key, value in fields.items() if value != ""}).encode("ascii") + b"\n"
        if self._size + len(octets) > self._backlog_bytes:
            if not self._lost:
                log.error("the audit log has no room for what waits for the disk (audit_backlog); it is counted")
            self._lost += 1
            return
        self._lines.append(octets)
        self._size += len(octets)
        self._write()

    def _write(self) -> None:
        """Hand out what there is, unless that is being done."""
        if self._writing is not None or self._has_failed or not self._lines:
            return
        self._writing = AuditWrite(self._files, b"".join(self._lines))
        self.waiting.append(self._writing)
        self._lines = []

    def take(self) -> list[FileWork]:
        """What is to be run now."""
        found = list(self.waiting)
        self.waiting.clear()
        return found

    def done(self, work: AuditWork) -> None:
        """It has run."""
        if isinstance(work, AuditRead):
            self._reads -= 1
            work.finish()
            return
        assert isinstance(work, AuditWrite)
        self._writing = None
        held, self._held = self._held, []
        self._written(work)
        self.waiting.extend(held)  # behind the write of what was recorded before they were asked for

    def _written(self, work: AuditWrite) -> None:
        if work.error is not None:
            if not self._has_failed:
                log.error("the audit log cannot be written: %s; it is tried again", work.error)
            self._has_failed = True
            self._lines.insert(0, work.octets)
            self._timers.at(self._clock.now + _RETRY_MS, self._try_again)
            return
        self._size -= len(work.octets)
        if self._lost:
            lost, self._lost = self._lost, 0
            self.record_own("audit.lost", details={"count": lost})
        self._write()

    def _try_again(self, now: int) -> None:
        self._has_failed = False
        self._write()

    def close(self) -> None:
        """The end, when no thread runs any more: what is left is written here. What the disk does not take is lost, and
        said."""
        self._refused.write_rest()
        last = [] if self._writing is None or self._writing.has_run else [self._writing.octets]
        if last or self._lines:
            work = AuditWrite(self._files, b"".join(last + self._lines))
            work.run()
            if work.error is not None:
                log.error("the last lines of the audit log cannot be written: %s", work.error)

    # -- what is read ----------------------------------------------------------------------------------------------

    def read(self, before: Place | None, limit: int, is_wanted: Callable[[bytes], bool]) -> AuditRead:
        """Lines before a place, newest first. Raises ValueError where too many are asked for already."""
        if self._reads >= MOST_READS:
            raise ValueError(f"{MOST_READS} pages of the audit log are being read already; ask again")
        self._reads += 1
        work = AuditRead(self._files, before, limit, is_wanted)
        if self._lines and not self._has_failed:
            self._held.append(work)
        else:
            self.waiting.append(work)
        return work


def _shortened(details: JsonObject) -> JsonObject:
    if len(json.dumps(details)) <= _MOST_DETAILS_BYTES:
        return details
    return {"fields": sorted(key[:_MOST_TEXT] for key in details)[:20], "is_shortened": True}


def _time_of(at: int) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _cut(value: JsonValue) -> JsonValue:
    return value[:_MOST_TEXT] if isinstance(value, str) else value

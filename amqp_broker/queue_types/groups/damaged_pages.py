"""DamagedPages: pages of streams that this node cannot read, and for which an entry of a group's log, or the state that
is on its way to another member, waits.

    the machine says Damaged -> the stream's page is had from another member -> the group goes on
                             -> nobody has it: an entry is applied all the same, which ends the node, as there is no
                                other way to know what it does; what was to be sent is tried again now and then
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amqp_broker.queue_types.groups.group import QueueGroup
    from queues.stream.damaged import Damaged

log = logging.getLogger("amqp_broker")

#: What was to be sent, and could not be read, is read again after this time, milliseconds.
AGAIN_MS = 60_000
#: For so long it is waited for a stream's being known to this node, which hears of it by another log.
_UNKNOWN_MS = 10_000
_LOOK_MS = 100


class DamagedPages:
    """Of one group."""

    def __init__(self, group: QueueGroup) -> None:
        self._group = group
        self._machine = group.machine
        self._entry: Damaged | None = None
        self._export: Damaged | None = None

    def look(self) -> None:
        """See to what waits now."""
        machine = self._machine
        if machine.entry_waits is not None and machine.entry_waits is not self._entry:
            self._entry = machine.entry_waits
            self._mend(self._entry, self._entry_mended)
        if machine.export_waits is not None and machine.export_waits is not self._export:
            self._export = machine.export_waits
            self._mend(self._export, self._export_mended)

    def _mend(self, damaged: Damaged, then: Callable[[bool], None], since: int | None = None) -> None:
        group = self._group
        stream, queue = group.machine.stream(damaged.queue_id), group.queues.get(damaged.queue_id)
        mend = getattr(queue, "mend", None)
        if stream is None:
            then(True)  # it is gone, and another state is here
        elif mend is not None:
            if not mend(stream, damaged.error, then):
                then(False)
        else:
            now = group.clock.now
            since = now if since is None else since
            if now - since >= _UNKNOWN_MS:
                then(False)
            else:
                group.timers.at(now + _LOOK_MS, lambda _: self._mend(damaged, then, since))

    def _entry_mended(self, is_whole: bool) -> None:
        group, damaged = self._group, self._entry
        if not is_whole and damaged is not None:
            log.error("queue group %d: what is next in its log cannot be applied, as a page of queue '%s' cannot be "
                      "read and no other member has it: %s: have this node take everything from the others "
                      "(amqp-broker cluster rejoin), or start it with --recover if it is alone",
                      group.group_id, self._name(damaged), damaged.error)  # fmt: skip
        self._entry = None
        group.machine.go_on(is_whole)
        self._go_on()

    def _export_mended(self, is_whole: bool) -> None:
        group, damaged = self._group, self._export
        if is_whole or damaged is None:
            self._try_again()
            return
        log.error("queue group %d: its state cannot be sent to a member that needs it, as a page of queue '%s' cannot "
                  "be read and no other member has it: %s: trim the stream behind it, or have another node lead that "
                  "has it; it is tried again in %d s",
                  group.group_id, self._name(damaged), damaged.error, AGAIN_MS // 1000)  # fmt: skip
        group.timers.at(group.clock.now + AGAIN_MS, lambda _: self._try_again())

    def _try_again(self) -> None:
        group = self._group
        self._export = None
        group.machine.export_again()
        self._go_on()

    def _go_on(self) -> None:
        self._group.go_on()

    def _name(self, damaged: Damaged) -> str:
        queue = self._group.queues.get(damaged.queue_id)
        return queue.name if queue is not None else str(damaged.queue_id)

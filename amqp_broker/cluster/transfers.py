"""Transfers: has another member lead a group, whoever leads it now.

A request to who leads it is JSON: {"group": 3, "to": "n2"}. It may be lost: whoever wants it asks again.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from amqp_broker.links.frame_kinds import FrameKind
from raft.membership import TransferResult

if TYPE_CHECKING:
    from amqp_broker.links.tenants import Tenants
    from raft.host import RaftHost

log = logging.getLogger("amqp_broker.cluster")


#: Who leads a group of which this node is no member, None where nobody knows, and who its members are.
LookElsewhere = Callable[[int], tuple[str | None, Collection[str]]]


class Transfers:
    """See the module's docstring. process_of: where a member is reached for a group."""

    def __init__(self, host: RaftHost, tenants: Tenants, process_of: Callable[[int, str], str]) -> None:
        self._host = host
        self._process_of = process_of
        self._look_elsewhere: LookElsewhere = lambda group_id: (None, ())
        self._send = tenants.register(FrameKind.TRANSFER_REQUEST, self._receive)

    def ask_elsewhere(self, look: LookElsewhere) -> None:
        """From now on, of groups in which this node is not."""
        self._look_elsewhere = look

    def look(self, group_id: int) -> tuple[str | None, Collection[str]]:
        """Who leads a group, None where that is not known here, and who can."""
        group = self._host.groups[group_id]
        return self._look_elsewhere(group_id) if group.is_outside else (group.leader, group.members)

    def request(self, group_id: int, target: str) -> TransferResult:
        """Have a member lead a group. STARTED: whoever leads was asked to."""
        group = self._host.groups[group_id]
        leader, voters = self.look(group_id)
        if leader == target:
            return TransferResult.LEADER_ALREADY
        if group.is_leader or leader is None:
            return group.transfer_leadership(target)
        if target not in voters:
            return TransferResult.NOT_A_VOTER
        octets = json.dumps({"group": group_id, "to": target}).encode()
        is_sent = self._send(self._process_of(group_id, leader), octets)
        return TransferResult.STARTED if is_sent else TransferResult.NOT_CONNECTED

    def _receive(self, name: str, payload: bytes, now: int) -> None:
        try:
            request = json.loads(payload)
            group = self._host.groups[request["group"]]
            target = request["to"]
            if not isinstance(target, str):
                raise TypeError(f"{target!r} is no name")
        except (ValueError, KeyError, TypeError) as error:
            log.error("%s asks for a transfer in a way that is not understood: %s", name, error)
            return
        result = group.transfer_leadership(target)
        log.info("group %d: %s asks that %s leads: %s", group.group_id, name, target, result.name)

"""PeerQuestions: what a node asks the others for somebody who wants to see the whole cluster.

    question  u8 version 1, u8 0, u64 number, JSON: {"verb", "fields", "name", "tags"}
    answer    u8 version 1, u8 1, u64 number, JSON in ASCII, LF, text (rows.py: rows, each on a line of its own)

The others answer with what is theirs; they take the asker's word for as whom it asks, as members do. Who has not
answered in time, or has no link, is shown as stale: nobody's page waits for a node that is gone. A frame of another
version is passed over, so that the answer is the same as none.

Invariants:
1. Each question is answered once: by the other node, or when its time is up.
2. So many questions to one node wait for their answers at most; others are not asked. But for what workers of one
   node have to know of each other (`_ALWAYS`): whoever asks that has few questions open himself.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from amqp_broker.links.frame_kinds import FrameKind
from amqp_broker.management.access import Asker
from amqp_broker.management.request import Request
from amqp_broker.management.written_json import encode
from amqp_broker.protocol.json_values import JsonObject
from amqp_broker.turn.completion import Completion
from amqp_broker.turn.task import EXPECTED_ERRORS, Steps, Task

if TYPE_CHECKING:
    from amqp_broker.cluster.membership import Membership
    from amqp_broker.cluster.replication import Replication
    from amqp_broker.links.tenants import Tenants
    from amqp_broker.vhosts.broker import Broker
    from queues.timers import Timer

log = logging.getLogger("amqp_broker.cluster")

#: A node that has not answered by then is stale, milliseconds.
PATIENCE_MS = 1000
#: Questions to one node that are not answered.
_MOST_OPEN = 64
#: What others ask that may wait for what clients do: it looks.
_PATIENT = frozenset({
    "totals", "audit", "page", "rows", "object", "node", "alarms", "holders", "raft", "peek", "guard",
    "figures", "offset", "segments", "statistics", "clients",
})  # fmt: skip
#: What is asked however many are open, and is not among those: limits of the node would not hold.
_ALWAYS = frozenset({"entries", "logins_told"})
_VERSION = 1
_QUESTION, _ANSWER = 0, 1
_HEAD_BYTES = 10


class PeerAnswer(NamedTuple):
    """fields: of the answer. text: what goes on as it is."""

    fields: JsonObject
    text: str


class _Open(Completion[PeerAnswer | None]):
    """A question that is not answered. Its result: the answer, None where there is none. is_sent: the other has it, or
    will."""

    def __init__(self, node: str, is_counted: bool) -> None:
        super().__init__()
        self.node = node
        self.is_counted = is_counted
        self.is_sent = False
        self.timer: Timer | None = None

    def finish(self, result: PeerAnswer | None) -> None:
        """It is answered, or will not be."""
        if self.timer is not None:
            self.timer.cancel()
        self.complete(result)


class PeerQuestions:
    """Those of one node, and its answers to those of others."""

    def __init__(self, broker: Broker, tenants: Tenants, replication: Replication, membership: Membership) -> None:
        self._background = broker.background
        self._metadata = broker.metadata
        self._clock = broker.clock
        self._timers = broker.timers
        self._replication = replication
        self._membership = membership
        self._send = tenants.register(FrameKind.MANAGEMENT, self._receive)
        self._open: dict[int, _Open] = {}
        self._next = 1
        self._verbs: dict[str, Callable[[Request], Steps]] = {}

    def serve(self, verbs: dict[str, Callable[[Request], Steps]]) -> None:
        """Others may ask this node for these: a request to steps whose result is fields and a text."""
        self._verbs |= verbs

    @property
    def own_node(self) -> str:
        """This node's name."""
        return self._replication.own_node

    def others(self) -> list[str]:
        """The other members and workers, linked or not."""
        members = {*self._metadata.members(), *self._replication.members(), *self._replication.workers()}
        return sorted({*members, *self._metadata.worker_names()} - {self.own_node})

    def is_linked(self, node: str) -> bool:
        """Whether there is a link to that node."""
        return self._membership.is_linked(node)

    def ask(self, node: str, verb: str, fields: JsonObject, asker: Asker, patience_ms: int = PATIENCE_MS) -> _Open:
        """Its result is the answer of a node, None where there is none in time."""
        question = _Open(node, verb not in _ALWAYS)
        number, self._next = self._next, self._next + 1
        said = encode({"verb": verb, "fields": fields, "name": asker.name, "tags": list(asker.tags)})
        octets = bytes([_VERSION, _QUESTION]) + number.to_bytes(8, "big") + said.encode("ascii")
        has_room = not question.is_counted or self._count_open(node) < _MOST_OPEN
        if not has_room or not self._membership.is_linked(node) or not self._send(node, octets):
            question.finish(None)
            return question
        question.is_sent = True
        self._open[number] = question
        until = self._clock.now + patience_ms
        question.timer = self._timers.at(until, lambda now: self._settle(number, None))
        return question

    def _count_open(self, node: str) -> int:
        return sum(each.node == node and each.is_counted for each in self._open.values())

    def ask_all(
        self, nodes: Iterable[str], verb: str, fields: JsonObject, asker: Asker, patience_ms: int = PATIENCE_MS
    ) -> Steps:
        """Its result: by node, its answer or None. They are asked all at once."""
        asked = {node: self.ask(node, verb, fields, asker, patience_ms) for node in nodes}
        found = {}
        for node, question in asked.items():
            found[node] = yield question
        return found

    def _settle(self, number: int, answer: PeerAnswer | None) -> None:
        question = self._open.pop(number, None)
        if question is not None:
            question.finish(answer)

    def _receive(self, node: str, payload: bytes, now: int) -> None:
        if len(payload) < _HEAD_BYTES or payload[0] != _VERSION:
            log.error("%s sends a question of management of version %s, which is not known", node, payload[:1].hex())
            return
        number, rest = int.from_bytes(payload[2:_HEAD_BYTES], "big"), payload[_HEAD_BYTES:]
        try:
            if payload[1] == _QUESTION:
                self._serve(node, number, json.loads(rest))
            elif number in self._open and self._open[number].node == node:
                fields, _, text = rest.decode("ascii").partition("\n")
                self._settle(number, PeerAnswer(json.loads(fields), text))
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            log.error("%s sends what is no question or answer of management: %s", node, error)

    def _serve(self, node: str, number: int, said: JsonObject) -> None:
        verb = self._verbs.get(said["verb"])
        if verb is None:
            return  # of a newer version
        request = Request(dict(said["fields"]))
        request.ask_as(Asker(self._metadata, str(said["name"]), tuple(said["tags"])))
        background = self._background
        is_patient = said["verb"] in _PATIENT

        def steps() -> Steps:
            """Their result: the answer's octets, in a slice of its own, if its asker may wait."""
            fields, text = yield from verb(request)
            if is_patient:
                yield None
            octets = bytes([_VERSION, _ANSWER]) + number.to_bytes(8, "big")
            return octets + f"{encode(fields)}\n{text}".encode("ascii")

        task = Task(background.patient() if is_patient else background, steps(), EXPECTED_ERRORS)

        def answer(octets: bytes) -> None:
            if task.error is not None:
                log.warning("a question of %s, %s, ended with: %s", node, said["verb"], task.error)
                return
            self._send(node, octets)

        task.when_done(answer)

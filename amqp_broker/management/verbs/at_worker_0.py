"""AtWorker0: verbs about members and groups, which the worker 0 of a node answers for all of its workers.

A worker k has no log of the metadata and looks after no members: what it knows of them is what the metadata say. So it
asks, and passes the answer on. Whoever asks is checked at the worker that the client is connected to.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import TYPE_CHECKING, Final

from amqp_broker.management.refused import BAD_REQUEST, FAILED, Refused
from amqp_broker.management.request import Request
from amqp_broker.settings.workers import node_of_worker
from amqp_broker.turn.task import Awaited, Steps

if TYPE_CHECKING:
    from amqp_broker.management.peer_questions import PeerQuestions
    from amqp_broker.protocol.json_values import JsonObject
    from amqp_broker.vhosts.broker import Broker

#: See System.
Answer = tuple["JsonObject", Awaited | None] | Steps

_VERB: Final = "at_worker_0"


class AtWorker0:
    """verbs: those that were given, on worker 0; on the others, the way to them."""

    def __init__(self, broker: Broker, peers: PeerQuestions, verbs: Mapping[str, Callable[[Request], Answer]]) -> None:
        self._config = broker.config
        self._peers = peers
        self._known = verbs
        self.verbs: dict[str, Callable[[Request], Answer]] = dict(verbs)
        if broker.config.worker:
            self.verbs = {verb: self._asking(verb) for verb in verbs}
        elif broker.config.has_workers:
            peers.serve({_VERB: self._serve})

    def _asking(self, verb: str) -> Callable[[Request], Answer]:
        def ask(request: Request) -> Steps:
            peers = self._peers
            host = node_of_worker(peers.own_node)
            said = {"verb": verb, "fields": request.fields}
            answer = yield peers.ask(host, _VERB, said, request.asker, self._config.command_timeout_ms)
            if answer is None:
                raise Refused(FAILED, f"worker 0 of {host} does not answer; ask another node, or again in a moment")
            fields: JsonObject = dict(answer.fields)
            if "refused" in fields:
                raise Refused(str(fields["code"]), str(fields["refused"]))
            return fields

        return ask

    def _serve(self, request: Request) -> Steps:
        asked = Request(dict(request.fields["fields"]))
        asked.ask_as(request.asker)
        try:
            found = self._known[request.text("verb")](asked)
            if isinstance(found, Generator):
                return (yield from found), ""
            fields, awaited = found
        except Refused as error:
            return {"refused": str(error), "code": error.code}, ""
        except ValueError as error:
            return {"refused": str(error), "code": BAD_REQUEST}, ""
        if awaited is not None:
            yield awaited
        return fields, ""

"""SharedLogins: what the workers of a node tell each other of logins, so that one that guesses has to wait at all of
them.

Each failure is told once, and none is told again: a worker that starts has heard of none. All workers of a node are of
one version.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from amqp_broker.management.access import Asker
from amqp_broker.settings.workers import are_beside
from amqp_broker.turn.task import Steps

if TYPE_CHECKING:
    from amqp_broker.management.node_counts import NodeCounts
    from amqp_broker.management.peer_questions import PeerQuestions
    from amqp_broker.management.request import Request

_VERB: Final = "login_told"


class SharedLogins:
    """See the module's docstring."""

    def __init__(self, counts: NodeCounts, peers: PeerQuestions) -> None:
        self._logins = counts.logins
        self._peers = peers
        self._nobody = Asker(counts.broker.metadata, "", ())
        if counts.config.has_workers:
            self._logins.tell_with(self._tell)
            peers.serve({_VERB: self._serve})

    def _tell(self, host: str, is_failure: bool) -> None:
        peers = self._peers
        said = {"host": host, "is_failure": is_failure}
        for name in peers.others():
            if are_beside(name, peers.own_node):
                peers.ask(name, _VERB, dict(said), self._nobody)

    def _serve(self, request: Request) -> Steps:
        self._logins.hear(request.text("host"), request.flag("is_failure"))
        return {}, ""
        yield

"""SharedLogins: what the workers of a node tell each other of logins, so that one that guesses has to wait at all of
them, and nobody else has.

    question  {"hosts": [[host, failures, whether it was forgiven before these], ...], "known": [[user, host], ...]}

Each is told once, and none is told again: a worker that starts has heard of none. What comes up while one worker has
not answered is told it together afterwards, so that one question to each is open, however many guess. All workers of a
node are of one version.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from amqp_broker.management.access import Asker
from amqp_broker.settings.workers import are_beside
from amqp_broker.turn.task import Steps

if TYPE_CHECKING:
    from amqp_broker.management.node_counts import NodeCounts
    from amqp_broker.management.peer_questions import PeerQuestions
    from amqp_broker.management.request import Request
    from amqp_broker.protocol.json_values import JsonObject

_VERB: Final = "logins_told"
#: So many hosts, and so many users, are told at a time.
_AT_ONCE: Final = 128
#: So many of each wait to be told to a worker that does not answer; of more it does not hear.
_MOST_UNTOLD: Final = 10_000


class _Untold:
    """What one worker has not been told. hosts: whether they were forgiven, and how often they failed since."""

    def __init__(self) -> None:
        self.hosts: dict[str, tuple[bool, int]] = {}
        self.known: dict[tuple[str, str], None] = {}
        self.is_telling = False

    def add_failure(self, host: str) -> None:
        """One more."""
        is_forgiven, failures = self.hosts.get(host, (False, 0))
        if host in self.hosts or len(self.hosts) < _MOST_UNTOLD:
            self.hosts[host] = (is_forgiven, failures + 1)

    def add_success(self, host: str) -> None:
        """Those before are forgiven."""
        if host in self.hosts or len(self.hosts) < _MOST_UNTOLD:
            self.hosts[host] = (True, 0)

    def add_known(self, user: str, host: str) -> None:
        """That user has got in from there."""
        if len(self.known) < _MOST_UNTOLD:
            self.known[user, host] = None

    def take(self) -> JsonObject | None:
        """Some of it, the oldest first; None: there is none."""
        if not self.hosts and not self.known:
            return None
        hosts, known = list(self.hosts)[:_AT_ONCE], list(self.known)[:_AT_ONCE]
        said: JsonObject = {"hosts": [], "known": [list(pair) for pair in known]}
        for host in hosts:
            is_forgiven, failures = self.hosts.pop(host)
            said["hosts"].append([host, failures, is_forgiven])
        for pair in known:
            del self.known[pair]
        return said


class SharedLogins:
    """See the module's docstring."""

    def __init__(self, counts: NodeCounts, peers: PeerQuestions) -> None:
        self._logins = counts.logins
        self._peers = peers
        self._nobody = Asker(counts.broker.metadata, "", ())
        self._untold: dict[str, _Untold] = {}
        if counts.config.has_workers:
            self._logins.tell_with(self)
            peers.serve({_VERB: self._serve})

    def tell_failure(self, host: str) -> None:
        """See OtherWorkers."""
        for name in self._beside():
            self._untold[name].add_failure(host)
            self._tell(name)

    def tell_success(self, host: str) -> None:
        """See OtherWorkers."""
        for name in self._beside():
            self._untold[name].add_success(host)
            self._tell(name)

    def tell_known(self, user: str, host: str) -> None:
        """See OtherWorkers."""
        for name in self._beside():
            self._untold[name].add_known(user, host)
            self._tell(name)

    def _beside(self) -> list[str]:
        names = [name for name in self._peers.others() if are_beside(name, self._peers.own_node)]
        for name in names:
            self._untold.setdefault(name, _Untold())
        return names

    def _tell(self, name: str) -> None:
        untold = self._untold[name]
        if not untold.is_telling and (said := untold.take()) is not None:
            untold.is_telling = True
            self._peers.ask(name, _VERB, said, self._nobody).when_done(partial(self._go_on, name))

    def _go_on(self, name: str, answer: object) -> None:
        """It has heard, or is not there."""
        self._untold[name].is_telling = False
        self._tell(name)

    def _serve(self, request: Request) -> Steps:
        for host, failures, is_forgiven in request.fields["hosts"]:
            self._logins.hear(host, failures, is_forgiven)
        for user, host in request.fields["known"]:
            self._logins.hear_known(user, host)
        return {}, ""
        yield

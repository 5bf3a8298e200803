"""Service: the verbs lease.* and txn.* of a broker, asked until they are answered.

Every verb may be asked again (docs/leases.md), so a connection that breaks, a node that restarts and a busy broker
are waited out, up to `brokerRetryTimeout`; what the broker refuses for good is raised at once.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from amqp_broker.client import ClientError, ConnectFailed
from spark_connector import tls
from spark_connector.errors import BrokerUnavailable, ConnectorError, Refused
from spark_connector.link import POOL, Answer, Link
from spark_connector.options import Options

#: How long to wait before asking again, doubled up to the second.
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0
#: How long an answer may take beyond what the request itself asked to wait.
ANSWER_TIMEOUT: Final = 30.0
#: No attempt takes so long. Where one did, this process was stopped meanwhile (SIGSTOP, a machine that was paused).
LONGEST_ATTEMPT: Final = 90.0
#: The broker's words for what may be asked again as it is.
_TRANSIENT: Final = frozenset({"busy"})
_ACCESS_REFUSED, _NOT_FOUND, _NOT_ALLOWED, _INTERNAL_ERROR = 403, 404, 530, 541


#: Fields and body of each.
Requests = Sequence[tuple[Mapping[str, object], bytes | None]]


class Service:
    """Asks verbs, over one link at a time. `is_first` makes the first connection an impatient one."""

    def __init__(self, options: Options, *, is_first: bool = False) -> None:
        self._options = options
        self._link: Link | None = None
        self._ahead: tuple[str, Requests, list[str]] | None = None
        self._patience = options.connect_timeout if is_first else options.broker_retry_timeout

    def ask(self, verb: str, fields: Mapping[str, object], body: bytes | None = None, wait: float = 0) -> Answer:
        """One answer. Raises Refused, BrokerUnavailable."""
        return self.ask_all(verb, [(fields, body)], wait)[0]

    def ask_ahead(self, verb: str, requests: Requests) -> None:
        """Sends what `ask_all` is going to be called with, so that the answers are on their way meanwhile. If that
        fails, or something else is asked then, it is as if nothing had been sent."""
        self._ahead = None
        try:
            self._ahead = (verb, requests, [self.send(verb, *each) for each in requests])
        except ClientError:
            self.drop()

    def _take_ahead(self, verb: str, requests: Requests) -> list[tuple[int, str]]:
        """(position, name) of the requests, if they were sent ahead on this connection."""
        if self._ahead is None or self._ahead[0] != verb:
            return []
        _, sent, names = self._ahead
        self._ahead = None
        return list(enumerate(names)) if sent == requests else []

    def ask_all(self, verb: str, requests: Requests, wait: float = 0) -> list[Answer]:
        """The answers to several requests, which are under way at the same time."""
        ahead = self._take_ahead(verb, requests)
        answers: list[Answer | None] = [None] * len(requests)
        retry = Retry(self._options, self._patience, verb)
        while True:
            missing = [position for position, answer in enumerate(answers) if answer is None]
            try:
                names = ahead or [(position, self.send(verb, *requests[position])) for position in missing]
                ahead = []
                for position, name in names:
                    answers[position] = self.receive(name, verb, wait + ANSWER_TIMEOUT)
            except Busy as busy:
                retry.pause(busy)
            except ClientError as error:
                self.drop()
                retry.pause(error)
            else:
                self._patience = self._options.broker_retry_timeout
                return [answer for answer in answers if answer is not None]

    def send(self, verb: str, fields: Mapping[str, object], body: bytes | None = None) -> str:
        """Sends a request without waiting; the caller reads its answer with `receive`. Raises ClientError."""
        if self._link is None:
            self._link = POOL.take(self._options)
        return self._link.send(verb, fields, body)

    def receive(self, name: str, verb: str, timeout: float = ANSWER_TIMEOUT) -> Answer:
        """The answer to what `send` sent. Raises Refused, ClientError."""
        if self._link is None:
            raise ConnectorError(f"{verb}: the connection was given up before its answer was read")
        answer = self._link.receive(name, timeout)
        if not answer.fields.get("ok"):
            code, text = str(answer.fields.get("code", "invalid")), str(answer.fields.get("error", verb))
            raise Busy(text) if code in _TRANSIENT else Refused(text, code)
        return answer

    def drop(self) -> None:
        """Gives the connection up, with all that is under way on it."""
        if self._link is not None:
            self._link.close()
            self._link = None
        self._ahead = None

    def close(self) -> None:
        """Leaves the connection to the next one who needs it."""
        if self._link is not None:
            POOL.give_back(self._link)
            self._link = None


class Busy(ClientError):
    """The broker asks to be asked again."""


class Retry:
    """Whether and when to try again after a failure."""

    def __init__(self, options: Options, patience: float, purpose: str) -> None:
        self._options = options
        self._patience = patience
        self._purpose = purpose
        self._begin = time.monotonic()
        self._deadline = self._begin + patience
        self._pause = FIRST_PAUSE

    def pause(self, error: ClientError) -> None:
        """Waits before the next attempt. Raises what is final, or BrokerUnavailable when the time is over."""
        refusal = final_refusal(error, self._options)
        if refusal is not None:
            raise refusal from error
        now = time.monotonic()
        if now - self._begin > self._patience + LONGEST_ATTEMPT and self._pause == FIRST_PAUSE:
            self._deadline = now + self._patience  # it has not been patient yet, but stopped
        left = self._deadline - now
        if left <= 0:
            raise BrokerUnavailable(
                f"{self._purpose}: no answer from {self._options.where} within {self._patience:g} s (option "
                f"'{self._option()}'): {error}{tls.hint(error, self._options)}; start the broker, or correct 'uri', "
                "and start the query again: nothing is lost"
            ) from error
        time.sleep(min(self._pause, left))
        self._pause = min(self._pause * 2, LONGEST_PAUSE)

    def _option(self) -> str:
        return "connectTimeout" if self._patience == self._options.connect_timeout else "brokerRetryTimeout"


def final_refusal(error: ClientError, options: Options) -> ConnectorError | None:
    """What no further attempt would change, in words for the user; None for what may pass."""
    where = options.where
    untrusted = tls.refusal(error, options)
    if untrusted is not None:
        return untrusted
    if isinstance(error, ConnectFailed) and error.reply_code == _ACCESS_REFUSED:
        return Refused(
            f"{where} refuses the login: {error.reply_text}; check the user and password in 'uri' "
            "(or 'user' with 'passwordFile')", "access-refused",
        )  # fmt: skip
    if isinstance(error, ConnectFailed) and error.reply_code == _NOT_ALLOWED:
        return Refused(f"{where}: {error.reply_text}; check the virtual host in 'uri' (or 'vhost')", "access-refused")
    if error.reply_code == _NOT_FOUND and "amq.system" in error.reply_text:
        return Refused(
            f"{where} is no amqp-broker, which leases and transactions need: read with mode=staged and 'stagingDir', "
            "write with delivery=confirm", "not-found",
        )  # fmt: skip
    if error.reply_code == _INTERNAL_ERROR:
        return Refused(f"{where} failed to serve a request: {error.reply_text}; its log says why", "internal-error")
    if error.reply_code == _ACCESS_REFUSED:
        return Refused(f"{where}: {error.reply_text}; grant the user what is missing", "access-refused")
    return None


def explained(error: Refused, queue: str, group: str | None) -> ConnectorError:
    """A refusal in words for the user of a queue."""
    subject = f"queue '{queue}'" if group is None else f"queue '{queue}', group '{group}'"
    ways: dict[str, str] = {
        "not-found": "declare it, or correct option 'queue', and check the virtual host in 'uri'",
        "access-refused": "grant the user read permission on it, or log in as another one",
        "fenced": "another query has taken the group over: give each query a 'group' of its own; "
        "if it was this query, restarted, nothing is to be done",
        "gone": "the queue or its group was made anew, or released, since the checkpoint was written: start with a new "
        "checkpoint, or set failOnDataLoss=false to go on with what is there",
        "invalid": "mode=stream reads queues that are streams: leave option 'mode' out" if "no offsets" in str(error)
        else "",
    }
    way: Any = ways.get(error.code)
    return Refused(f"{subject}: {error}" + (f"; {way}" if way else ""), error.code)

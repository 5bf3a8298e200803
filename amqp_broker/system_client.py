"""SystemClient: asks a running broker's own service (the exchange `amq.system`) to do or tell something.

Used by `amqp-broker definitions` and by the pytest plugin; the broker's side is `amqp_broker.management.verbs.system`.
The user of the url needs the tag administrator. It stands on the client alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from amqp_broker.client.connection import DEFAULT_TIMEOUT, Connection
from amqp_broker.client.errors import ChannelClosed, ClientError

if TYPE_CHECKING:
    from ssl import SSLContext

SYSTEM_EXCHANGE: Final = "amq.system"
#: A node that is drained lets administrators in who call themselves so (amqp_broker/auth/session.py).
CLIENT_NAME: Final = "amqp-broker system client"


class SystemRequestError(Exception):
    """The broker has refused a request, or is none that serves them; the text says which and why. `answer` is what it
    said, `code` and `kind` the words for programs in it."""

    def __init__(self, text: str, answer: Mapping[str, Any] | None = None) -> None:  # JSON: what the broker answered
        super().__init__(text)
        self.text = text
        self.answer = dict(answer or {})
        self.code = str(self.answer.get("code", "failed"))
        self.kind = str(self.answer.get("kind", ""))


class SystemClient:
    """A connection for requests; a context manager. `ssl_context` is for amqps://, the standard library's default one
    without it. `timeout` is in seconds, `virtual_host` the url's unless it is given. Raises ClientError where there is
    no connection."""

    def __init__(
        self,
        url: str,
        ssl_context: SSLContext | None = None,
        timeout: float | None = DEFAULT_TIMEOUT,
        virtual_host: str | None = None,
    ) -> None:
        self._connection = Connection.open(
            url, timeout, ssl_context=ssl_context, name=CLIENT_NAME, virtual_host=virtual_host
        )
        self._channel = self._connection.channel()

    def request(self, verb: str, **fields: object) -> dict[str, Any]:  # JSON: what the broker answers
        """The answer's fields. Raises SystemRequestError, ClientError."""
        return self.request_within(None, verb, fields)

    def request_within(
        self, timeout: float | None, verb: str, fields: Mapping[str, object]
    ) -> dict[str, Any]:  # JSON: what the broker answers
        """The answer's fields, within so many seconds; None: the connection's timeout. Raises SystemRequestError,
        ClientError."""
        try:
            reply = self._channel.request(SYSTEM_EXCHANGE, verb, json.dumps(fields).encode(), timeout=timeout)
        except ChannelClosed as error:
            raise SystemRequestError(f"{verb}: {error.reply_text}; the other side has to be an amqp-broker") from error
        answer = json.loads(reply.body)
        if not answer.get("ok"):
            raise SystemRequestError(str(answer.get("error", f"{verb}: refused without a reason")), answer)
        return dict(answer)

    def is_alive(self) -> bool:
        """Whether the broker has not closed it by now."""
        try:
            self._connection.poll()
        except ClientError:
            return False
        return self._channel.is_open

    @property
    def is_open(self) -> bool:
        return self._channel.is_open

    def close(self) -> None:
        self._connection.close()

    def abort(self) -> None:
        """The end of one that does not answer any more."""
        self._connection.abort()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._connection.__exit__(kind, error, traceback)

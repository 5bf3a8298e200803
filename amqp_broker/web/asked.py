"""Asked: one request as an endpoint sees it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from amqp_broker.client.channel import Channel
from amqp_broker.client.errors import ConnectFailed
from amqp_broker.client.messages import Delivery
from amqp_broker.protocol.json_values import JsonObject
from amqp_broker.protocol.methods import Method
from amqp_broker.system_client import SystemRequestError
from amqp_broker.web.access import Access
from amqp_broker.web.endpoint import Endpoint
from amqp_broker.web.errors import NOT_ALLOWED, VHOST_REFUSED, kind_not_found, not_authorised
from amqp_broker.web.login import User
from amqp_broker.web.node_client import DEADLINE_S
from amqp_broker.web.objects import Columns, Objects
from amqp_broker.web.services import Services


@dataclass(slots=True)
class Asked:
    """`names` are those in the path, decoded; `host` is where the request came from;
    `endpoints` are all that the API has."""

    services: Services
    user: User
    method: str
    path: str
    names: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    query_text: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    host: str = ""
    endpoints: Sequence[Endpoint] = ()

    @property
    def vhost(self) -> str | None:
        """The virtual host of the path, or of the header that narrows lists as if it were there."""
        return self.names.get("vhost", self.headers.get("x-vhost"))

    def name(self, key: str) -> str:
        return self.names[key]

    def verb(self, verb: str, *, deadline_s: float = DEADLINE_S, **fields: object) -> JsonObject:
        """The node's answer to a verb, as this user. Raises SystemRequestError, NodeGone."""
        request = self.services.node.request
        return request(verb, deadline_s=deadline_s, as_user=self.user.name, as_host=self.host, **fields)

    def change(self, verb: str, *, deadline_s: float = DEADLINE_S, **fields: object) -> JsonObject:
        """As `verb`, for what changes something: what was read before is forgotten."""
        try:
            return self.verb(verb, deadline_s=deadline_s, **fields)
        finally:
            self.services.forget()

    @contextmanager
    def channel(self, vhost: str) -> Iterator[Channel]:
        """A channel of this user's. Raises ApiError where he is not let in, ClientError."""
        try:
            with self.services.sessions.channel(self.user.name, vhost, self.host) as channel:
                yield channel
        except ConnectFailed as error:
            if error.reply_code != NOT_ALLOWED:
                raise
            self._require_vhost(vhost)
            raise not_authorised(VHOST_REFUSED) from None
        finally:
            self.services.forget()

    def _require_vhost(self, vhost: str) -> None:
        try:
            self.verb("object", kind="vhosts", name=vhost)
        except SystemRequestError as error:
            if error.code == "not_found":
                raise kind_not_found("vhost") from None

    def call(self, vhost: str, method: Method) -> Method | Delivery:
        """The broker's reply to an AMQP method, as this user. Raises ApiError, ClientError."""
        with self.channel(vhost) as channel:
            return channel.call(method)

    def objects(self, kind: str, vhost: str | None = None, columns: Columns = None) -> Objects:
        """The objects of a kind that this user may see, with some of their columns or all."""
        return self.services.objects.read(kind, self.user.name, vhost, columns)

    def ask_as(self, user: User) -> None:
        """It is this user who asks."""
        self.user = user

    def require(self, access: Access) -> None:
        """Raises ApiError."""
        if not access.is_given_to(self.user.tags):
            raise access.refusal(self.user.tags)

    def has(self, access: Access) -> bool:
        return access.is_given_to(self.user.tags)


"""Session: who is at the other end of a connection, and what that user may do in its virtual host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from amqp_broker.auth.permissions import Action, Permission, TopicPermission
from amqp_broker.errors import refused

if TYPE_CHECKING:
    from amqp_broker.metadata.metadata import Metadata
    from amqp_broker.protocol.fields import Table

#: The node's own user (service_account.py), and how those call themselves who ask `amq.system`.
SERVICE_USER: Final = "amq.management"
TOOL_NAME: Final = "amqp-broker system client"


class Session:
    """One logged-in user in one virtual host. Permissions are looked up again when the metadata's counter has moved.

    client_properties: as the client sent them. capabilities: the names that the client set to true. acting: the
    administrator who logged in as this user; "" where the user did. mechanism: how.
    """

    def __init__(
        self, metadata: Metadata, user: str, client_properties: Table, acting: str = "", mechanism: str = ""
    ) -> None:
        self._metadata = metadata
        self.user = user
        self.acting = acting
        self.mechanism = mechanism
        self.vhost = ""
        self.client_properties = client_properties
        found = client_properties.get("capabilities")
        self.capabilities = {key for key, value in found.items() if value is True} if isinstance(found, dict) else set()
        self.heartbeat_ms = 0
        self.channel_max = 0
        self._generation = -1
        self._permission: Permission | None = None
        self._topics: dict[str, TopicPermission | None] = {}

    def enter(self, vhost: str) -> None:
        """The virtual host that its client wants to open."""
        self.vhost = vhost

    def tune(self, channel_max: int, heartbeat_ms: int) -> None:
        """What was agreed upon (connection.tune-ok)."""
        self.channel_max = channel_max
        self.heartbeat_ms = heartbeat_ms

    @property
    def connection_name(self) -> str:
        """The name that the client gave itself, or nothing."""
        name = self.client_properties.get("connection_name", "")
        return name if isinstance(name, str) else ""

    def _refresh(self) -> None:
        metadata = self._metadata
        if self._generation != metadata.access_generation:
            self._generation = metadata.access_generation
            grant = metadata.permission(self.user, self.vhost)
            self._permission = Permission(grant.configure, grant.write, grant.read) if grant is not None else None
            self._topics = {}

    def has_vhost(self) -> bool:
        """Whether the user may be in its virtual host at all."""
        self._refresh()
        return self._permission is not None

    def allows(self, action: Action, name: str) -> bool:
        """Whether the user has this permission on a queue or exchange of that name."""
        self._refresh()
        return self._permission is not None and self._permission.allows(action, name)

    def check(self, action: Action, kind: str, name: str) -> None:
        """Raises ChannelException (403) when the user lacks the permission on the queue or exchange."""
        if not self.allows(action, name):
            raise refused(action.value, kind, name, self.vhost, self.user)

    def check_any(self, kind: str, name: str) -> None:
        """A passive declaration asks for any of the three. Raises ChannelException (403)."""
        self._refresh()
        if self._permission is None or not self._permission.allows_anything_on(name):
            raise refused("configure", kind, name, self.vhost, self.user)

    def allows_topic(self, action: Action, exchange: str, routing_key: str) -> bool:
        """Whether a topic permission on the exchange lets this routing key through; without one all are let through."""
        self._refresh()
        if exchange not in self._topics:
            grant = self._metadata.topic_permission(self.user, self.vhost, exchange)
            self._topics[exchange] = (
                TopicPermission(grant.write, grant.read, self.user, self.vhost) if grant is not None else None
            )
        permission = self._topics[exchange]
        return permission is None or permission.allows(action, routing_key)

    def has_tag(self, tag: str) -> bool:
        """Whether the user has this tag, as administrator or impersonator."""
        return tag in self.tags()

    @property
    def is_tool(self) -> bool:
        """Whether an administrator asks `amq.system` here, or the management process works for somebody: such a
        connection is let in, and stays, where clients are sent away."""
        return self.is_operators and (SERVICE_USER in (self.user, self.acting) or self.has_tag("administrator"))

    @property
    def is_operators(self) -> bool:
        """Whether somebody with any tag asks `amq.system` here by a tool of ours, or the management process does."""
        is_tool = self.connection_name == TOOL_NAME and bool(self.tags())
        return is_tool or SERVICE_USER in (self.user, self.acting)

    def tags(self) -> tuple[str, ...]:
        """The user's tags; none of a user who has been deleted."""
        user = self._metadata.user(self.user)
        return user.tags if user is not None else ()

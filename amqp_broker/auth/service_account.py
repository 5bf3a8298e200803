"""ServiceAccount: the node's own user, as whom the management process that belongs to it logs in.

It is in no metadata, list or definition, and nobody can make a user of its name. Its password is a token that was drawn
when the node was started; it is taken from this machine only. It administers, may enter every virtual host and has no
permission in any: what is done in there is done as somebody who may (see `Session.acting`).
"""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING, Final

from amqp_broker.auth.session import SERVICE_USER, Session
from amqp_broker.metadata.metadata import Metadata

if TYPE_CHECKING:
    from amqp_broker.protocol.fields import Table

#: What users cannot be called.
RESERVED_PREFIX: Final = "amq."


class ServiceAccount:
    """token: None where nobody can log in as it."""

    def __init__(self, token: str | None) -> None:
        self._token = token

    def is_meant(self, user: str) -> bool:
        """Whether a login is for this account."""
        return self._token is not None and user == SERVICE_USER

    def accepts(self, password: str, is_loopback: bool) -> bool:
        """Whether this is its token, from where it may come."""
        known, given = (self._token or "").encode(), password.encode("utf-8", "surrogateescape")
        return hmac.compare_digest(known, given) and bool(known) and is_loopback


class ServiceSession(Session):
    """Its session."""

    def __init__(self, metadata: Metadata, client_properties: Table) -> None:
        super().__init__(metadata, SERVICE_USER, client_properties)

    def has_vhost(self) -> bool:
        """See Session."""
        return True

    def tags(self) -> tuple[str, ...]:
        """See Session."""
        return ("administrator",)


def check_user_name(name: str) -> None:
    """Raises ValueError for a name that no user can have."""
    if name.startswith(RESERVED_PREFIX):
        raise ValueError(f"user name '{name}' contains the reserved prefix '{RESERVED_PREFIX}*': choose another one")

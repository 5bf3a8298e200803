"""Actor: who does something, for the audit log: as which user, from where, and through what."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from amqp_broker.auth.session import SERVICE_USER

if TYPE_CHECKING:
    from amqp_broker.auth.session import Session

VIA_AMQP: Final = "amqp"
VIA_HTTP: Final = "http"
VIA_NODE: Final = "node"
#: The client property in which the management process says for which host it acts as somebody else.
HOST_PROPERTY: Final = "acts_for_host"
_MOST_HOST = 255


class Actor(NamedTuple):
    """user: as whom it is done. by: the administrator who acts as this user, "" where the user does. host: where the
    request comes from. via: VIA_AMQP, VIA_HTTP or VIA_NODE. through: the peer that passes the request on for that host,
    "" where it comes by itself."""

    user: str
    by: str
    host: str
    via: str
    through: str = ""


def actor_of(session: Session, host: str, port: int, *, user: str = "", for_host: str = "") -> Actor:
    """Who does something on a connection of a peer. user: as whom else a verb is carried out. for_host: where that one
    is, as whoever passes it on says; he administers, or he could not."""
    peer = f"{host}:{port}"
    acting = session.user if user and user != session.user else session.acting
    if not for_host and session.acting:
        said = session.client_properties.get(HOST_PROPERTY, "")
        for_host = said if isinstance(said, str) else ""
    via = VIA_HTTP if for_host else VIA_AMQP
    by = "" if acting == SERVICE_USER else acting
    return Actor(user or session.user, by, for_host[:_MOST_HOST] or peer, via, peer if for_host else "")

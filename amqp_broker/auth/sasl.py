"""SASL: what a client's response to connection.start says, for each mechanism that is offered.

Pure functions from octets to credentials. Whether they are right is decided elsewhere (users.py).

Texts are decoded with surrogateescape, so that a name or password in any encoding stays the octets that
it was.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from amqp_broker.protocol.errors import FieldError
from amqp_broker.protocol.fields import decode_table

MAX_RESPONSE_OCTETS: Final = 4096


class SaslError(Exception):
    """A response that does not follow its mechanism. The text tells the log; it holds no password."""


class Credentials(NamedTuple):
    """identity: as whom the user wants to act; "" for nobody else."""

    user: str
    password: str
    identity: str = ""

    def __repr__(self) -> str:
        return f"Credentials(user={self.user!r}, password=..., identity={self.identity!r})"


def plain(response: bytes) -> Credentials:
    """PLAIN (RFC 4616): authorization identity, NUL, user, NUL, password.

    Whether the user may act as somebody else is decided elsewhere, too. Raises SaslError.
    """
    _check_size("PLAIN", response)
    parts = response.split(b"\0")
    if len(parts) != 3:
        raise SaslError(
            f"a PLAIN response holds two NUL octets, between identity, user and password: {len(parts) - 1}"
        )
    identity, user, password = parts
    return _credentials("PLAIN", user, password, b"" if identity == user else identity)


def amqplain(response: bytes) -> Credentials:
    """AMQPLAIN: a field table, without its length, with LOGIN and PASSWORD. Raises SaslError."""
    _check_size("AMQPLAIN", response)
    try:
        table = decode_table(response)
    except FieldError as error:
        raise SaslError(f"the AMQPLAIN response is no field table: {error}") from None
    octets = []
    for key in ("LOGIN", "PASSWORD"):
        value = table.get(key)
        if isinstance(value, str):
            value = value.encode("utf-8", "surrogateescape")
        if not isinstance(value, bytes):
            raise SaslError(f"the AMQPLAIN response needs a string {key}")
        octets.append(value)
    return _credentials("AMQPLAIN", octets[0], octets[1])


def external(response: bytes, peer_name: str | None) -> str:
    """EXTERNAL (RFC 4422, appendix A): the user that the peer's certificate names.

    The response asks for an identity in its own words. Stock clients fill it with anything, from nothing
    to "*" between NULs, and RabbitMQ reads past it; it grants nothing, so that it is passed over here as
    well. Raises SaslError where there is no certificate, or none with a name.
    """
    _check_size("EXTERNAL", response)
    if not peer_name:
        raise SaslError("EXTERNAL needs a client certificate that names a user; this connection has none")
    return peer_name


def _credentials(mechanism: str, user: bytes, password: bytes, identity: bytes = b"") -> Credentials:
    if not user:
        raise SaslError(f"the {mechanism} response names no user")
    return Credentials(_text(user), _text(password), _text(identity))


def _check_size(mechanism: str, response: bytes) -> None:
    if len(response) > MAX_RESPONSE_OCTETS:
        raise SaslError(
            f"the {mechanism} response of {len(response)} octets is longer than {MAX_RESPONSE_OCTETS}"
        )


def _text(octets: bytes) -> str:
    return octets.decode("utf-8", "surrogateescape")

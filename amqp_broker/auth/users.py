"""Login: whether a user may come in, by password or by certificate.

A refused client is told nothing but that it was refused; the outcome is for the log.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from enum import Enum

from amqp_broker.auth.passwords import DECOY_HASH, verify_password
from amqp_broker.metadata.entities import User


class LoginOutcome(Enum):
    """The value completes the sentence "user 'x' ..."."""

    ACCEPTED = "logged in"
    UNKNOWN_USER = "does not exist"
    NO_PASSWORD = "has no password and can log in with a certificate only"
    EMPTY_PASSWORD = "gave an empty password"
    WRONG_PASSWORD = "gave a wrong password"
    LOOPBACK_ONLY = "may log in from this machine only (loopback_users)"


def login_with_password(
    user: User | None,
    password: str,
    *,
    peer_is_loopback: bool,
    loopback_users: Collection[str],
    verify: Callable[[str, str], bool] = verify_password,
) -> LoginOutcome:
    """Checks a password for `user`, None where the name that was given is nobody's.

    `verify` is `verify_password`, or tells the outcome of one that has run elsewhere. An unknown user, one
    without a password and one with a wrong password all take the time of one scrypt.
    """
    if not password:
        return LoginOutcome.EMPTY_PASSWORD
    stored = user.password_hash if user else ""
    is_right = verify(password, stored or DECOY_HASH)
    if user is None:
        return LoginOutcome.UNKNOWN_USER
    if not stored:
        return LoginOutcome.NO_PASSWORD
    if not is_right:
        return LoginOutcome.WRONG_PASSWORD
    return _from_here(user, peer_is_loopback, loopback_users)


def login_with_certificate(
    user: User | None, *, peer_is_loopback: bool, loopback_users: Collection[str]
) -> LoginOutcome:
    """Lets in a user that a verified certificate named; None where it named nobody that is known."""
    if user is None:
        return LoginOutcome.UNKNOWN_USER
    return _from_here(user, peer_is_loopback, loopback_users)


def _from_here(user: User, peer_is_loopback: bool, loopback_users: Collection[str]) -> LoginOutcome:
    if user.name in loopback_users and not peer_is_loopback:
        return LoginOutcome.LOOPBACK_ONLY
    return LoginOutcome.ACCEPTED

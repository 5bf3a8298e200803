"""Login: who comes in, and that a refusal tells nothing by the time it takes."""

from __future__ import annotations

import pytest

from amqp_broker.auth.passwords import DECOY_HASH, verify_password
from amqp_broker.auth.users import LoginOutcome, login_with_certificate, login_with_password
from amqp_broker.metadata.entities import User
from tests.auth.hashed_password import hash_password

STORED = hash_password("secret", lambda count: bytes(count))
ALICE = User("alice", STORED)
GUEST = User("guest", STORED)
NO_PASSWORD = User("cert-only")


def login(user: User | None, password: str, *, is_loopback: bool = True) -> LoginOutcome:
    return login_with_password(user, password, peer_is_loopback=is_loopback, loopback_users=("guest",))


@pytest.mark.parametrize(
    ("user", "password", "outcome"),
    [
        (ALICE, "secret", LoginOutcome.ACCEPTED),
        (ALICE, "wrong", LoginOutcome.WRONG_PASSWORD),
        (ALICE, "", LoginOutcome.EMPTY_PASSWORD),
        (NO_PASSWORD, "secret", LoginOutcome.NO_PASSWORD),
        (NO_PASSWORD, "", LoginOutcome.EMPTY_PASSWORD),
        (None, "secret", LoginOutcome.UNKNOWN_USER),
    ],
)
def test_outcomes(user: User | None, password: str, outcome: LoginOutcome) -> None:
    assert login(user, password) is outcome


def test_loopback_users_come_from_this_machine_only() -> None:
    assert login(GUEST, "secret") is LoginOutcome.ACCEPTED
    assert login(GUEST, "secret", is_loopback=False) is LoginOutcome.LOOPBACK_ONLY
    assert login(ALICE, "secret", is_loopback=False) is LoginOutcome.ACCEPTED


def test_from_elsewhere_a_right_password_is_not_told_before_a_wrong_one() -> None:
    assert login(GUEST, "wrong", is_loopback=False) is LoginOutcome.WRONG_PASSWORD


@pytest.mark.parametrize("user", [None, NO_PASSWORD])
def test_users_that_cannot_log_in_cost_a_verification_all_the_same(user: User | None) -> None:
    asked: list[str] = []

    def verify(password: str, stored: str) -> bool:
        asked.append(stored)
        return verify_password(password, stored)

    outcome = login_with_password(user, "x", peer_is_loopback=True, loopback_users=(), verify=verify)
    assert outcome is not LoginOutcome.ACCEPTED
    assert asked == [DECOY_HASH]


def test_a_verifier_that_says_yes_opens_no_account_without_password() -> None:
    def yes(password: str, stored: str) -> bool:
        return True

    for user in (None, NO_PASSWORD):
        outcome = login_with_password(user, "x", peer_is_loopback=True, loopback_users=(), verify=yes)
        assert outcome in (LoginOutcome.UNKNOWN_USER, LoginOutcome.NO_PASSWORD)


def test_a_certificate_needs_a_known_user_and_no_password() -> None:
    def enter(user: User | None, is_loopback: bool) -> LoginOutcome:
        return login_with_certificate(user, peer_is_loopback=is_loopback, loopback_users=("guest",))

    assert enter(NO_PASSWORD, False) is LoginOutcome.ACCEPTED
    assert enter(None, True) is LoginOutcome.UNKNOWN_USER
    assert enter(GUEST, False) is LoginOutcome.LOOPBACK_ONLY
    assert enter(GUEST, True) is LoginOutcome.ACCEPTED

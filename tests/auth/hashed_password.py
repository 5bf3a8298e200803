"""A password as it is stored."""

from __future__ import annotations

from amqp_broker.auth.passwords import NewPassword, RandomBytes


def hash_password(password: str, random_bytes: RandomBytes) -> str:
    new = NewPassword(password, random_bytes)
    new.run()
    return new.stored

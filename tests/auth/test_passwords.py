"""Password hashes: our own, RabbitMQ's, and what is no hash."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator

import pytest

from amqp_broker.auth.passwords import (
    DECOY_HASH,
    NO_PASSWORD,
    VerifiedPasswords,
    check_hash,
    from_rabbit,
    quick_hash,
    to_rabbit,
    verify_password,
)
from tests.auth.hashed_password import hash_password


def counting_bytes() -> Iterator[int]:
    value = 0
    while True:
        yield value
        value = (value + 1) % 256


class Salts:
    """A source of octets that is not random and never repeats soon."""

    def __init__(self) -> None:
        self._values = counting_bytes()

    def __call__(self, count: int) -> bytes:
        return bytes(next(self._values) for _ in range(count))


def test_a_hash_names_its_algorithm_its_cost_and_its_salt() -> None:
    stored = hash_password("secret", Salts())
    name, n, r, p, salt, key = stored.split("$")
    assert (name, n, r, p) == ("scrypt", "16384", "8", "1")
    assert base64.b64decode(salt) == bytes(range(16))
    assert base64.b64decode(key) == hashlib.scrypt(
        b"secret", salt=bytes(range(16)), n=16384, r=8, p=1, dklen=32
    )


@pytest.mark.parametrize("password", ["secret", "pä$$w\x00rd", "\udc80\udcff", "x" * 1000])
def test_only_the_password_itself_verifies(password: str) -> None:
    stored = hash_password(password, Salts())
    check_hash(stored)
    assert verify_password(password, stored)
    assert not verify_password(password + "x", stored)
    assert not verify_password(password[:-1], stored)


def test_a_quick_hash_is_one_of_rabbitmqs() -> None:
    stored = quick_hash("secret", Salts())
    check_hash(stored)
    assert to_rabbit(stored) is not None
    assert verify_password("secret", stored)
    assert not verify_password("secre", stored)
    assert quick_hash("", Salts()) == NO_PASSWORD


def test_equal_passwords_have_different_hashes() -> None:
    salts = Salts()
    assert hash_password("secret", salts) != hash_password("secret", salts)


def test_an_empty_password_or_hash_opens_nothing() -> None:
    assert hash_password("", Salts()) == NO_PASSWORD
    assert not verify_password("", NO_PASSWORD)
    assert not verify_password("x", NO_PASSWORD)
    assert not verify_password("", hash_password("x", Salts()))
    check_hash(NO_PASSWORD)


def test_hashes_that_rabbitmq_made() -> None:
    # Exported by RabbitMQ 3.10.8 after setting the password "secret".
    exported = "Kv3raS9oM1S1Poat4Ugq2id26R7tZFEcBqQ+rKrwMoBpBw4M"
    stored = from_rabbit("rabbit_password_hashing_sha256", exported)
    assert stored == f"rabbit-sha256${exported}"
    assert verify_password("secret", stored)
    assert not verify_password("Secret", stored)
    assert to_rabbit(stored) == ("rabbit_password_hashing_sha256", exported)


def test_sha512_is_the_same_with_a_longer_digest() -> None:
    encoded = base64.b64encode(b"salt" + hashlib.sha512(b"salt" + b"secret").digest()).decode()
    stored = from_rabbit("rabbit_password_hashing_sha512", encoded)
    assert verify_password("secret", stored)
    assert not verify_password("secre", stored)
    assert to_rabbit(stored) == ("rabbit_password_hashing_sha512", encoded)


def test_a_user_without_password_comes_and_goes_as_such() -> None:
    assert from_rabbit("rabbit_password_hashing_sha256", "") == NO_PASSWORD
    assert to_rabbit(NO_PASSWORD) == ("rabbit_password_hashing_sha256", "")


def test_rabbitmq_cannot_hold_our_own() -> None:
    assert to_rabbit(hash_password("secret", Salts())) is None


@pytest.mark.parametrize("algorithm", ["rabbit_password_hashing_md5", "bcrypt", ""])
def test_other_algorithms_are_refused_with_a_way_out(algorithm: str) -> None:
    with pytest.raises(ValueError, match=f"'{algorithm}' are not accepted: give the user a new password"):
        from_rabbit(algorithm, "AAAA")


@pytest.mark.parametrize(
    ("stored", "reason"),
    [
        ("secret", "no known password hash"),
        ("md5$AAAA", "no known password hash"),
        ("rabbit-sha256$not base64", "not base64"),
        ("rabbit-sha256$AAAA", "holds 36 octets"),
        ("rabbit-sha512$" + "AAAA" * 12, "holds 68 octets"),
        ("scrypt$16384$8$1$AAAA", "reads scrypt"),
        ("scrypt$16384$8$x$AAAA$AAAA", "reads scrypt"),
        ("scrypt$16383$8$1$AAAA$" + "AAAA" * 8, "power of two"),
        ("scrypt$1$8$1$AAAA$" + "AAAA" * 8, "power of two"),
        ("scrypt$1048576$8$1$AAAA$" + "AAAA" * 8, "octets; at most"),
        ("scrypt$16384$8$999$AAAA$" + "AAAA" * 8, "p 1 to 16"),
        ("scrypt$16384$8$1$AAAA$AAAA", "key of 16 to 64 octets"),
        ("scrypt$16384$8$1$$" + "AAAA" * 8, "needs a salt"),
    ],
)
def test_what_is_no_hash_says_why(stored: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        check_hash(stored)
    with pytest.raises(ValueError, match=reason):
        verify_password("x", stored)


def test_the_decoy_costs_as_much_as_a_hash_of_ours() -> None:
    check_hash(DECOY_HASH)
    assert DECOY_HASH.split("$")[:4] == hash_password("x", Salts()).split("$")[:4]
    assert not verify_password("guest", DECOY_HASH)


@pytest.mark.parametrize(
    "stored",
    [
        pytest.param(DECOY_HASH, id="nobody"),
        pytest.param(hash_password("secret", Salts()), id="ours"),
        pytest.param(quick_hash("secret", Salts()), id="RabbitMQ's"),
        pytest.param(
            from_rabbit("rabbit_password_hashing_sha512", base64.b64encode(bytes(4 + 64)).decode()), id="its longer one"
        ),
    ],
)
def test_a_wrong_password_costs_the_same_whoever_it_is_for(stored: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int, int, int]] = []
    slow = hashlib.scrypt

    def counted(password: bytes, *, salt: bytes, n: int, r: int, p: int, maxmem: int, dklen: int) -> bytes:
        asked.append((n, r, p, dklen))
        return slow(password, salt=salt, n=n, r=r, p=p, maxmem=maxmem, dklen=dklen)

    monkeypatch.setattr(hashlib, "scrypt", counted)
    assert not verify_password("wrong", stored)
    assert asked == [(16384, 8, 1, 32)]


def test_a_right_password_is_remembered() -> None:
    stored, other = hash_password("secret", Salts()), hash_password("other", Salts())
    verified = VerifiedPasswords(Salts(), capacity=2)
    assert not verified.is_known("secret", stored)
    verified.remember("secret", stored)
    assert verified.is_known("secret", stored)
    assert not verified.is_known("wrong", stored)
    assert not verified.is_known("secret", other), "what was right for one hash is not so for another"
    verified.remember("other", other)
    assert verified.is_known("secret", stored)
    verified.remember("third", stored)
    assert verified.is_known("secret", stored)
    assert not verified.is_known("other", other), "the one that was not asked for longest is forgotten"


def test_a_password_and_a_hash_do_not_run_into_each_other() -> None:
    verified = VerifiedPasswords(Salts())
    stored = hash_password("secret", Salts())
    verified.remember("secret", stored)
    assert not verified.is_known("ecret", stored + "s")

"""Password hashes: made with scrypt, and checked against scrypt or the salted SHA-2 hashes of RabbitMQ.

A stored hash is a text that names its own algorithm, so that hashes of several kinds live side by side:

    scrypt$16384$8$1$<salt, base64>$<key, base64>    RFC 7914; the numbers are n, r and p
    rabbit-sha256$<base64 of 4 octets of salt and the digest of salt and password>
    rabbit-sha512$<the same with SHA-512>
    (empty)                                          no password: nobody can log in with one

It knows no users, and has no source of randomness: salts come from a callable.

Invariants:
1. No comparison of secrets takes a time that depends on where they differ.
2. What one check may cost is bounded (`_check_scrypt_cost`), wherever the stored text came from.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

RandomBytes = Callable[[int], bytes]

SCRYPT_N: Final = 2**14
SCRYPT_R: Final = 8
SCRYPT_P: Final = 1
NO_PASSWORD: Final = ""

_SALT_OCTETS: Final = 16
_KEY_OCTETS: Final = 32
_MAX_SCRYPT_MEMORY: Final = 256 * 1024 * 1024
_MAX_SCRYPT_P: Final = 16
_RABBIT_SALT_OCTETS: Final = 4
_RABBIT_DIGESTS: Final = {"rabbit-sha256": "sha256", "rabbit-sha512": "sha512"}

# What is checked in place of an unknown user's hash, so that such a login takes as long as any other. No
# password leads to it: its key was drawn, not derived.
DECOY_HASH: Final = (
    f"scrypt${SCRYPT_N}${SCRYPT_R}${SCRYPT_P}$c2FsdCBvZiBhIGRlY295IQ==$"
    "yTwnfIpAkXnqS0g7T0V1cZs0DkC9Z3jhZ3mA3l9mQ0w="
)


def quick_hash(password: str, random_bytes: RandomBytes) -> str:
    """A salted SHA-256 of the password as a text to store, made and checked in microseconds: only for what nobody can
    steal before it is gone, or need not steal. An empty password gives NO_PASSWORD."""
    if not password:
        return NO_PASSWORD
    salt = random_bytes(_RABBIT_SALT_OCTETS)
    return f"rabbit-sha256${_to_base64(salt + hashlib.sha256(salt + _octets(password)).digest())}"


def _hash_salted(password: str, salt: bytes) -> str:
    key = _scrypt(password, salt, SCRYPT_N, SCRYPT_R, SCRYPT_P, _KEY_OCTETS)
    return f"scrypt${SCRYPT_N}${SCRYPT_R}${SCRYPT_P}${_to_base64(salt)}${_to_base64(key)}"


class NewPassword:
    """A password that is to be stored. `run` takes tens of milliseconds and may be called in another thread; then
    `stored` is its hash. known: a hash that stays if it is this password's. An empty password is none. Raises
    ValueError where the password is no text that UTF-8 can carry."""

    def __init__(self, password: str, random_bytes: RandomBytes, known: str = NO_PASSWORD) -> None:
        try:
            _octets(password)
        except UnicodeEncodeError:
            raise ValueError("a password has to be text that UTF-8 can carry, without halves of surrogates") from None
        self.stored = NO_PASSWORD
        self._password = password
        self._known = known
        self._salt = random_bytes(_SALT_OCTETS)

    def run(self) -> None:
        """Compute."""
        if not self._password:
            return
        is_known = bool(self._known) and verify_password(self._password, self._known)
        self.stored = self._known if is_known else _hash_salted(self._password, self._salt)


def verify_password(password: str, stored: str) -> bool:
    """Whether the password is the one that `stored` was made from. False for an empty password or hash.

    One check of a scrypt hash costs 16 MiB and tens of milliseconds, on purpose. A wrong password costs that whatever
    `stored` is: else who guesses would learn from the time which names are those of users that came from RabbitMQ.
    Raises ValueError where `stored` is no hash (`check_hash` tells beforehand).
    """
    if not stored or not password:
        return False
    algorithm, _, rest = stored.partition("$")
    if algorithm == "scrypt":
        n, r, p, salt, key = _read_scrypt(rest)
        return hmac.compare_digest(_scrypt(password, salt, n, r, p, len(key)), key)
    salt, digest = _read_rabbit(algorithm, rest)
    computed = hashlib.new(_RABBIT_DIGESTS[algorithm], salt + _octets(password)).digest()
    if hmac.compare_digest(computed, digest):
        return True
    verify_password(password, DECOY_HASH)
    return False


def check_hash(stored: str) -> None:
    """Raises ValueError with a text where `stored` is none of the forms that this module can verify."""
    if not stored:
        return
    algorithm, _, rest = stored.partition("$")
    if algorithm == "scrypt":
        _read_scrypt(rest)
    else:
        _read_rabbit(algorithm, rest)


def from_rabbit(algorithm: str, encoded: str) -> str:
    """The text to store for a `hashing_algorithm` and `password_hash` of RabbitMQ's definitions.

    An empty hash gives NO_PASSWORD. Raises ValueError for an unknown algorithm and for what is no such hash.
    """
    if not encoded:
        return NO_PASSWORD
    name = algorithm.removeprefix("rabbit_password_hashing_")
    if f"rabbit-{name}" not in _RABBIT_DIGESTS:
        raise ValueError(
            f"password hashes of algorithm '{algorithm}' are not accepted: give the user a new password, or "
            "use rabbit_password_hashing_sha256 or rabbit_password_hashing_sha512"
        )
    stored = f"rabbit-{name}${encoded}"
    check_hash(stored)
    return stored


def to_rabbit(stored: str) -> tuple[str, str] | None:
    """The `hashing_algorithm` and `password_hash` for RabbitMQ to hold this hash; None where it cannot."""
    if not stored:
        return "rabbit_password_hashing_sha256", ""
    algorithm, _, rest = stored.partition("$")
    if algorithm not in _RABBIT_DIGESTS:
        return None
    return f"rabbit_password_hashing_{_RABBIT_DIGESTS[algorithm]}", rest


class VerifiedPasswords:
    """Remembers which passwords were right, so that a client that comes back costs no scrypt.

    Holds a keyed digest of each, not the password, and only of right ones; the key is drawn here and
    never leaves. A changed password is another stored text, so that the old one is forgotten with it.
    """

    def __init__(self, random_bytes: RandomBytes, capacity: int = 1000) -> None:
        self._key = random_bytes(32)
        self._capacity = capacity
        self._seen: OrderedDict[bytes, None] = OrderedDict()

    def _digest(self, password: str, stored: str) -> bytes:
        fact = f"{len(stored)}:{stored}:{password}"
        return hashlib.blake2b(_octets(fact), key=self._key, digest_size=32).digest()

    def is_known(self, password: str, stored: str) -> bool:
        """Whether this password was right before; costs next to nothing."""
        digest = self._digest(password, stored)
        if digest not in self._seen:
            return False
        self._seen.move_to_end(digest)
        return True

    def remember(self, password: str, stored: str) -> None:
        """`verify_password` has found it right."""
        self._seen[self._digest(password, stored)] = None
        if len(self._seen) > self._capacity:
            self._seen.popitem(last=False)


def _scrypt(password: str, salt: bytes, n: int, r: int, p: int, length: int) -> bytes:
    memory = 128 * r * (n + p + 2)
    return hashlib.scrypt(_octets(password), salt=salt, n=n, r=r, p=p, maxmem=memory + 1024, dklen=length)


def _octets(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _to_base64(octets: bytes) -> str:
    return base64.b64encode(octets).decode("ascii")


def _from_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("the password hash is not base64") from None


def _read_scrypt(rest: str) -> tuple[int, int, int, bytes, bytes]:
    parts = rest.split("$")
    if len(parts) != 5 or not all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts[:3]):
        raise ValueError("a scrypt hash reads scrypt$n$r$p$salt$key")
    n, r, p = (int(part) for part in parts[:3])
    _check_scrypt_cost(n, r, p)
    salt, key = _from_base64(parts[3]), _from_base64(parts[4])
    if not salt or not 16 <= len(key) <= 64:
        raise ValueError("a scrypt hash needs a salt, and a key of 16 to 64 octets")
    return n, r, p, salt, key


def _check_scrypt_cost(n: int, r: int, p: int) -> None:
    if n < 2 or n & (n - 1) or r < 1 or not 1 <= p <= _MAX_SCRYPT_P:
        raise ValueError(
            f"scrypt with n={n}, r={r}, p={p}: n is a power of two, r at least 1, p 1 to {_MAX_SCRYPT_P}"
        )
    if 128 * n * r > _MAX_SCRYPT_MEMORY:
        raise ValueError(
            f"scrypt with n={n}, r={r} takes {128 * n * r} octets; at most {_MAX_SCRYPT_MEMORY} are allowed"
        )


def _read_rabbit(algorithm: str, rest: str) -> tuple[bytes, bytes]:
    """The salt and the digest of a RabbitMQ hash."""
    name = _RABBIT_DIGESTS.get(algorithm)
    if name is None:
        raise ValueError(
            f"'{algorithm}' is no known password hash: scrypt, rabbit-sha256 and rabbit-sha512 are"
        )
    octets = _from_base64(rest)
    expected = _RABBIT_SALT_OCTETS + hashlib.new(name).digest_size
    if len(octets) != expected:
        raise ValueError(
            f"a {algorithm} hash holds {expected} octets, salt and digest; this one holds {len(octets)}"
        )
    return octets[:_RABBIT_SALT_OCTETS], octets[_RABBIT_SALT_OCTETS:]

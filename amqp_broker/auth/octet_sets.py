"""Octet sets: 256-bit masks for the character classes of name patterns.

Permissions and policies are written as regular expressions for Erlang's `re`, which matches octets and
classifies them as ISO-8859-1 does. The classes here hold the same octets, so that a pattern from RabbitMQ
means the same.

Invariant: bit n of a mask is set when octet n belongs to the set; no bit above 255 is ever set.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

ALL = (1 << 256) - 1


def of(octets: Iterable[int]) -> int:
    """The set of these octets."""
    mask = 0
    for octet in octets:
        mask |= 1 << octet
    return mask


def _where(holds: Callable[[str], bool]) -> int:
    return of(octet for octet in range(256) if holds(chr(octet)))


def complement(mask: int) -> int:
    """Every octet that is not in the set."""
    return ALL & ~mask


def without_case(mask: int) -> int:
    """The set with the other case of each of its letters added."""
    both = mask
    for octet in range(256):
        if mask >> octet & 1:
            both |= _OTHER_CASE[octet]
    return both


def _other_case(octet: int) -> int:
    other = chr(octet).swapcase()
    # Three lower-case letters of ISO-8859-1 have their capital outside of it.
    return 1 << ord(other) if len(other) == 1 and ord(other) < 256 else 0


_OTHER_CASE = [_other_case(octet) for octet in range(256)]

DIGIT = of(range(0x30, 0x3A))
ALPHA = _where(str.isalpha)
WORD = ALPHA | DIGIT | of(b"_")
SPACE = of(b"\t\n\v\f\r ")
HORIZONTAL_SPACE = of(b"\t \xa0")
VERTICAL_SPACE = of(b"\n\v\f\r\x85")
NOT_NEWLINE = complement(of(b"\n"))
_GRAPH = of(range(0x21, 0x7F)) | of(range(0xA0, 0x100))

# What follows a backslash; the capital letter is the complement.
ESCAPED_CLASSES = {"d": DIGIT, "w": WORD, "s": SPACE, "h": HORIZONTAL_SPACE, "v": VERTICAL_SPACE}

# What stands between [: and :] inside of a bracketed class.
NAMED_CLASSES = {
    "alnum": ALPHA | DIGIT,
    "alpha": ALPHA,
    "ascii": of(range(0x80)),
    "blank": of(b"\t "),
    "cntrl": of(range(0x20)) | of(range(0x7F, 0xA0)),
    "digit": DIGIT,
    "graph": _GRAPH,
    "lower": _where(str.islower),
    "print": _GRAPH | of(b" "),
    "punct": _GRAPH & ~(ALPHA | DIGIT),
    "space": SPACE,
    "upper": _where(str.isupper),
    "word": WORD,
    "xdigit": of(b"0123456789abcdefABCDEF"),
}

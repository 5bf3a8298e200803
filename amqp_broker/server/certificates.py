"""When certificates end: the dates in the files that a listener shows and trusts.

The standard library tells the dates of a certificate that a peer has shown, not of one's own; so they are read where
X.509 has them (RFC 5280 §4.1): the second time of the validity, behind the issuer. What is read here has been accepted
by OpenSSL before.
"""

from __future__ import annotations

import logging
import re
from base64 import b64decode
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from amqp_broker.management.node_facts import CertificateFacts, ListenerFacts

log = logging.getLogger("amqp_broker.server")

#: All that OpenSSL takes for one; what it trusts has more behind it, which is not read.
_PEM: Final = re.compile(
    "-----BEGIN (?P<form>(?:X509 |TRUSTED )?CERTIFICATE)-----(?P<octets>.+?)-----END (?P=form)-----", re.DOTALL
)
#: Tags of DER.
_SEQUENCE, _VERSION, _UTC_TIME, _GENERALIZED_TIME = 0x30, 0xA0, 0x17, 0x18
_LONG = 0x80


def shown_at(
    listeners: Iterable[ListenerFacts], certificate: Path | None, authorities: Path | None
) -> tuple[CertificateFacts, ...]:
    """What these listeners show and trust, which is of TLS. Raises OSError."""
    found = [each for each in listeners if each.tls]
    ends = (_ends_in(certificate), _ends_in(authorities)) if found else ((), ())
    return tuple(CertificateFacts(each, _name(certificate), _name(authorities), *ends) for each in found)


def _name(path: Path | None) -> str:
    return "" if path is None else str(path)


def _ends_in(path: Path | None) -> tuple[int, ...]:
    if path is None:
        return ()
    ends = []
    found = [each["octets"] for each in _PEM.finditer(path.read_text(encoding="ascii", errors="replace"))]
    if not found:
        log.warning("no certificate is found in %s: when it ends is not known, and no check says so", path)
    for number, text in enumerate(found, 1):
        try:
            ends.append(end_of(b64decode(text)))
        except (ValueError, IndexError) as error:
            log.warning("certificate %d in %s: when it ends cannot be read (%s); no check says so", number, path, error)
    return tuple(ends)


def end_of(der: bytes) -> int:
    """When a certificate ends (its notAfter), milliseconds since the epoch. Raises ValueError, IndexError."""
    signed = next(_parts(next(_parts(der, _SEQUENCE)), _SEQUENCE))
    parts = list(_tagged(signed))
    if parts[0][0] == _VERSION:
        del parts[0]
    _serial, _algorithm, _issuer, validity = parts[:4]
    _not_before, (tag, text) = list(_tagged(validity[1]))
    form = {_UTC_TIME: "%y%m%d%H%M%SZ", _GENERALIZED_TIME: "%Y%m%d%H%M%SZ"}.get(tag)
    if form is None:
        raise ValueError(f"a time of type {tag}")
    return int(datetime.strptime(text.decode("ascii"), form).replace(tzinfo=UTC).timestamp() * 1000)


def _parts(octets: bytes, wanted: int) -> Iterator[bytes]:
    for tag, content in _tagged(octets):
        if tag != wanted:
            raise ValueError(f"a value of type {tag}, not {wanted}")
        yield content


def _tagged(octets: bytes) -> Iterator[tuple[int, bytes]]:
    """The values of DER one behind the other: tag and content."""
    at = 0
    while at < len(octets):
        tag, length = octets[at], octets[at + 1]
        at += 2
        if length & _LONG:
            count = length & ~_LONG
            length = int.from_bytes(octets[at : at + count], "big")
            at += count
        if at + length > len(octets):
            raise ValueError("a value that is cut off")
        yield tag, octets[at : at + length]
        at += length

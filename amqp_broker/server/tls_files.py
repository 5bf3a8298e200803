"""Certificates, keys and authorities from files into a TLS context; each mistake names its file and the way out.

OpenSSL alone says "PEM lib", "no start line" or, at a key that is locked, asks the terminal for a password.
"""

from __future__ import annotations

import errno
import ssl
from os import PathLike, fspath

Path = str | PathLike[str]


def load_certificate(context: ssl.SSLContext, certificate: Path, key: Path | None = None) -> None:
    """The certificate (chain) that is shown, and its key, which may lie in the same file. Raises OSError."""
    try:
        context.load_cert_chain(certificate, key, _no_password)
    except ssl.SSLError as error:
        where = certificate if key is None else key
        if _refuses_as_authority(certificate):
            raise _wrong(certificate, f"no certificate in PEM ({_why(error)}); name the certificate's file") from None
        if error.reason == "KEY_VALUES_MISMATCH":
            raise _wrong(
                where, f"the key is not that of the certificate in {fspath(certificate)}; name two that belong together"
            ) from None
        raise _wrong(
            where,
            f"no private key in PEM, without a password, that fits the certificate in {fspath(certificate)} "
            f"({_why(error)}); name its file, or remove its password (openssl pkey)",
        ) from None
    except OSError as error:
        raise _unreadable(error, (certificate, key)) from None


def load_authorities(context: ssl.SSLContext, authorities: Path) -> None:
    """Whose signatures are trusted. Raises OSError."""
    try:
        context.load_verify_locations(authorities)
    except ssl.SSLError as error:
        raise _wrong(authorities, f"no certificates in PEM ({_why(error)}); name the file of the authorities") from None
    except OSError as error:
        raise _unreadable(error, (authorities,)) from None


def client_context(authorities: Path | None, certificate: Path | None, key: Path | None) -> ssl.SSLContext:
    """Of a client: it trusts the authorities (those of the system without any), and shows the certificate if there is
    one. Raises OSError."""
    context = ssl.create_default_context() if authorities is None else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if authorities is not None:
        load_authorities(context, authorities)
    if certificate is not None:
        load_certificate(context, certificate, key)
    return context


def _refuses_as_authority(certificate: Path) -> bool:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(certificate)
    except ssl.SSLError:
        return True
    return False


def _unreadable(error: OSError, paths: tuple[Path | None, ...]) -> OSError:
    """OpenSSL does not say which file it could not open."""
    for path in paths:
        try:
            if path is not None:
                open(path, "rb").close()
        except OSError as found:
            return _wrong(path or "", f"cannot be read: {found.strerror}; name another file")
    return error


def _wrong(path: Path, text: str) -> OSError:
    return OSError(errno.EINVAL, text, fspath(path))


def _no_password() -> str:
    """A key that is locked is refused: nobody is there to be asked."""
    return ""


def _why(error: ssl.SSLError) -> str:
    """OpenSSL's words without the line of its source."""
    return (error.reason or str(error)).lower().replace("_", " ")

"""TLS of the connector: `caFile`, `certFile` and `keyFile` make a context, and what a handshake fails of is said in the
words of these options."""

from __future__ import annotations

import ssl
from pathlib import Path

from amqp_broker.client import ClientError
from spark_connector.errors import OptionError, Refused
from spark_connector.options import Options

#: What OpenSSL says where the other side speaks no TLS.
_NO_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE")


def context(options: Options) -> ssl.SSLContext:
    """Whom to trust, and who we are. Raises OptionError."""
    for name, path in (("caFile", options.ca_file), ("certFile", options.cert_file), ("keyFile", options.key_file)):
        if path is not None:
            _check_readable(name, path)
    try:
        made = ssl.create_default_context(cafile=options.ca_file)
    except ssl.SSLError as error:
        raise OptionError(f"option 'caFile': {options.ca_file} holds no certificates in PEM: {_why(error)}") from None
    if options.cert_file is not None:
        try:
            made.load_cert_chain(options.cert_file, options.key_file, _no_password)
        except ssl.SSLError as error:
            raise OptionError(
                f"options 'certFile' and 'keyFile': {options.cert_file}"
                + (f" and {options.key_file}" if options.key_file is not None else "")
                + f" are no certificate with its key in PEM, without a password: {_why(error)}"
            ) from None
    return made


def refusal(error: BaseException, options: Options) -> Refused | None:
    """Why a connection failed, where TLS is why, and what to do; None where it is not."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ssl.SSLError):
        cause = cause.__cause__
    if cause is None:
        return None
    where, reason = options.where, _why(cause)
    if isinstance(cause, ssl.SSLCertVerificationError):
        if "mismatch" in reason:
            way = "write the host in 'uri' (or 'host') as the broker's certificate has it"
        elif options.ca_file is None:
            way = "set option 'caFile' to the certificate of who signed the broker's"
        else:
            way = f"option 'caFile' ({options.ca_file}) has to hold the certificate of who signed the broker's"
        return Refused(f"{where}: the broker's certificate is not trusted: {reason}; {way}", "access-refused")
    if any(each in str(cause).upper().replace(" ", "_") for each in _NO_TLS):
        return Refused(
            f"{where} does not speak TLS: {reason}; correct the port in 'uri' (or 'port'), or write amqp://", "invalid"
        )
    if "ALERT" in str(cause).upper():
        given = "is not one that it trusts" if options.cert_file is not None else "is missing"
        return Refused(
            f"{where} ended the TLS handshake: {reason}; if it wants certificates of its clients, this one's {given}: "
            "set options 'certFile' and 'keyFile'", "access-refused",
        )  # fmt: skip
    return None


def hint(error: ClientError, options: Options) -> str:
    """What may be wrong where a broker ends a connection without a word, which is how one that wants certificates of
    its clients does it, but one that goes down, too."""
    if options.urls[0].startswith("amqps:") and "without a word" in str(error):
        given = "it may not trust this one's" if options.cert_file is not None else "this one has none"
        return f"; if it wants certificates of its clients, {given}: set options 'certFile' and 'keyFile'"
    return ""


def _check_readable(name: str, path: str) -> None:
    try:
        with Path(path).open("rb"):
            return
    except OSError as error:
        raise OptionError(
            f"option '{name}': cannot read {path}: {error.strerror}; it has to be there on every machine of the query"
        ) from None


def _no_password() -> str:
    """A key that is locked is refused: nobody is there to be asked."""
    return ""


def _why(error: ssl.SSLError) -> str:
    """OpenSSL's words without the line of its source."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    return (error.reason or str(error)).lower().replace("_", " ")

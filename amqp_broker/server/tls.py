"""The TLS side of a listener."""

from __future__ import annotations

import errno
import ssl
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amqp_broker.config import Config


def tls_context(config: Config) -> ssl.SSLContext:
    """TLS 1.2 and newer with the configured certificate; clients are asked for theirs where a CA is configured.

    Raises OSError (ssl.SSLError is one) when the files cannot be used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    assert config.tls_certificate is not None
    try:
        context.load_cert_chain(config.tls_certificate, config.tls_key)
        if config.tls_client_ca is not None:
            context.load_verify_locations(config.tls_client_ca)
    except OSError as error:
        raise OSError(
            errno.EINVAL,
            f"{error.strerror or error}: it takes PEM files that belong together",
            f"{config.tls_certificate}, {config.tls_key}, {config.tls_client_ca}",
        ) from error
    if config.tls_client_ca is not None:
        context.verify_mode = ssl.CERT_REQUIRED if config.tls_verify_client else ssl.CERT_OPTIONAL
    return context

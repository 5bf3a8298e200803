"""The TLS side of a listener."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

from amqp_broker.server.tls_files import load_authorities, load_certificate

if TYPE_CHECKING:
    from amqp_broker.settings.config import Config


def tls_context(config: Config) -> ssl.SSLContext:
    """TLS 1.2 and newer with the configured certificate; clients are asked for theirs where a CA is configured.

    Raises OSError, which names the file that cannot be used and says why.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    assert config.tls_certificate is not None
    load_certificate(context, config.tls_certificate, config.tls_key)
    if config.tls_client_ca is not None:
        load_authorities(context, config.tls_client_ca)
    if config.tls_client_ca is not None:
        context.verify_mode = ssl.CERT_REQUIRED if config.tls_verify_client else ssl.CERT_OPTIONAL
    return context

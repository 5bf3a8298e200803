"""How a command that connects speaks TLS: whom it trusts, and who it is. The options are the same for all of them.

They are kept beside the command's own arguments (in click's context), because only connecting needs them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import click

from amqp_broker.bench.link import LinkError
from amqp_broker.client.errors import ClientError

if TYPE_CHECKING:
    from ssl import SSLContext

_META = "amqp_broker.tls_files"
_FLAGS = {"ca_file": "--ca-file", "cert_file": "--cert-file", "key_file": "--key-file"}

C = TypeVar("C", bound=Callable[..., object])


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files: the authorities to trust (None: the system's), one's own certificate, its key if not in there."""

    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None


def add_tls_options(command: C) -> C:
    """Give a command --ca-file, --cert-file and --key-file, for `tls_files` and `tls_context` to find."""
    helps = (
        "With amqps://: who signed the broker's certificate, PEM. [the system's authorities]",
        "With amqps://: a certificate for brokers that want one of their clients, PEM.",
        "Its private key, PEM, without a password. [in --cert-file]",
    )
    for flag, text in reversed(list(zip(_FLAGS.values(), helps, strict=True))):
        option = click.option(flag, metavar="FILE", expose_value=False, callback=_remember, help=text)
        command = option(command)
    return command


def _remember(context: click.Context, option: click.Parameter, value: str | None) -> None:
    if value is not None:
        context.meta.setdefault(_META, {})[option.name] = value


def tls_files(url: str) -> TlsFiles:
    """What this run of the command was given. Raises UsageError where it makes no sense with the url."""
    given: dict[str, str] = click.get_current_context().meta.get(_META, {})
    if given and not url.startswith("amqps:"):
        flag = _FLAGS[next(iter(given))]
        raise click.UsageError(f"{flag} is for TLS: write amqps:// in --url, and the port of the broker's TLS listener")
    if "key_file" in given and "cert_file" not in given:
        raise click.UsageError("--key-file belongs to a certificate: name that with --cert-file")
    return TlsFiles(**given)


def tls_context(url: str) -> SSLContext | None:
    """For a connection to the url: None without TLS. Raises click's exceptions."""
    files = tls_files(url)
    if not url.startswith("amqps:"):
        return None
    from amqp_broker.server.tls_files import client_context  # late: most connections need no TLS

    try:
        return client_context(files.ca_file, files.cert_file, files.key_file)
    except OSError as error:
        raise click.ClickException(f"{error.filename}: {error.strerror}") from error


def explain(error: Exception, url: str) -> str:
    """One line for a connection that failed: where TLS may be why, with the way out."""
    text = str(error)
    if not isinstance(error, ClientError | LinkError) or not url.startswith("amqps:"):
        return text
    files = tls_files(url)
    if "CERTIFICATE_VERIFY_FAILED" in text:
        if "mismatch" in text or "not valid for" in text:
            return f"{text}; write the host in --url as the broker's certificate has it"
        trusted = "the system trusts" if files.ca_file is None else f"{files.ca_file} holds"
        return f"{text}; the broker's certificate is not signed by whom {trusted}: name its authority with --ca-file"
    if "WRONG_VERSION_NUMBER" in text or "RECORD_LAYER_FAILURE" in text:
        return f"{text}; there is no TLS at this port: write amqp://, or the port of the broker's TLS listener"
    if "ALERT" in text.upper() or "without a word" in text or "lost while" in text:
        given = "may not be one that it trusts" if files.cert_file else "is missing"
        way_out = f"this one's {given}: name one with --cert-file and --key-file"
        return f"{text}; if it wants certificates of its clients, {way_out}"
    return text


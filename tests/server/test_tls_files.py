"""What can be wrong with certificates, keys and authorities: each error names the files that it is about."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path

import pytest
import trustme

from amqp_broker.server.tls_files import client_context, load_authorities, load_certificate


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """cert.pem, key.pem and ca.pem that fit; other.pem is somebody else's key, locked.pem key.pem with a password,
    text.pem no PEM at all."""
    folder = tmp_path_factory.mktemp("files")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.pem")
    leaf = authority.issue_cert("localhost")
    leaf.cert_chain_pems[0].write_to_path(folder / "cert.pem")
    leaf.private_key_pem.write_to_path(folder / "key.pem")
    leaf.private_key_and_cert_chain_pem.write_to_path(folder / "both.pem")
    authority.issue_cert("localhost").private_key_pem.write_to_path(folder / "other.pem")
    (folder / "text.pem").write_text("dear diary\n")
    command = ["openssl", "pkey", "-in", "key.pem", "-out", "locked.pem", "-aes256", "-passout", "pass:swordfish"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return folder


@pytest.mark.parametrize(("certificate", "key"), [("cert", "key"), ("both", None), ("both", "both")])
def test_what_belongs_together_is_taken(folder: Path, certificate: str, key: str | None) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    load_certificate(context, folder / f"{certificate}.pem", None if key is None else folder / f"{key}.pem")
    load_authorities(context, folder / "ca.pem")
    assert len(context.get_ca_certs()) == 1


@pytest.mark.parametrize(
    ("certificate", "key", "names", "said"),
    [
        ("cert", "other", ("cert", "other"), "not that of the certificate"),
        ("cert", "text", ("cert", "text"), "no private key"),
        ("cert", "locked", ("cert", "locked"), "without a password"),
        ("cert", None, ("cert",), "no private key"),
        ("text", "key", ("text",), "no certificate in PEM"),
        ("cert", "gone", ("gone",), "cannot be read"),
        ("gone", "key", ("gone",), "cannot be read"),
    ],
)
def test_each_mistake_names_its_files(
    folder: Path, certificate: str, key: str | None, names: tuple[str, ...], said: str
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with pytest.raises(OSError) as caught:  # noqa: PT011 - its text is looked at
        load_certificate(context, folder / f"{certificate}.pem", None if key is None else folder / f"{key}.pem")
    text = f"{caught.value.filename}: {caught.value.strerror}"
    assert said in text
    for name in names:
        assert str(folder / f"{name}.pem") in text
    assert "_ssl.c" not in text


@pytest.mark.parametrize(("name", "said"), [("text", "no certificates in PEM"), ("gone", "cannot be read")])
def test_authorities_that_are_none(folder: Path, name: str, said: str) -> None:
    with pytest.raises(OSError, match=said) as caught:
        client_context(folder / f"{name}.pem", None, None)
    assert caught.value.filename == str(folder / f"{name}.pem")

"""When certificates end, as their files say."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme

from amqp_broker.management.node_facts import AMQPS, ListenerFacts
from amqp_broker.server.certificates import end_of, shown_at

LISTENER = ListenerFacts(AMQPS, "127.0.0.1", 5671, tls=True)
SOON = datetime(2031, 2, 3, 4, 5, 6, tzinfo=UTC)
#: From 2050 on a time is of another type (RFC 5280 §4.1.2.5).
LATE = datetime(2051, 2, 3, 4, 5, 6, tzinfo=UTC)


def milliseconds(at: datetime) -> int:
    return int(at.timestamp() * 1000)


@pytest.mark.parametrize("end", [SOON, LATE])
@pytest.mark.parametrize("key", list(trustme.KeyType))
def test_a_certificate_says_when_it_ends(end: datetime, key: trustme.KeyType) -> None:
    issued = trustme.CA(key_type=key).issue_cert("localhost", "::1", not_after=end, key_type=key)
    assert end_of(ssl.PEM_cert_to_DER_cert(issued.cert_chain_pems[0].bytes().decode())) == milliseconds(end)


def test_each_of_a_chain_counts(tmp_path: Path) -> None:
    parent = trustme.CA()
    between = parent.create_child_ca()
    issued = between.issue_cert("localhost", not_after=SOON)
    with (tmp_path / "chain.pem").open("wb") as file:
        file.write(b"words before it\n")
        for each in (issued.private_key_pem, *issued.cert_chain_pems):
            file.write(each.bytes())
    parent.cert_pem.write_to_path(tmp_path / "ca.pem")
    (shown,) = shown_at([LISTENER], tmp_path / "chain.pem", tmp_path / "ca.pem")
    assert shown.certfile_ends_at[0] == milliseconds(SOON)
    assert len(shown.certfile_ends_at) == len(issued.cert_chain_pems) > 1
    assert len(shown.cacertfile_ends_at) == 1
    assert (shown.listener, shown.certfile) == (LISTENER, str(tmp_path / "chain.pem"))


@pytest.mark.parametrize("form", ["X509 CERTIFICATE", "TRUSTED CERTIFICATE"])
def test_each_form_that_openssl_takes_is_read(tmp_path: Path, form: str) -> None:
    issued = trustme.CA().issue_cert("localhost", not_after=SOON)
    text = issued.cert_chain_pems[0].bytes().decode().replace("CERTIFICATE", form)
    (tmp_path / "a.pem").write_text(text)
    (shown,) = shown_at([LISTENER], tmp_path / "a.pem", None)
    assert shown.certfile_ends_at == (milliseconds(SOON),)


def test_a_file_without_any_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "a.pem").write_text("no certificate")
    (shown,) = shown_at([LISTENER], tmp_path / "a.pem", None)
    assert (shown.certfile_ends_at, f"no certificate is found in {tmp_path / 'a.pem'}" in caplog.text) == ((), True)


def test_who_speaks_without_tls_shows_nothing(tmp_path: Path) -> None:
    assert shown_at([ListenerFacts("amqp", "127.0.0.1", 5672)], tmp_path / "nowhere.pem", None) == ()


def test_what_is_cut_off_is_no_date() -> None:
    whole = ssl.PEM_cert_to_DER_cert(trustme.CA().issue_cert("a").cert_chain_pems[0].bytes().decode())
    for length in range(0, len(whole), 7):
        with pytest.raises((ValueError, IndexError, StopIteration)):
            end_of(whole[:length])


def test_it_ends_in_the_zone_of_utc() -> None:
    end = datetime.now(UTC).replace(microsecond=0) + timedelta(days=3)
    issued = trustme.CA().issue_cert("localhost", not_after=end)
    assert end_of(ssl.PEM_cert_to_DER_cert(issued.cert_chain_pems[0].bytes().decode())) == milliseconds(end)

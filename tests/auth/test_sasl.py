"""SASL responses, as stock clients send them and as they should not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp_broker.auth.sasl import MAX_RESPONSE_OCTETS, Credentials, SaslError, amqplain, external, plain
from amqp_broker.protocol.fields import encode_table


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        (b"\0guest\0guest", ("guest", "guest")),
        (b"guest\0guest\0secret", ("guest", "secret")),
        (b"\0guest\0", ("guest", "")),
        ("\0zoë\0pässwörd".encode(), ("zoë", "pässwörd")),
        (b"\0a\xff\0\xfe", ("a\udcff", "\udcfe")),
    ],
)
def test_plain(response: bytes, expected: tuple[str, str]) -> None:
    assert plain(response) == Credentials(*expected)


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        (b"", "two NUL octets"),
        (b"guest", "two NUL octets"),
        (b"guest\0guest", "two NUL octets"),
        (b"\0guest\0gu\0est", "two NUL octets.*: 3"),
        (b"\0\0guest", "names no user"),
        (b"\0guest\0" + b"x" * MAX_RESPONSE_OCTETS, "longer than"),
    ],
)
def test_malformed_plain_says_why(response: bytes, reason: str) -> None:
    with pytest.raises(SaslError, match=reason):
        plain(response)


def test_plain_says_as_whom_the_user_wants_to_act() -> None:
    assert plain(b"shop\0admin\0secret") == Credentials("admin", "secret", "shop")
    assert plain(b"admin\0admin\0secret") == Credentials("admin", "secret")


@given(st.text(st.characters(blacklist_characters="\0"), min_size=1, max_size=100), st.text(max_size=100))
def test_plain_gives_back_what_a_client_put_in(user: str, password: str) -> None:
    user, password = (
        user.encode("utf-8", "replace").decode(),
        password.replace("\0", "").encode("utf-8", "replace").decode(),
    )
    assert plain(b"\0" + user.encode() + b"\0" + password.encode()) == Credentials(user, password)


def test_amqplain() -> None:
    # The very octets that py-amqp and pika-like clients send: a table without its length.
    response = b"\x05LOGINS\x00\x00\x00\x05guest\x08PASSWORDS\x00\x00\x00\x06secret"
    assert amqplain(response) == Credentials("guest", "secret")


@pytest.mark.parametrize("password", ["pässwörd", b"\xff\xfe", b"plain"])
def test_amqplain_keeps_the_octets_of_a_password(password: str | bytes) -> None:
    octets = password.encode() if isinstance(password, str) else password
    found = amqplain(encode_table({"PASSWORD": password, "LOGIN": "zoë", "more": 1}))
    assert found == Credentials("zoë", octets.decode("utf-8", "surrogateescape"))


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        (b"", "needs a string LOGIN"),
        (b"\0guest\0guest", "no field table"),
        (encode_table({"LOGIN": "guest"}), "needs a string PASSWORD"),
        (encode_table({"LOGIN": "guest", "PASSWORD": 5}), "needs a string PASSWORD"),
        (encode_table({"LOGIN": None, "PASSWORD": "x"}), "needs a string LOGIN"),
        (encode_table({"LOGIN": "", "PASSWORD": "x"}), "names no user"),
        (encode_table({"LOGIN": "guest", "PASSWORD": "x" * MAX_RESPONSE_OCTETS}), "longer than"),
    ],
)
def test_malformed_amqplain_says_why(response: bytes, reason: str) -> None:
    with pytest.raises(SaslError, match=reason):
        amqplain(response)


@given(st.binary(max_size=200))
def test_nothing_but_sasl_error_leaves_a_reader(response: bytes) -> None:
    for read in (plain, amqplain):
        try:
            credentials = read(response)
        except SaslError:
            continue
        assert isinstance(credentials, Credentials)
        assert credentials.user


# Bunny and pika send nothing, the Go client NUL * NUL *, rabbitmq-c an identity of the caller's choice.
@pytest.mark.parametrize("response", [b"", b"\0*\0*", b"guest"])
def test_external_takes_the_name_of_the_certificate(response: bytes) -> None:
    assert external(response, "O=acme,CN=worker") == "O=acme,CN=worker"


@pytest.mark.parametrize("peer_name", [None, ""])
def test_external_needs_a_certificate(peer_name: str | None) -> None:
    with pytest.raises(SaslError, match="needs a client certificate"):
        external(b"", peer_name)


def test_a_password_does_not_show_in_a_log() -> None:
    assert "secret" not in repr(plain(b"\0guest\0secret"))
    with pytest.raises(SaslError) as caught:
        plain(b"\0guest\0secret\0secret")
    assert "secret" not in str(caught.value)

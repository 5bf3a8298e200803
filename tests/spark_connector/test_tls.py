"""TLS without Spark: the options' files are used, and each mistake is one error that names its option, at once."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from spark_connector.errors import ConnectorError, OptionError, Refused
from spark_connector.options import Options
from spark_connector.publisher import declare_queue
from spark_connector.service import Service
from tests.spark_connector.tls_place import TlsPlace, tls_place


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsPlace]:
    with tls_place(tmp_path_factory.mktemp("tls")) as place:
        yield place


def ask(options: dict[str, str]) -> object:
    service = Service(Options.parse(options), is_first=True)
    try:
        return service.ask("txn.stat", {}).fields["apps"]
    finally:
        service.drop()


def test_whom_both_sides_trust_is_served(place: TlsPlace) -> None:
    assert ask(place.options) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"caFile": "other_ca"}, ("certificate is not trusted: ", "option 'caFile' (", ") has to hold the certi")),
        ({"caFile": None}, ("certificate is not trusted: ", "set option 'caFile' to the certificate of who signed")),
        ({"uri": "plain"}, ("does not speak TLS", "correct the port in 'uri'")),
    ],
)
def test_who_is_not_trusted_is_told_by_which_option(
    place: TlsPlace, change: dict[str, str | None], said: tuple[str, ...]
) -> None:
    options = dict(place.options)
    for name, value in change.items():
        if value is None:
            del options[name]
        else:
            options[name] = getattr(place, value).replace("amqp:", "amqps:")
    begin = time.monotonic()
    with pytest.raises(Refused) as caught:
        ask(options)
    assert time.monotonic() - begin < 20  # it is not tried for as long as a broker that is down
    for text in said:
        assert text in str(caught.value)


@pytest.mark.parametrize(
    ("certificate", "said"),
    [
        (None, "this one('s is missing| has none): set options 'certFile'"),  # an alert has come, or nothing
        ("other_cert", "(this one's is not one that it trusts|it may not trust)"),
    ],
)
def test_a_broker_that_wants_another_certificate(place: TlsPlace, certificate: str | None, said: str) -> None:
    options = {name: value for name, value in place.options.items() if name not in ("certFile", "keyFile")}
    if certificate is not None:
        options["certFile"] = getattr(place, certificate)
    with pytest.raises(ConnectorError, match=r"if it wants certificates of its clients, " + said):
        ask({**options, "connectTimeout": "300ms"})


def test_another_name_than_the_certificate_has(place: TlsPlace) -> None:
    with pytest.raises(Refused, match=r"mismatch.*; write the host in 'uri'"):
        ask({**place.options, "uri": place.url.replace("localhost", "0.0.0.0")})


def test_sinks_with_confirms_say_the_same(place: TlsPlace) -> None:
    options = {**place.options, "routingKey": "declared", "caFile": place.other_ca}
    with pytest.raises(Refused, match=r"option 'caFile' \("):
        declare_queue(Options.parse(options))
    declare_queue(Options.parse({**options, "caFile": place.ca}))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"caFile": "nowhere.pem"}, "option 'caFile': cannot read nowhere.pem: No such file or directory; it has"),
        ({"keyFile": "nowhere.pem"}, "option 'keyFile': cannot read nowhere.pem"),
        ({"caFile": "KEY"}, "holds no certificates in PEM"),
        ({"keyFile": "CA"}, "options 'certFile' and 'keyFile': "),
    ],
)
def test_files_that_are_not_what_they_should_be(place: TlsPlace, change: dict[str, str], said: str) -> None:
    files = {"KEY": place.key, "CA": place.ca}
    with pytest.raises(OptionError) as caught:
        ask({**place.options, **{name: files.get(value, value) for name, value in change.items()}})
    assert said in str(caught.value)
    assert isinstance(caught.value, ConnectorError)


def test_a_link_is_not_lent_to_who_trusts_somebody_else(place: TlsPlace) -> None:
    service = Service(Options.parse(place.options))
    service.ask("txn.stat", {})
    service.close()  # into the pool
    with pytest.raises(Refused, match="certificate is not trusted"):
        ask({**place.options, "caFile": place.other_ca})

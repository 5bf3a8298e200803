"""AMQP URLs as users write them."""

from __future__ import annotations

import pytest

from amqp_broker.client.address import Address, parse_url


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("amqp://", Address("localhost", 5672, "guest", "guest", "/", False)),
        ("amqp://broker", Address("broker", 5672, "guest", "guest", "/", False)),
        ("amqps://broker", Address("broker", 5671, "guest", "guest", "/", True)),
        ("amqp://u:p@broker:1234/v", Address("broker", 1234, "u", "p", "v", False)),
        ("amqp://broker/", Address("broker", 5672, "guest", "guest", "/", False)),
        ("amqp://broker/%2F", Address("broker", 5672, "guest", "guest", "/", False)),
        ("amqp://broker//", Address("broker", 5672, "guest", "guest", "/", False)),
        ("amqp://broker/a%2Fb", Address("broker", 5672, "guest", "guest", "a/b", False)),
        ("amqp://broker/%E2%82%AC", Address("broker", 5672, "guest", "guest", "€", False)),
        ("amqp://a%40b:p%3A%2F@broker", Address("broker", 5672, "a@b", "p:/", "/", False)),
        ("amqp://user@broker", Address("broker", 5672, "user", "guest", "/", False)),
        ("amqp://user:@broker", Address("broker", 5672, "user", "", "/", False)),
        ("amqp://[::1]:5673", Address("::1", 5673, "guest", "guest", "/", False)),
        ("amqp://broker/v?heartbeat=30", Address("broker", 5672, "guest", "guest", "v", False)),
    ],
)
def test_urls(url: str, expected: Address) -> None:
    assert parse_url(url) == expected


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("http://broker", "is no AMQP URL"),
        ("broker:5672", "is no AMQP URL"),
        ("", "is no AMQP URL"),
        ("amqp://broker:99999", "no usable port"),
        ("amqp://broker:http", "no usable port"),
    ],
)
def test_what_is_no_amqp_url(url: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_url(url)


def test_an_address_names_itself_without_the_password() -> None:
    assert str(parse_url("amqps://u:secret@[::1]:5673/v")) == "amqps://[::1]:5673"

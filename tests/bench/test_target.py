"""AMQP URLs of the load generator."""

from __future__ import annotations

import ssl

import pytest

from amqp_broker.bench.target import Target, TargetError, parse_target


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("amqp://localhost", Target(host="localhost")),
        ("amqp://localhost/", Target(host="localhost")),
        ("amqp://localhost/%2f", Target(host="localhost")),
        ("amqp://u%40x:p%2Fw@10.0.0.1:5673/tenant%20a", Target("10.0.0.1", 5673, "u@x", "p/w", "tenant a")),
        ("amqp://[::1]:7000", Target(host="::1", port=7000)),
    ],
)
def test_a_url_names_broker_user_and_vhost(url: str, target: Target) -> None:
    assert parse_target(url) == target


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("http://localhost", "not an AMQP URL"),
        ("localhost:5672", "not an AMQP URL"),
        ("amqp://", "not an AMQP URL"),
        ("amqp://localhost:70000", "allowed: a port"),
    ],
)
def test_a_url_that_cannot_be_used_is_named_with_what_is_allowed(url: str, text: str) -> None:
    with pytest.raises(TargetError, match=text) as caught:
        parse_target(url)
    assert repr(url) in str(caught.value)


def test_amqps_is_tls_with_a_port_of_its_own() -> None:
    target = parse_target("amqps://broker")
    assert target.tls is not None
    assert target.location == "amqps://broker:5671"
    mine = ssl.create_default_context()
    assert parse_target("amqps://broker:1", mine).tls is mine
    assert parse_target("amqp://broker", mine).tls is None


def test_the_location_never_shows_the_password() -> None:
    target = parse_target("amqp://user:secret@[::1]:5673")
    assert target.location == "amqp://[::1]:5673"
    assert "secret" not in repr(target)

"""Texts to values and back: sizes, durations, addresses, lists."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp_broker.settings.kinds import (
    ADDRESSES,
    BOOLEAN,
    COUNT,
    DURATION,
    NAMES,
    SIZE,
    TEXT,
    Address,
    Kind,
    parse_address,
    parse_duration,
    parse_size,
)


@pytest.mark.parametrize(
    ("text", "octets"),
    [
        ("0", 0),
        ("131072", 131072),
        ("7B", 7),
        ("64KiB", 65536),
        ("64 kib", 65536),
        ("256MiB", 256 << 20),
        ("1.5GiB", 3 << 29),
        ("2TiB", 2 << 40),
        ("64kB", 64_000),
        ("256MB", 256_000_000),
        ("2GB", 2_000_000_000),
    ],
)
def test_sizes(text: str, octets: int) -> None:
    assert parse_size(text) == octets


@pytest.mark.parametrize(
    ("text", "duration_ms"),
    [
        ("500ms", 500),
        ("30s", 30_000),
        ("1.5s", 1500),
        ("2 min", 120_000),
        ("1h", 3_600_000),
        ("1d", 86_400_000),
        ("0", 0),
        ("0s", 0),
    ],
)
def test_durations(text: str, duration_ms: int) -> None:
    assert parse_duration(text) == duration_ms


@pytest.mark.parametrize("text", ["", "MiB", "-1", "1e3", "12q", "1.0001KiB", "1..5MiB", "0x10", "٣MiB", "1 2"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        parse_size(text)


@pytest.mark.parametrize("text", ["", "30", "30m", "30sec", "-5s", "0.5ms", "soon"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:5672", Address("127.0.0.1", 5672)),
        ("localhost:0", Address("localhost", 0)),
        ("[::1]:5672", Address("::1", 5672)),
        ("0.0.0.0:65535", Address("0.0.0.0", 65535)),
    ],
)
def test_addresses(text: str, address: Address) -> None:
    assert parse_address(text) == address
    assert str(address) == text


@pytest.mark.parametrize(
    "text", ["", "5672", ":5672", "host:", "host:65536", "host:-1", "::1:5672", "host:5x", "host:²"]
)
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        parse_address(text)


hosts = st.from_regex(r"[a-z0-9][a-z0-9.-]{0,20}", fullmatch=True) | st.ip_addresses(v=6).map(str)
addresses = st.builds(Address, hosts, st.integers(0, 65535))
names = st.text(st.characters(exclude_characters=",", exclude_categories=("Z", "C")), min_size=1)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (SIZE, st.integers(0, 1 << 60)),
        (DURATION, st.integers(0, 10**15)),
        (COUNT, st.integers(0, 10**17)),
        (BOOLEAN, st.booleans()),
        (TEXT, st.text(st.characters(exclude_characters="\0"), min_size=1)),
        (ADDRESSES, st.lists(addresses).map(tuple)),
        (NAMES, st.lists(names).map(tuple)),
    ],
    ids=lambda each: each.name if isinstance(each, Kind) else "",
)
@given(data=st.data())
def test_what_is_shown_can_be_read_again(kind: Kind, values: st.SearchStrategy[object], data: st.DataObject) -> None:
    value = data.draw(values)
    assert kind.parse(kind.show(value)) == value


@given(st.text())
def test_any_text_is_a_value_or_a_value_error(text: str) -> None:
    for kind in (SIZE, DURATION, COUNT, BOOLEAN, ADDRESSES, NAMES):
        try:
            value = kind.parse(text)
        except ValueError:
            continue
        assert kind.parse(kind.show(value)) == value

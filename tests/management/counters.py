"""What of totals never falls."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from amqp_broker.management.totals import FRESH_MS, HELD
from amqp_broker.protocol import methods
from amqp_broker.protocol.frames import encode_method_frame
from tests.node.node_driver import Client, NodeDriver, frame_octets
from tests.node.system_service import SystemService

#: What else is in an answer.
_NONE = {"node", "nodes", "before", "stale", "cluster_name", "cluster_id"}


def counters_of(totals: dict[str, Any]) -> dict[str, float]:
    """All counters, by their paths."""
    return dict(_numbers("", {name: value for name, value in totals.items() if name not in HELD | _NONE}))


def _numbers(path: str, value: Any) -> Iterator[tuple[str, float]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _numbers(f"{path} {name}".strip(), inner)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _numbers(f"{path} {number}", inner)
    else:
        assert isinstance(value, (int, float)), path
        yield path, value


def fallen(now: dict[str, Any], before: dict[str, Any]) -> list[str]:
    """Counters that are lower than they were."""
    counters = counters_of(now)
    return [name for name, value in counters_of(before).items() if counters.get(name, 0) < value]


def totals(driver: NodeDriver, service: SystemService) -> dict[str, Any]:
    """New ones."""
    driver.wait(FRESH_MS)
    return service.ask("totals")


def publish_mandatory(driver: NodeDriver, client: Client, queue: str) -> None:
    """An empty message to the default exchange, mandatory."""
    octets = encode_method_frame(1, methods.BasicPublish(0, "", queue, True, False))
    client.send_octets(octets + frame_octets(2, 1, b"\x00\x3c\x00\x00" + bytes(8) + b"\x00\x00"))

"""Who talks to which queue, by which route, and which scenarios are refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqp_broker.bench.scenario import EXCHANGE_TYPES, Scenario, ScenarioError

FEW = st.integers(min_value=1, max_value=12)


@settings(deadline=None)
@given(FEW, FEW)
def test_every_queue_has_a_producer_and_a_consumer(members: int, queues: int) -> None:
    scenario = Scenario(queues=queues)
    served = [name for member in range(members) for name in scenario.queues_of(member, members)]
    assert sorted(set(served)) == sorted(scenario.queue_names)
    if members <= queues:
        assert sorted(served) == sorted(scenario.queue_names)  # and none has two


@settings(deadline=None)
@given(FEW, st.integers(min_value=1, max_value=1000))
def test_quotas_add_up(producers: int, extra: int) -> None:
    scenario = Scenario(producers=producers, messages=producers + extra)
    quotas = [scenario.quota_of(producer) for producer in range(producers)]
    assert sum(quotas) == producers + extra
    assert max(quotas) - min(quotas) <= 1


@settings(deadline=None)
@given(st.sampled_from([kind for kind in EXCHANGE_TYPES if kind != "fanout"]), FEW, FEW, FEW)
def test_producers_share_all_routes(kind: str, producers: int, queues: int, bindings: int) -> None:
    scenario = Scenario(exchange_type=kind, producers=producers, queues=queues, bindings=bindings)
    used = [route for producer in range(producers) for route in scenario.routes_of(producer)]
    keys = [route.routing_key + str(route.headers) for route in used]
    assert sorted(set(keys)) == sorted({route.routing_key + str(route.headers) for route in scenario.routes()})
    assert len({len(key) for key in keys}) == 1  # so that a ring of them is regular


def test_the_routes_of_a_topic_exchange_match_one_binding_each() -> None:
    routes = Scenario(exchange_type="topic", bindings=1000).routes()
    assert routes[7].routing_key == "bench.some.007"
    assert routes[7].binding_key == "bench.*.007"
    assert len(routes) == 1000


def test_a_fanout_multiplies() -> None:
    scenario = Scenario(exchange_type="fanout", queues=5, messages=100)
    assert scenario.copies == 5
    assert scenario.deliveries == 500
    assert len(scenario.routes_of(0)) == 1


def test_a_batch_is_at_most_half_a_window_and_one_large_message() -> None:
    assert Scenario().publish_batch == 64
    assert Scenario(confirm_window=10).publish_batch == 5
    assert Scenario(confirm_window=1).publish_batch == 1
    assert Scenario(size=65536).publish_batch == 1


def test_streams_are_read_from_their_beginning_where_nobody_publishes() -> None:
    scenario = Scenario(queue_type="stream")
    assert scenario.is_durable
    assert scenario.declare_arguments == {"x-queue-type": "stream"}
    assert scenario.consume_arguments == {}
    assert Scenario(queue_type="stream", producers=0).consume_arguments == {"x-stream-offset": "first"}


def test_quorum_queues_are_durable_and_named_in_the_arguments() -> None:
    scenario = Scenario(queue_type="quorum", queue_arguments={"x-max-length": 10})
    assert scenario.is_durable
    assert scenario.declare_arguments == {"x-queue-type": "quorum", "x-max-length": 10}
    assert Scenario().declare_arguments == {}


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"exchange_type": "x-random"}, "allowed: default, direct"),
        ({"queue_type": "mirrored"}, "allowed: classic, quorum, stream"),
        ({"size": -1}, "size -1; allowed: 0 or more"),
        ({"queues": 0}, "queues 0; allowed: 1 or more"),
        ({"prefetch": 70000}, "allowed: 0 (no limit) to 65535"),
        ({"producers": 0, "consumers": 0}, "at least one of either"),
        ({"producers": 5, "messages": 3}, "messages 3 for 5 producers"),
        ({"targets": ()}, "no URL"),
    ],
)
def test_what_cannot_be_is_refused_with_the_way_out(values: dict[str, Any], text: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        Scenario(**values)
    assert text in str(caught.value)

"""A histogram counts each value once, where it belongs."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from amqp_broker.turn.histogram import DELAYS_MS, SYNCS_S, TURNS_S, Histogram
from amqp_broker.web.prometheus.names import DELAY_BUCKETS, SYNC_BUCKETS, TURN_BUCKETS


@given(st.lists(st.floats(0, 20)))
def test_each_value_is_in_one_place(values: list[float]) -> None:
    found = Histogram((1, 2, 5))
    for value in values:
        found.add(value)
    each = pairwise((-1.0, 1, 2, 5, float("inf")))
    assert found.counts == [sum(low < value <= high for value in values) for low, high in each]
    assert found.sum == sum(values)


def test_metrics_call_the_bounds_as_the_node_has_them() -> None:
    known = ((DELAYS_MS, DELAY_BUCKETS, 1000), (TURNS_S, TURN_BUCKETS, 1), (SYNCS_S, SYNC_BUCKETS, 1))
    for bounds, texts, unit in known:
        assert [bound / unit for bound in bounds] == [float(text) for text in texts[:-1]]
        assert texts[-1] == "+Inf"

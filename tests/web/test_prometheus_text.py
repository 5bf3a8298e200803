"""Prometheus' text, read by its own parser."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from amqp_broker.web.prometheus.text import COUNTER, GAUGE, Family, write

ANY_NAME = st.binary(max_size=20).map(lambda octets: octets.decode("utf-8", "surrogateescape"))


@given(st.lists(st.tuples(ANY_NAME, st.integers(0, 10**15)), unique_by=lambda each: each[0], min_size=1, max_size=5))
def test_any_label_is_read_again(samples: list[tuple[str, int]]) -> None:
    family = Family("rabbitmq_x_total", COUNTER, "of any\nkind \\ of")
    for name, value in samples:
        family.add(value, {"queue": name})
    (found,) = text_string_to_metric_families(write([family]).decode())
    assert [sample.value for sample in found.samples] == [value for _, value in samples]
    shown = [sample.labels["queue"] for sample in found.samples]
    for (name, _), label in zip(samples, shown, strict=True):
        if not any("\udc80" <= letter <= "\udcff" for letter in name):
            assert label == name


def test_a_family_without_samples_is_left_out() -> None:
    assert write([Family("x", GAUGE, "nothing")]) == b""

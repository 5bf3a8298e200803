"""Lists: pages, order and columns are cut from the same rows, whatever they hold."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp_broker.web.errors import ApiError
from amqp_broker.web.listing import MAX_PAGE_SIZE, answer_list, read_query, safe_pattern

NAMES = st.text(max_size=8)
VALUES = st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.lists(st.integers(), max_size=2)
ROWS = st.lists(
    st.fixed_dictionaries({"vhost": NAMES, "name": NAMES, "a": st.fixed_dictionaries({"b": VALUES})}), max_size=30
)


@given(ROWS, st.integers(1, 7))
def test_pages_together_are_the_list(rows: list[dict[str, Any]], size: int) -> None:
    whole = answer_list(rows, read_query({}))
    pages: list[Any] = []
    page = 1
    while True:
        answer = answer_list(rows, read_query({"page": str(page), "page_size": str(size)}))
        assert answer["item_count"] == len(answer["items"]) <= size
        assert answer["total_count"] == answer["filtered_count"] == len(rows)
        pages += answer["items"]
        if page == answer["page_count"]:
            break
        page += 1
    assert pages == whole
    with pytest.raises(ApiError) as refused:
        answer_list(rows, read_query({"page": str(page + 1), "page_size": str(size)}))
    assert (refused.value.status, "page_out_of_range" in str(refused.value)) == (400, True)


@given(ROWS)
def test_any_column_gives_an_order_and_its_reverse(rows: list[dict[str, Any]]) -> None:
    up = answer_list(rows, read_query({"sort": "a.b"}))
    down = answer_list(rows, read_query({"sort": "a.b", "sort_reverse": "true"}))
    assert sorted(map(repr, up)) == sorted(map(repr, rows))
    assert [repr(row["a"]) for row in down if row["a"]["b"] is not None][:1] == [
        repr(row["a"]) for row in up[::-1] if row["a"]["b"] is not None
    ][:1] or len({repr(row["a"]) for row in rows}) < len(rows)
    assert answer_list(rows, read_query({"sort": ""})) == rows


@given(ROWS)
def test_columns_keep_their_places(rows: list[dict[str, Any]]) -> None:
    for row in answer_list(rows, read_query({"columns": "name,a.b,nothing.here"})):
        assert set(row) <= {"name", "a"}
        assert set(row.get("a", {})) <= {"b"}


@pytest.mark.parametrize(
    ("columns", "shown"),
    [
        ("a.b", {"a": [{"b": 1}, {"b": 2}]}),
        ("a.b,a.c.d", {"a": [{"b": 1, "c": [{"d": 5}, {}]}, {"b": 2}]}),
        ("a.b,a", {"a": [{"b": 1, "c": [{"d": 5}, {"e": 6}]}, {"b": 2, "f": 3}]}),
        ("a,a.b", {"a": [{"b": 1, "c": [{"d": 5}, {"e": 6}]}, {"b": 2, "f": 3}]}),
        ("empty.x,tags.x,none", {"empty": [], "tags": ["t"], "none": None}),
        ("a..b,.,missing.x", {"a": [{}, {}]}),
    ],
)
def test_columns_go_into_lists(columns: str, shown: dict[str, Any]) -> None:
    row = {
        "a": [{"b": 1, "c": [{"d": 5}, {"e": 6}]}, {"b": 2, "f": 3}], "empty": [], "tags": ["t"], "none": None
    }  # fmt: skip
    assert answer_list([row], read_query({"columns": columns})) == [shown]


def test_a_part_of_the_name_or_a_regex() -> None:
    rows = [{"vhost": "/", "name": name} for name in ("orders.eu", "Orders.us", "other")]

    def names(**query: str) -> list[str]:
        answer = answer_list(rows, read_query({"page": "1", **query}))
        return [row["name"] for row in answer["items"]]

    assert names(name="orders") == ["Orders.us", "orders.eu"]
    assert names(name="^o.*r$", use_regex="true") == ["other"]
    assert names(name="^o.*r$") == []
    assert len(answer_list(rows, read_query({"name": "orders"}))) == 3, "without a page the name says nothing"


@pytest.mark.parametrize("query", [
    {"page": "0"}, {"page": "x"}, {"page": "1", "page_size": "0"}, {"page": "1", "page_size": str(MAX_PAGE_SIZE + 1)},
    {"page": "-1"}, {"page": "1", "name": "(", "use_regex": "true"},
    {"page": "1", "name": "a" * 2000, "use_regex": "true"},
])  # fmt: skip
def test_what_cannot_be_is_refused(query: dict[str, str]) -> None:
    with pytest.raises(ApiError) as refused:
        read_query(query)
    assert refused.value.status == 400


@pytest.mark.parametrize(
    "pattern",
    ["(a+)+$", "(a|a)*b", "(a*)*", "((a+)b?)+c", r"(a)\1", "(?=a)b", ".*.*.*x", "^.*.*.*.*x", "(a{1,9}){9}",
     "a?" * 25 + "a" * 25, "(a|a)" * 30 + "b"],
)
def test_a_regex_that_could_run_for_ever_is_refused(pattern: str) -> None:
    with pytest.raises(ApiError):
        safe_pattern(pattern)


@pytest.mark.parametrize(
    "pattern",
    ["^orders", r"\d+-\d+", "a|b", "[*+]+", r"\(a+\)+", "(?:a|b)c?", "^celery.*pidbox$", "|".join("abcdefghijk"),
     r"^(?:.*\.)?x-\d+-.*?y$"],
)
def test_a_usual_regex_is_taken(pattern: str) -> None:
    safe_pattern(pattern).search("a" * 255)


def test_a_column_is_looked_for_once_and_few_are() -> None:
    """Of each of very many rows."""
    assert read_query({"columns": ",".join(["a.b"] * 10_000)}).columns == {"a": {"b": None}}
    with pytest.raises(ApiError, match="at most 100"):
        read_query({"columns": ",".join(map(str, range(101)))})

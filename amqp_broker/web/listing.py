"""Lists: filtered by name, sorted, cut into pages and columns, as the query of a request asks.

A regex comes from outside, and Python's `re` cannot be interrupted: what could run for ever is refused before it runs
(`safe_pattern`), and names are cut to what AMQP lets them have.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from amqp_broker.protocol.json_values import JsonObject, JsonValue
from amqp_broker.web.errors import bad_request

DEFAULT_PAGE_SIZE: Final = 100
MAX_PAGE_SIZE: Final = 500
MAX_PATTERN_CHARACTERS: Final = 1024
#: Each is looked for in every row.
MAX_COLUMNS: Final = 100
#: So long a regex may take with all names together, seconds.
_MATCH_S: Final = 1.0
_NAME: Final = ("name",)
_WHOLE_NUMBER: Final = re.compile(r"[0-9]{1,9}")
_INSIDE_GROUP: Final = re.compile(r"\\.|\[(?:\\.|[^\]\\])*\]|[()*+?{}|]|.", re.DOTALL)

Row = JsonObject
#: What is shown, by name: None is all that there is of it, else these of what lies in it.
Columns = dict[str, "Columns | None"]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a query asks of a list."""

    page: int | None
    page_size: int
    matches: Callable[[str], bool] | None
    sort: tuple[str, ...] | None
    is_reversed: bool
    columns: Columns


def read_query(query: Mapping[str, str]) -> Wanted:
    """Raises ApiError."""
    page = _number(query, "page")
    size = _number(query, "page_size")
    if page == 0 or size == 0 or (size or 0) > MAX_PAGE_SIZE:
        raise _invalid_pagination()
    sort = query.get("sort")
    return Wanted(
        page=page,
        page_size=DEFAULT_PAGE_SIZE if size is None else size,
        matches=_name_test(query) if page is not None else None,
        sort=None if sort is None else tuple(sort.split(".")) if sort else (),
        is_reversed=query.get("sort_reverse") == "true",
        columns=read_columns(query),
    )


def read_columns(query: Mapping[str, str]) -> Columns:
    """Each once: every one of them is looked for in every row. Raises ApiError."""
    names = dict.fromkeys(part for part in query.get("columns", "").split(",") if part)
    if len(names) > MAX_COLUMNS:
        raise bad_request(f"columns: at most {MAX_COLUMNS} are chosen, not {len(names)}; without it there are all")
    columns: Columns = {}
    for name in names:
        *outer, last = name.split(".")
        inside = columns
        for part in outer:
            inner = inside.setdefault(part, {})
            if inner is None:
                break  # all of it is shown
            inside = inner
        else:
            inside[last] = None
    return columns


def _as_it_is(row: Row) -> Row:
    return row


def answer_list(
    rows: Iterable[Row],
    wanted: Wanted,
    finish: Callable[[Row], Row] = _as_it_is,
    names: tuple[tuple[str, ...], ...] = (_NAME,),
) -> JsonValue:
    """The array, or the page with its counts. `finish` makes what is shown of a row: of all before they are sorted by
    what only it adds, else of those alone that are shown. names: dotted paths, one of which has to fit a filter."""
    found = list(rows)
    if wanted.sort and found and wanted.sort[0] not in found[0]:
        found, finish = [finish(row) for row in found], _as_it_is
    if wanted.page is None:
        return [cut(finish(row), wanted.columns) for row in _sorted(found, wanted)]
    matches = wanted.matches
    filtered = found
    if matches is not None:
        filtered = [row for row in found if any(matches(str(value_at(row, path) or "")) for path in names)]
    ordered = _sorted(filtered, wanted)
    start = (wanted.page - 1) * wanted.page_size
    items = ordered[start : start + wanted.page_size]
    return answer_page(items, len(filtered), len(found), wanted, finish)


def answer_page(items: list[Row], filtered: int, total: int, wanted: Wanted, finish: Callable[[Row], Row]) -> JsonValue:
    """One page of so many rows. Raises ApiError where it is behind the last."""
    pages, page = max(1, -(-filtered // wanted.page_size)), wanted.page or 1
    if page > pages:
        raise bad_request(f"page_out_of_range: page {page} was asked for, and there are {pages} of {wanted.page_size}")
    return {
        "filtered_count": filtered,
        "item_count": len(items),
        "items": [cut(finish(row), wanted.columns) for row in items],
        "page": page,
        "page_count": pages,
        "page_size": wanted.page_size,
        "total_count": total,
    }


def cut(row: Row, columns: Columns) -> Row:
    """Only these columns, nested as they were; all of them where none are named."""
    return _cut_object(row, columns) if columns else row


def _cut_object(row: Mapping[str, JsonValue], columns: Columns) -> Row:
    return {name: _cut_value(row[name], inner) for name, inner in columns.items() if name in row}


def _cut_value(value: JsonValue, columns: Columns | None) -> JsonValue:
    """Of a list what each in it has of them, as RabbitMQ does it; what has nothing in it is shown as it is."""
    if columns is None:
        return value
    if isinstance(value, list):
        return [_cut_value(each, columns) for each in value]
    return _cut_object(value, columns) if isinstance(value, Mapping) else value


def value_at(row: JsonValue, path: tuple[str, ...]) -> JsonValue:
    """What lies at a dotted path; None where nothing does."""
    for part in path:
        if not isinstance(row, Mapping):
            return None
        row = row.get(part)
    return row


def _sorted(rows: list[Row], wanted: Wanted) -> list[Row]:
    """By vhost and name unless something else is asked for; `sort=` leaves them as they came."""
    path = wanted.sort
    if path == ():
        return rows[::-1] if wanted.is_reversed else rows
    if path is None:
        return sorted(
            rows, key=lambda row: (str(row.get("vhost", "")), str(row.get("name", ""))), reverse=wanted.is_reversed
        )
    return sorted(rows, key=lambda row: _rank(value_at(row, path)), reverse=wanted.is_reversed)


def _rank(value: JsonValue) -> tuple[int, JsonValue]:
    """Values of different types have an order, too: nothing, numbers, texts, the rest."""
    if value is None:
        return (0, 0)
    if isinstance(value, (bool, int, float)):
        return (1, value)
    return (2, value) if isinstance(value, str) else (3, repr(value))


def _number(query: Mapping[str, str], key: str) -> int | None:
    text = query.get(key)
    if text is None:
        return None
    if not _WHOLE_NUMBER.fullmatch(text):
        raise _invalid_pagination()
    return int(text)


def _invalid_pagination() -> Exception:
    return bad_request(
        f"invalid_pagination_parameters: page is a number from 1, page_size one from 1 to {MAX_PAGE_SIZE}"
    )


def _name_test(query: Mapping[str, str]) -> Callable[[str], bool] | None:
    part = query.get("name", "")
    if not part:
        return None
    if query.get("use_regex") != "true":
        lowered = part.lower()
        return lambda name: lowered in name.lower()
    return _TimedSearch(safe_pattern(part))


class _TimedSearch:
    """Whether names match, as long as that takes no longer than a moment for all of them together."""

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self._pattern = pattern
        self._until = time.monotonic() + _MATCH_S

    def __call__(self, name: str) -> bool:
        if time.monotonic() > self._until:
            raise bad_request(f"regex '{self._pattern.pattern}' takes over {_MATCH_S:.0f} s; write a simpler one")
        return self._pattern.search(name) is not None


def safe_pattern(text: str) -> re.Pattern[str]:
    """A regex that is done soon with any name: no repetition of what itself repeats or has alternatives, no
    look-around, no back reference, few repetitions. Raises ApiError."""
    if len(text) > MAX_PATTERN_CHARACTERS:
        raise bad_request(f"a regex has at most {MAX_PATTERN_CHARACTERS} characters, not {len(text)}")
    reason = _danger(text)
    if reason:
        raise bad_request(f"regex '{text}' is not accepted: {reason}")
    try:
        return re.compile(text, re.IGNORECASE)
    except (re.error, RecursionError, OverflowError) as error:
        raise bad_request(f"regex '{text}' is not valid: {error}") from None


#: A name has at most 255 octets, and each repetition may try all of its lengths: so many doublings of the work. As many
#: for where it begins, unless that is said. And so many are borne altogether: a part of a second for one name.
_REPETITION_BITS: Final = 8
_MOST_BITS: Final = 26
_REPETITIONS: Final = ("*", "+", "{")


def _danger(text: str) -> str:
    """What makes a regex slow with some name, in words; nothing where nothing does."""
    if "(?" in text.replace("(?:", "").replace("(?i)", "") or re.search(r"\\[1-9]", text):
        return "it looks around or back"
    tokens = _INSIDE_GROUP.findall(text.replace("(?:", "(").replace("(?i)", ""))
    groups: list[bool] = []
    bits = 0 if text.startswith("^") else _REPETITION_BITS
    for index, token in enumerate(tokens):
        following = tokens[index + 1] if index + 1 < len(tokens) else ""
        if token == "(":
            groups.append(False)
        elif token == ")":
            repeats = groups.pop() if groups else False
            if following in _REPETITIONS and repeats:
                return "it repeats what repeats or has alternatives; write one repetition"
            if groups:
                groups[-1] = groups[-1] or repeats or following in _REPETITIONS
        elif token in (*_REPETITIONS, "|", "?"):
            is_lazy = token == "?" and index > 0 and tokens[index - 1] in (*_REPETITIONS, "}", "?")
            bits += _REPETITION_BITS if token in _REPETITIONS else 0 if is_lazy else 1
            if groups:
                groups[-1] = True
    return "it has too many repetitions; begin it with ^, or repeat less" if bits > _MOST_BITS else ""

"""docs/compatibility.md is what `python -m tests.docs.compatibility_page` writes, and covers the protocol."""

from __future__ import annotations

from functools import cache

from amqp_broker.channel.handlers import HANDLERS
from amqp_broker.protocol.grammar import METHODS
from tests.docs import compatibility_page
from tests.docs.compatibility_page import MARKER, PAGE, Row
from tests.docs.source_names import PACKAGES, ROOT

#: Methods of which nothing can be said but that they are passed over.
SILENT = {"channel.flow-ok"}


@cache
def rows() -> tuple[Row, ...]:
    return tuple(compatibility_page.collected())


def test_the_page_is_current() -> None:
    page = PAGE.read_text(encoding="utf-8")
    wanted = compatibility_page.generated(list(rows()))
    assert page.partition(MARKER)[2] == wanted, "run `python -m tests.docs.compatibility_page`"


def test_every_method_that_a_client_may_send_has_a_test() -> None:
    named = {name for row in rows() for name in compatibility_page.methods_named_by(row)}
    handled = {method.name for method in METHODS if method.index in HANDLERS}
    handled |= {"basic.publish", "channel.open", "connection.start-ok", "connection.tune-ok", "connection.open"}
    assert sorted(handled - named - SILENT) == []


def test_every_queue_argument_is_in_the_page() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert [name for name in compatibility_page.argument_names() if f"| `{name}` |" not in page] == []


def test_every_code_that_is_sent_is_seen_by_a_test() -> None:
    assert "no test provokes it" not in "\n".join(compatibility_page.errors_table(list(rows())))


def test_what_has_no_effect_is_asked_for_nowhere() -> None:
    """But where arguments are checked, all of them, whatever their names."""
    files = [file for package in PACKAGES for file in sorted((ROOT / package).rglob("*.py"))]
    source = "".join(file.read_text(encoding="utf-8") for file in files)
    said = [name for name in compatibility_page.argument_names() if "no effect" in compatibility_page.use_of(name)]
    assert said
    assert [name for name in said if f'.get("{name}"' in source] == []


def test_a_behaviour_with_several_methods_names_each() -> None:
    row = Row("basic.ack, nack, reject: unknown delivery tag -> 406", "a test", "")
    assert compatibility_page.methods_named_by(row) == ["basic.ack", "basic.nack", "basic.reject"]

"""The man page is what the command says of itself."""

from __future__ import annotations

import click

from amqp_broker.cli.main import command
from tests.docs import man_page


def test_the_man_page_is_current() -> None:
    assert man_page.PAGE.read_text(encoding="utf-8") == man_page.page(), "run `make docs`"


def test_every_command_is_in_it() -> None:
    text = man_page.page()
    for name in command.list_commands(click.Context(command)):
        assert f"\n.SS amqp\\-broker {man_page.escaped(name)} " in text


def test_nothing_of_it_is_taken_for_a_request() -> None:
    requests = (".SS ", ".TP", ".B ", ".PP", ".SH ", ".TH ", ".I ", ".BR ", '.\\"')
    for line in man_page.page().splitlines():
        assert not line.startswith("'")
        assert not line.startswith(".") or line.startswith(requests), line
    assert man_page.escaped(".5\\n") == "\\&.5\\en"

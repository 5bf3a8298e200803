"""The table for those who know rabbitmqctl: each command of ours in it is one that there is, and none is missing."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import click

from amqp_broker.cli.main import command
from tests.docs.source_names import DOCS
from tests.docs.test_generated_tables import check

#: What nobody looks for who comes from rabbitmqctl.
OTHERS = {"bench", "consumer", "drain", "management", "size"}


def rows() -> list[tuple[str, str]]:
    page = (DOCS / "operations.md").read_text(encoding="utf-8")
    section = page.partition("### Instead of rabbitmqctl\n")[2].partition("\n## ")[0]
    found = re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", section, re.MULTILINE)
    assert found[0] == ("RabbitMQ", "here")
    return found[1:]


def ours(text: str) -> Iterator[list[str]]:
    """The arguments of each amqp-broker in a cell."""
    for code in re.findall(r"`([^`]+)`", text):
        words = shlex.split(code)
        if words[0] == "amqp-broker":
            yield words[1:]


def test_every_command_in_the_table_exists() -> None:
    for theirs, here in rows():
        found = list(ours(here))
        assert found or here.startswith("none: "), f"{theirs}: name what there is, or say why there is nothing"
        for words in found:
            check(command, words, f"the row of {theirs}")


def test_a_command_ends_at_a_command() -> None:
    """`amqp-broker user` alone would say nothing."""
    for theirs, here in rows():
        for words in ours(here):
            group: click.Command = command
            while isinstance(group, click.Group) and words and not words[0].startswith("-"):
                following = group.get_command(click.Context(group), words[0])
                assert following is not None
                group, words = following, words[1:]
            assert not isinstance(group, click.Group) or words == ["--version"], f"{theirs}: {here}"
            required = [each for each in group.params if isinstance(each, click.Argument) and each.required]
            given = [word for word in words if not word.startswith("-")]
            assert group.name in ("join", "rejoin", "restore") or len(given) >= len(required), f"{theirs}: {here}"


def test_every_noun_is_in_the_table() -> None:
    named = {words[0] for _, here in rows() for words in ours(here)}
    assert named - {"--version"} == set(command.list_commands(click.Context(command))) - OTHERS


def test_no_command_of_theirs_stands_twice() -> None:
    named = [
        each.strip() for theirs, _ in rows() for each in theirs.replace("diagnostics: ", "").split(",")
    ]
    assert {each for each in named if named.count(each) > 1} <= {"check_if_node_is_quorum_critical"}

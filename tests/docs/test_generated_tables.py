"""What pages list is what the code has: tables of the handbook, the table of imports; and their examples can be run."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from amqp_broker.cli.main import command
from amqp_broker.vhosts.policies import targets
from storage.folder_format import FORMAT_VERSION, OLDEST_VERSION
from tests.docs import architecture_page, cluster_links_page, operations_page
from tests.docs.blocks import PAGES, blocks_of
from tests.docs.source_names import DOCS, ROOT, code_of


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def test_the_tables_of_the_handbook_are_current() -> None:
    """Statistics, queue.list, loggers: what the code has, and no other."""
    page = operations_page.PAGE.read_text(encoding="utf-8")
    assert page == operations_page.written(page), "run `make docs`"


def test_the_table_of_frames_between_nodes_is_current() -> None:
    page = cluster_links_page.PAGE.read_text(encoding="utf-8")
    assert page == cluster_links_page.written(page), "run `make docs`"


def test_a_field_without_a_meaning_is_an_error() -> None:
    known = dict(operations_page.STATISTICS)
    del known["unroutable"]
    with pytest.raises(ValueError, match="unroutable"):
        operations_page.meanings(operations_page.statistics_fields(), known)


def test_a_table_without_its_markers_is_an_error() -> None:
    page = operations_page.PAGE.read_text(encoding="utf-8")
    with pytest.raises(ValueError, match="loggers"):
        operations_page.written(page.replace("<!-- end of loggers -->", ""))


def test_the_table_of_imports_is_that_of_the_test() -> None:
    page = architecture_page.PAGE.read_text(encoding="utf-8")
    assert page == architecture_page.written(page), "run `make docs`"


def blocks(page: Path, language: str) -> list[str]:
    return [block.text for block in blocks_of(page) if block.language == language]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_python_in_a_page_is_python(page: Path) -> None:
    for text in blocks(page, "python"):
        compile(text, name_of(page), "exec", dont_inherit=True)


def commands_in(page: Path) -> list[list[str]]:
    """The arguments of every amqp-broker in a block of shell, and of those in a text."""
    lines = [line for block in blocks(page, "sh") for line in block.replace("\\\n", " ").splitlines()]
    lines += [code for code in code_of(page.read_text(encoding="utf-8")) if code.startswith("amqp-broker ")]
    found = []
    for line in lines:
        words = shlex.split(line, comments=True)
        for index, word in enumerate(words):
            if word.endswith("amqp-broker") and (index == 0 or words[index - 1] in ("|", "&&", "exec")):
                rest = words[index + 1 :]
                ends = [place for place, each in enumerate(rest) if each in ("|", "&", "&&", ">", ">>", "<", ";")]
                found.append(rest[: ends[0]] if ends else rest)
    return found


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_command_in_a_page_has_flags_that_exist(page: Path) -> None:
    for words in commands_in(page):
        check(command, words, name_of(page))


def check(group: click.Command, words: list[str], page: str) -> None:
    """Every subcommand and every flag is one that there is."""
    context = click.Context(group)
    while isinstance(group, click.Group) and words and not words[0].startswith("-") and not words[0].isupper():
        found = group.get_command(context, words[0])
        assert found is not None, f"{page}: there is no `amqp-broker {words[0]}`"
        group, words, context = found, words[1:], click.Context(found)
    known = {option for parameter in group.params for option in (*parameter.opts, *parameter.secondary_opts)}
    for word in words:
        flag = word.partition("=")[0]
        if flag.startswith("--") and flag != "--help":
            assert flag in known, f"{page}: `amqp-broker {group.name}` has no {flag}"


def test_the_version_of_the_format_is_the_present_one() -> None:
    page = (DOCS / "operations.md").read_text(encoding="utf-8")
    assert f"and this broker reads {OLDEST_VERSION} to {FORMAT_VERSION}: ...`" in page
    assert f"the version of the folder's format, which is {FORMAT_VERSION}," in page


def test_a_policy_may_apply_to_what_the_page_says() -> None:
    page = (DOCS / "operations.md").read_text(encoding="utf-8")
    row = next(line for line in page.splitlines() if line.startswith("| `policy.put` |"))
    assert {f"`{kind}`" for kind in targets()} <= set(re.findall(r"`\w+`", row))

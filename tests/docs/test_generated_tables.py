"""What pages list is what the code has: statistics, loggers, the table of imports; and their examples can be run."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from amqp_broker.cli.main import command
from amqp_broker.policies import _APPLY_TO
from amqp_broker.statistics import node_statistics
from storage.folder_format import FORMAT_VERSION
from tests.docs.source_names import DOCS, PACKAGES, ROOT
from tests.house import test_imports
from tests.node.node_driver import NodeDriver

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def table_under(heading: str) -> list[str]:
    """The first column of the first table below a line of docs/operations.md."""
    page = (DOCS / "operations.md").read_text(encoding="utf-8")
    _, _, rest = page.partition(heading)
    rows = re.findall(r"^\|(.*?)\|", rest.split("\n\n| message |")[0].split("\n## ")[0], re.MULTILINE)
    return [name for row in rows for name in re.findall(r"`([a-z_.]+)`", row)]


def test_every_statistic_is_in_the_page() -> None:
    """And no other."""
    assert sorted(table_under("| field of `statistics` |")) == sorted(node_statistics(NodeDriver().node))


def test_every_logger_is_in_the_page() -> None:
    found: set[str] = set()
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            found |= set(re.findall(r'getLogger\("([^"]+)"\)', path.read_text(encoding="utf-8")))
    assert sorted(table_under("| logger |")) == sorted(found)


def test_the_table_of_imports_is_that_of_the_test() -> None:
    text = test_imports.__doc__ or ""
    lines = text[text.index("    octets  ") : text.index("Everybody may import the standard")].rstrip().splitlines()
    page = (DOCS / "architecture.md").read_text(encoding="utf-8")
    assert "\n".join(["```", *(line[4:] for line in lines), "```"]) in page


def blocks(page: Path, language: str) -> list[str]:
    return [text for name, text in _BLOCK.findall(page.read_text(encoding="utf-8")) if name == language]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_python_in_a_page_is_python(page: Path) -> None:
    for text in blocks(page, "python"):
        compile(text, name_of(page), "exec", dont_inherit=True)


def commands_in(page: Path) -> list[list[str]]:
    """The arguments of every amqp-broker in a block of shell."""
    lines = [line for block in blocks(page, "sh") for line in block.replace("\\\n", " ").splitlines()]
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
    while isinstance(group, click.Group) and words and not words[0].startswith("-"):
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
    assert f"and this broker reads {FORMAT_VERSION}`" in page
    assert f"the version of the folder's format, which is {FORMAT_VERSION}," in page


def test_a_policy_may_apply_to_what_the_page_says() -> None:
    page = (DOCS / "operations.md").read_text(encoding="utf-8")
    row = next(line for line in page.splitlines() if line.startswith("| `policy.put` |"))
    assert {f"`{kind}`" for kind in _APPLY_TO} <= set(re.findall(r"`\w+`", row))

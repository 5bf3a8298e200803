"""The glossary: each term once, in order, and what it names is there."""

from __future__ import annotations

import re

import pytest

from tests.docs.source_names import DOCS, PACKAGES, ROOT, SourceNames, read_sources

pytestmark = pytest.mark.xdist_group("house")  # see read_sources
_ROW = re.compile(r"^\| ([a-z][\w -]*) \| (.+) \| (.+) \|$", re.MULTILINE)
_CODE = re.compile(r"`([^`]+)`")


@pytest.fixture
def sources() -> SourceNames:
    return read_sources()


def sections() -> list[list[tuple[str, str, str]]]:
    """The rows of each table."""
    text = (DOCS / "glossary.md").read_text(encoding="utf-8")
    rows = [_ROW.findall(section) for section in text.split("\n## ")[1:]]
    return [[row for row in each if row[0] != "term"] for each in rows]


def is_there(name: str, sources: SourceNames) -> bool:
    """Whether a class, a member of one, a package or a module has this name."""
    owner, _, member = name.partition(".")
    if member == "py":
        return any(True for package in PACKAGES for _ in (ROOT / package).rglob(name))
    if member:
        return sources.has_member(owner, member)
    return owner in sources.members or (ROOT / owner).is_dir()


def test_each_term_stands_once_and_in_order() -> None:
    terms = [[row[0] for row in section] for section in sections()]
    assert len(terms) >= 4
    for section in terms:
        assert section == sorted(section)
    every = [term for section in terms for term in section]
    assert len(every) == len(set(every)) > 40


def test_what_the_glossary_names_is_in_the_code(sources: SourceNames) -> None:
    missing = [
        (term, name)
        for section in sections()
        for term, _, code in section
        for name in _CODE.findall(code)
        if not is_there(name, sources)
    ]
    assert not missing
    assert all(_CODE.search(code) for section in sections() for _, _, code in section)


def test_the_check_notices_what_is_not_there(sources: SourceNames) -> None:
    assert is_there("Entry", sources)
    assert not is_there("Entree", sources)
    assert not is_there("ClassicQueue.digest_of_nothing", sources)

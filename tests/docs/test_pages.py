"""The pages in docs/ name what exists: classes, methods, functions, files, settings, verbs and links."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from amqp_broker.leases.service import VERBS as LEASE_VERBS
from amqp_broker.leases.stream_reads import READS
from amqp_broker.leases.transactions import VERBS as TXN_VERBS
from amqp_broker.metadata.commands import FIELDS as COMMANDS
from amqp_broker.node import PARTS
from amqp_broker.protocol import methods
from amqp_broker.settings.config import SETTINGS, SETTINGS_BY_KEY
from tests.docs.operations_page import LOGGERS
from tests.docs.source_names import DOCS, ROOT, code_of, read_sources

pytestmark = pytest.mark.xdist_group("house")  # see read_sources
#: These two are written by programs, from what exists.
GENERATED = ("compatibility.md", "configuration.md")
PAGES = sorted(path for path in DOCS.rglob("*.md") if path.name not in GENERATED)
WITH_FILES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *PAGES, DOCS / "compatibility.md"]
DECISIONS = sorted((DOCS / "decisions").glob("*.md"))
#: Words in code that are names of other programs' things.
FOREIGN = {
    "aio_pika.connect", "aio_pika.connect_robust", "cython.compiled", "export_definitions",
    "bash_source", "fish_source", "zsh_source", "method.delivery_tag", "properties.headers",
}  # fmt: skip
#: What the variables in the examples are.
VARIABLES = {
    "broker": "RunningBroker",
    "amqp_broker": "BrokerForTest",
    "client": "SystemClient",
    "cluster": "RunningCluster",
}

#: The pages that say how an attribute is named.
SAID_WITH_THEIR_UNIT = {
    "CONTRIBUTING.md": {"page_size_bytes"},
    "0010-settings.md": {"heartbeat_ms"},
    "embedding.md": {"heartbeat_ms"},
}

_MEMBER = re.compile(r"(?<![\w./])([A-Z]\w*)\.(\w+)")
_DOTTED = re.compile(r"(?<![\w./:@-])([a-z_]+)\.([a-z_][a-z_-]*)(?![\w./(-])")
_FOLDERS = (
    "amqp_broker|examples|exchanges|queues|raft|storage|spark_connector|tests|docs|benchmarks|interop_tests|packaging"
)
_FILE = re.compile(rf"(?<![\w/.])((?:{_FOLDERS})/[\w./-]*\w)")
_EXAMPLE = re.compile(r"NN|my_type|/_core")  # names of what somebody may make, or only a wheel has
_LINK = re.compile(r"\]\(([^)#]+)(?:#[^)]*)?\)")
_SUFFIXES = ("py", "pxd", "md", "toml", "json", "log", "seg", "so", "pem", "yml", "yaml", "service", "d", "zip")


def name_of(path: Path) -> str:
    return str(path.relative_to(DOCS))


@cache
def verbs() -> tuple[str, ...]:
    """The verbs of amq.system."""
    folder = ROOT / "amqp_broker" / "management"
    files = [folder / "totals.py", *sorted((folder / "verbs").glob("*.py")), folder / "objects" / "pages.py"]
    text = "".join(file.read_text(encoding="utf-8") for file in files)
    return tuple(re.findall(r'^(?: {12}| {8}self\.verbs: .* = \{)"([a-z_.]+)": self\._\w+[,}]', text, re.MULTILINE))


def is_known(left: str, right: str) -> bool:
    """Whether `left.right` is a method of AMQP, a verb, a command of the metadata, a function, or a file."""
    name = f"{left}.{right}"
    return (
        name in methods.METHODS_BY_NAME
        or name in (*verbs(), *LEASE_VERBS, *TXN_VERBS, *READS)
        or name in COMMANDS
        or name in FOREIGN
        or right in _SUFFIXES
        or right in read_sources().functions.get(left, ())
        or name in (*LOGGERS, *PARTS)
        or (left == "amqp_broker" and (ROOT / "amqp_broker" / right).is_dir())
        or (ROOT / left / f"{right}.py").is_file()
        or (left == "tests" and (ROOT / "tests" / right / "__main__.py").is_file())
        or (left == "benchmarks" and (ROOT / "benchmarks" / f"{right}.py").is_file())
        or (left == "amqp_broker" and right in ("running", "running_cluster", "system_client"))
        or (left in VARIABLES and read_sources().has_member(VARIABLES[left], right))
        or left == "amq"
    )


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_member_that_a_page_names_exists(page: Path) -> None:
    found = _MEMBER.findall(page.read_text(encoding="utf-8"))
    names = [(left, right) for left, right in found if left in read_sources().members]
    missing = [f"{left}.{right}" for left, right in names if not read_sources().has_member(left, right)]
    assert not missing, f"{page.name} names what is not there: {', '.join(missing)}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_dotted_name_in_code_exists(page: Path) -> None:
    found = [pair for code in code_of(page.read_text(encoding="utf-8")) for pair in _DOTTED.findall(code)]
    missing = sorted({f"{left}.{right}" for left, right in found if not is_known(left, right)})
    assert not missing, f"{page.name} names what is not there: {', '.join(missing)}"


@pytest.mark.parametrize("page", WITH_FILES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_file_that_a_page_names_exists(page: Path) -> None:
    found = [file for code in code_of(page.read_text(encoding="utf-8")) for file in _FILE.findall(code)]
    missing = sorted({file for file in found if not _EXAMPLE.search(file) and not (ROOT / file).exists()})
    assert not missing, f"{page.name} names files that are not there: {', '.join(missing)}"


@pytest.mark.parametrize("page", [*PAGES, DOCS / "compatibility.md"], ids=name_of)
def test_every_link_leads_somewhere(page: Path) -> None:
    links = [link for link in _LINK.findall(page.read_text(encoding="utf-8")) if "://" not in link]
    broken = [link for link in links if not (page.parent / link).exists()]
    assert not broken, f"{page.name}: {', '.join(broken)}"


def test_every_setting_and_field_that_operations_names_exists() -> None:
    words = {
        word
        for code in code_of((DOCS / "operations.md").read_text(encoding="utf-8"))
        for word in re.findall(r"(?<![\w.-])[a-z]+(?:_[a-z]+)+(?![\w.-])", code)
    }
    known = read_sources().words | set(SETTINGS_BY_KEY) | FOREIGN
    unknown = sorted(word for word in words if word not in known and f"is_{word}" not in known)
    assert not unknown, f"operations.md: {', '.join(unknown)}"
    assert len(words & set(SETTINGS_BY_KEY)) > 20


@pytest.mark.parametrize("page", WITH_FILES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_names_settings_as_a_file_of_settings_does(page: Path) -> None:
    """Their attributes, which say the unit, are for programs that embed a broker."""
    attributes = {each.attribute for each in SETTINGS} - set(SETTINGS_BY_KEY)
    words = {word for code in code_of(page.read_text(encoding="utf-8")) for word in re.findall(r"\b[a-z_]+\b", code)}
    assert sorted(words & attributes - SAID_WITH_THEIR_UNIT.get(page.name, set())) == []


@pytest.mark.parametrize(("name", "heading"), [("operations", "Limits and defaults"), ("management", "Settings")])
def test_a_default_that_a_page_repeats_is_that_of_the_setting(name: str, heading: str) -> None:
    section = (DOCS / f"{name}.md").read_text(encoding="utf-8").partition(f"## {heading}\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.+?) \| (.*?) \|", section, re.MULTILINE)
    assert len(rows) > 4
    for names, said in rows:
        for key in re.findall(r"`(\w+)`", names):
            default = SETTINGS_BY_KEY[key].default_text.partition(",")[0].replace("1min", "60s")
            assert re.sub(r"[ ,`]", "", default) in re.sub(r"[ ,`]", "", said), f"{name}.md: {key} is {default}"


def test_operations_lists_every_verb_and_no_other() -> None:
    page = (DOCS / "operations.md").read_text(encoding="utf-8")
    section = page.partition("## The admin service")[2].partition("\n## ")[0]
    listed = re.findall(r"^\| `([a-z_]+(?:\.[a-z_]+)?)` \|", section, re.MULTILINE)
    assert len(verbs()) > 10
    assert sorted(listed) == sorted(verbs())


@pytest.mark.parametrize("page", DECISIONS, ids=name_of)
def test_a_decision_record_is_one_page_of_three_parts(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == ["Context", "Decision", "Consequences"]
    assert text.startswith(f"# {page.name[:4]} ")
    assert len(text.splitlines()) <= 70


def test_decision_records_are_numbered_without_gaps() -> None:
    numbers = [int(page.name[:4]) for page in DECISIONS]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) >= 11

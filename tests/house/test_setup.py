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

#: One worker of a parallel run has them, and compiles once.
pytestmark = pytest.mark.xdist_group("setup")
ROOT = Path(__file__).parents[2]
SUFFIX = EXTENSION_SUFFIXES[0]
#: Three hot modules of a few lines, compiled in a moment. One is in a package of the core: what that is called
#: by is not where a wheel has it.
HOT = ("amqp_broker/octets/buffer", "amqp_broker/octets/index", "queues/place")
HOT_SOURCE = "class Place:\n    def number(self):\n        return 7\n"
HOT_TYPES = "cdef class Place:\n    cpdef number(self)\n"
GIVES_UP_AT_INDEX = """#!/bin/sh
case "$*" in *index.c*) echo "index.c: fatal error: no more" >&2; exit 1;; esac
exec cc "$@"
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The project with these modules and no more."""
    folder = tmp_path / "checkout"
    write_checkout(folder)
    return folder


def write_checkout(folder: Path) -> None:
    for module in HOT:
        source = folder / f"{module}.py"
        source.parent.mkdir(parents=True, exist_ok=True)
        source.write_text(HOT_SOURCE)
        source.with_suffix(".pxd").write_text(HOT_TYPES)
        for name in ("__init__.py", "py.typed"):
            (source.parent / name).touch()
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE", "pyspark_amqp.py"):
        shutil.copy(ROOT / name, folder / name)
    for name in ("amqp_broker/__init__.py", "amqp_broker/version.py"):
        shutil.copy(ROOT / name, folder / name)
    for name in ("docs/man", "packaging"):  # what a wheel has besides modules
        shutil.copytree(ROOT / name, folder / name)


@pytest.fixture(scope="module")
def built_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One that was compiled in place."""
    folder = tmp_path_factory.mktemp("built") / "checkout"
    write_checkout(folder)
    done = in_place(folder)
    assert done.returncode == 0, done.stderr
    if reason(folder):
        pytest.skip(reason(folder))
    return folder


@pytest.fixture
def built(built_once: Path, tmp_path: Path) -> Path:
    """A copy of it, with the times of its files, by which a build knows what has changed."""
    folder = tmp_path / "built"
    shutil.copytree(built_once, folder)
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
    variables = {name: value for name, value in os.environ.items() if name not in unset}
    variables |= {"BUILD_OPTIMISATION": "-O0", **environment}
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


def test_it_shows_how_far_it_is_and_no_warnings(built: Path) -> None:
    shutil.rmtree(built / "build")
    (built / "amqp_broker" / "octets" / f"index{SUFFIX}").unlink()
    done = in_place(built)
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


def test_what_was_compiled_earlier_does_not_stay(built: Path) -> None:
    done = in_place(built, CC="/bin/false")
    assert done.returncode == 0, done.stderr
    assert compiled(built) == [], "they would run instead of sources that may be newer"
    assert "the 3 modules that were compiled before are removed" in done.stderr


def test_what_was_compiled_of_a_module_that_is_gone_does_not_stay(built: Path) -> None:
    for path in (built / "queues").glob("place.p*"):
        path.unlink()
    done = in_place(built)
    assert done.returncode == 0, done.stderr
    assert compiled(built) == ["buffer", "index"], "it would still be found under its name"


def test_a_compiler_that_fails_half_way_leaves_it_plain(built: Path, giving_up: Path) -> None:
    os.utime(built / "amqp_broker" / "octets" / "index.py")
    done = in_place(built, CC=str(giving_up))
    assert done.returncode == 0, done.stderr
    assert "compiler fails at amqp_broker.octets.index" in done.stderr
    assert compiled(built) == []


def test_it_can_be_an_error(checkout: Path) -> None:
    done = in_place(checkout, CC="/bin/false", AMQP_BROKER_REQUIRE_COMPILED="1")
    assert done.returncode == 1
    assert "AMQP_BROKER_REQUIRE_COMPILED" in done.stderr


@pytest.mark.parametrize("how", ["works", "fails", "gives up"])
def test_a_wheel_is_made_of_all_or_none(how: str, built: Path, giving_up: Path) -> None:
    os.utime(built / "amqp_broker" / "octets" / "index.py")
    compiler = {"works": {}, "fails": {"CC": "/bin/false"}, "gives up": {"CC": str(giving_up)}}[how]
    flags = ["--no-build-isolation", "--no-deps", "--disable-pip-version-check", "--wheel-dir", "wheels", "."]
    done = build(built, "-m", "pip", "wheel", *flags, **compiler)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = (built / "wheels").iterdir()
    # Where compiling failed half way, the wheel is still one for this machine; what is not lies in a folder of it then.
    names = [re.sub(r"^warrenmq-[^/]*\.data/purelib/", "", name) for name in zipfile.ZipFile(wheel).namelist()]
    modules = sorted(name.removesuffix(SUFFIX) for name in names if name.endswith(SUFFIX))
    hot = ["amqp_broker/_core/queues/place", "amqp_broker/octets/buffer", "amqp_broker/octets/index"]
    assert modules == (hot if how == "works" else [])
    assert {"amqp_broker/_core/queues/py.typed", "amqp_broker/octets/py.typed"} <= {*names}, "type checkers look for it"
    tops = {name.partition("/")[0] for name in names if ".dist-info/" not in name and ".data/data/share/" not in name}
    assert tops == {"amqp_broker", "pyspark_amqp.py"}, "other names are other people's"


@pytest.mark.long
def test_what_was_built_for_the_checkout_does_not_get_into_a_wheel(built: Path) -> None:
    flags = ["--no-build-isolation", "--no-deps", "--disable-pip-version-check", "--wheel-dir", "wheels", "."]
    wheels = built / "wheels"
    for later in (False, True):
        if later:
            (built / "queues" / "place.py").rename(built / "queues" / "position.py")
            (built / "queues" / "place.pxd").rename(built / "queues" / "position.pxd")
            shutil.rmtree(wheels)
        done = build(built, "-m", "pip", "wheel", *flags)
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

"""Builds the hot modules: every .py with a sibling .pxd is compiled with Cython from the very same file.

All of them or none: compiled modules call each other in C. Only what has changed is compiled again, on two
cores. Without a C compiler or Python's headers the plain modules run, and one line says so and what to
install; AMQP_BROKER_REQUIRE_COMPILED makes that an error. What was done is written to build/compiled.json.
With AMQP_BROKER_NO_COMPILE set, compiling is left for later and nothing is written; BUILD_OPTIMISATION is
the compiler's flag for how far to go.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
import sysconfig
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import BaseError

ROOT = Path(__file__).parent
PACKAGES = ("octets", "exchanges", "queues", "storage", "raft", "amqp_broker", "spark_connector")
RECORD = ROOT / "build" / "compiled.json"
CORES = 2

DIRECTIVES = {
    "language_level": 3,
    "annotation_typing": False,  # C types are declared in the .pxd alone
    "initializedcheck": False,
    "cdivision": True,
    "binding": False,
}
#: -O1 takes two thirds of the time, for what need not be fast: it costs 4 to 5 % more instructions a message.
OPTIMISATION = os.environ.get("BUILD_OPTIMISATION", "-O2")
FLAGS = [OPTIMISATION, "-g0", "-fno-strict-aliasing", "-w"]  # without debug information it takes a quarter less


def hot_modules() -> list[Path]:
    """Every module with a .pxd beside it, in a fixed order."""
    found = (path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.pxd")))
    return [path.with_suffix(".py").relative_to(ROOT) for path in found]


def why_plain() -> str:
    """What keeps this machine from compiling, with the way out; an empty text if nothing does."""
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")[0]
    if shutil.which(compiler) is None:
        return f"there is no C compiler ({compiler}); on Debian and Ubuntu: apt-get install gcc libc6-dev"
    header = Path(sysconfig.get_path("include"), "Python.h")
    if not header.exists():
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        return f"there is no {header}; on Debian and Ubuntu: apt-get install python{version}-dev"
    try:
        import Cython.Build  # noqa: F401
    except ImportError:
        return "Cython is not installed; pip install cython"
    return ""


def record(compiled: list[str], reason: str) -> None:
    """Notes what was done, and tells the user if the slower plain modules are going to run."""
    if reason:
        print(f"amqp-broker: the hot modules stay plain Python (slower): {reason}", file=sys.stderr)
        if os.environ.get("AMQP_BROKER_REQUIRE_COMPILED"):
            raise SystemExit("amqp-broker: AMQP_BROKER_REQUIRE_COMPILED is set, but nothing was compiled")
    RECORD.parent.mkdir(exist_ok=True)
    RECORD.write_text(json.dumps({"python": sys.version.split()[0], "compiled": compiled, "reason": reason}) + "\n")


class AllOrNone(build_ext):
    """Compiles every hot module; if one fails, none is put beside its source."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.parallel = self.parallel or CORES

    def run(self) -> None:
        if not self.extensions:
            return  # `extensions` has told why
        try:
            super().run()
        except (BaseError, OSError) as error:
            record([], f"compiling failed: {' '.join(str(error).split())}")
        else:
            record([extension.name for extension in self.extensions], "")


def extensions() -> list[Extension]:
    """The extensions to build, translated to C as far as they have changed; none where none can be built."""
    if os.environ.get("AMQP_BROKER_NO_COMPILE"):
        return []
    reason = why_plain()
    if reason:
        record([], reason)
        return []
    from Cython.Build import cythonize
    from Cython.Compiler.Errors import CompileError

    modules = [
        Extension(".".join(path.with_suffix("").parts), [str(path)], extra_compile_args=FLAGS) for path in hot_modules()
    ]
    try:
        return list(
            cythonize(modules, compiler_directives=DIRECTIVES, build_dir="build/cython", nthreads=CORES, quiet=True)
        )
    except CompileError as error:
        record([], f"translating to C failed: {' '.join(str(error).split())}")
        return []


if __name__ == "__main__":
    setup(
        ext_modules=extensions() if {"build_ext", "editable_wheel", "bdist_wheel"} & set(sys.argv) else [],
        cmdclass={"build_ext": AllOrNone},
    )

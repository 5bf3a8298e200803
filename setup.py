"""Builds the hot modules: every .py with a sibling .pxd is compiled with Cython from the very same file.

Without a C compiler, or with AMQP_BROKER_NO_COMPILE set, nothing is compiled and the plain modules run.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import BaseError

ROOT = Path(__file__).parent
PACKAGES = ("octets", "exchanges", "queues", "storage", "raft", "amqp_broker", "spark_connector")

DIRECTIVES = {
    "language_level": 3,
    "annotation_typing": False,  # C types are declared in the .pxd alone
    "initializedcheck": False,
    "cdivision": True,
    "binding": False,
}


def hot_modules() -> list[Path]:
    """Every module with a .pxd beside it, in a fixed order."""
    found = (path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.pxd")))
    return [path.with_suffix(".py").relative_to(ROOT) for path in found]


class OptionalBuild(build_ext):
    """Compiles what it can:

    a machine without a C compiler gets the plain modules and one line that says so.
    """

    def run(self) -> None:
        try:
            super().run()
        except (BaseError, OSError) as error:
            if os.environ.get("AMQP_BROKER_REQUIRE_COMPILED"):
                raise
            print(
                f"the hot modules stay plain Python (slower): {error}; install a C compiler and run again",
                file=sys.stderr,
            )


def extensions() -> list[Extension]:
    if os.environ.get("AMQP_BROKER_NO_COMPILE"):
        return []
    try:
        from Cython.Build import cythonize
    except ImportError:
        return []
    modules = [
        Extension(
            ".".join(path.with_suffix("").parts),
            [str(path)],
            extra_compile_args=["-O2", "-fno-strict-aliasing", "-w"],
        )
        for path in hot_modules()
    ]
    return list(
        cythonize(modules, compiler_directives=DIRECTIVES, build_dir="build/cython", nthreads=0, quiet=True)
    )


setup(ext_modules=extensions(), cmdclass={"build_ext": OptionalBuild})

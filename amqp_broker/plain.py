"""Which file a module of ours comes from: the compiled one or its plain source, and always our own package.

Two import hooks, both for this project's packages only:

- `prefer_source` (set AMQP_BROKER_PLAIN=1) makes `x.py` run even where a compiled `x.*.so` lies beside it. It
  must be called before the module is first imported, which `import amqp_broker` sees to.
- `pin_packages` is for the broker's own process: the names of our packages are ours there, whatever a PYTHONPATH, a
  current folder or another distribution with a `queues` of its own may offer.

In a checkout the packages of the core lie beside amqp_broker; an installed one has them in its folder `_core`, where
nobody else looks for them (docs/decisions/0027).

Invariants:
1. In a process that embeds a broker, `pin_packages` is never called.
2. No hook touches a module that is not ours, whatever its name.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.machinery import ExtensionFileLoader, ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import spec_from_file_location
from types import ModuleType

ROOT = __file__.rpartition("/amqp_broker/")[0]
CORE = ("exchanges", "queues", "raft", "storage")
CORE_HOME = f"{ROOT}/amqp_broker/_core"
if not os.path.isdir(CORE_HOME):
    CORE_HOME = ROOT
#: The folder in which each package of ours lies.
HOMES = {"amqp_broker": ROOT, "spark_connector": ROOT, **dict.fromkeys(CORE, CORE_HOME)}


class SourceFinder:
    """Finds the plain source of a compiled module of ours; leaves everything else to the other finders."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        package = fullname.partition(".")[0]
        if path is None or package not in HOMES:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or not isinstance(spec.loader, ExtensionFileLoader) or spec.origin is None:
            return None
        if not spec.origin.startswith(f"{HOMES[package]}/{package}/"):
            return None  # another distribution's, of the same name
        folder, _, file = spec.origin.rpartition("/")
        source = f"{folder}/{file.partition('.')[0]}.py"
        return spec_from_file_location(fullname, source, loader=SourceFileLoader(fullname, source))


class OwnPackageFinder:
    """Finds the packages of this project in their homes."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if path is not None or fullname not in HOMES:
            return None
        return PathFinder.find_spec(fullname, [HOMES[fullname]], target)


def prefer_source() -> None:
    """Run the plain source of our modules from here on. Calling it again changes nothing."""
    _put_first(SourceFinder)


def pin_packages() -> None:
    """Find our packages in their homes from here on. Calling it again changes nothing.

    What a `.pth` file or a `sitecustomize` of others has imported under these names is theirs already; the names are
    ours from here on.
    """
    _put_first(OwnPackageFinder)
    for package in CORE:
        if package in sys.modules and not _is_ours(sys.modules[package], package):
            theirs = [name for name in sys.modules if name == package or name.startswith(f"{package}.")]
            for name in theirs:
                del sys.modules[name]


def _is_ours(module: ModuleType, package: str) -> bool:
    file = module.__file__  # a folder without __init__.py has none
    home = f"{HOMES[package]}/{package}"
    return file is not None and os.path.realpath(os.path.dirname(file)) == os.path.realpath(home)


def _put_first(finder: type[SourceFinder | OwnPackageFinder]) -> None:
    if not any(isinstance(each, finder) for each in sys.meta_path):
        sys.meta_path.insert(0, finder())

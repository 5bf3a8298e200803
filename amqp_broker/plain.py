"""Which file a module of ours comes from: the compiled one or its plain source, and always our own package.

Two import hooks, both for this project's packages only:

- `prefer_source` (set AMQP_BROKER_PLAIN=1) makes `x.py` run even where a compiled `x.*.so` lies beside it. It
  must be called before the module is first imported, which `import amqp_broker` sees to.
- `pin_packages` is for the broker's own process: the names of our packages are found beside this one,
  whatever a PYTHONPATH or a current folder with a `queues.py` of its own may offer.

Invariant: in a process that embeds a broker, `pin_packages` is never called.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ExtensionFileLoader, ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import spec_from_file_location
from types import ModuleType

PACKAGES = ("amqp_broker", "exchanges", "octets", "queues", "raft", "spark_connector", "storage")
ROOT = __file__.rpartition("/amqp_broker/")[0]


class SourceFinder(MetaPathFinder):
    """Finds the plain source of a compiled module of ours; leaves everything else to the other finders."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if path is None or fullname.partition(".")[0] not in PACKAGES:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or not isinstance(spec.loader, ExtensionFileLoader) or spec.origin is None:
            return None
        folder, _, file = spec.origin.rpartition("/")
        source = f"{folder}/{file.partition('.')[0]}.py"
        return spec_from_file_location(fullname, source, loader=SourceFileLoader(fullname, source))


class OwnPackageFinder(MetaPathFinder):
    """Finds the packages of this project beside amqp_broker."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if path is not None or fullname not in PACKAGES:
            return None
        return PathFinder.find_spec(fullname, [ROOT], target)


def prefer_source() -> None:
    """Run the plain source of our modules from here on. Calling it again changes nothing."""
    _put_first(SourceFinder)


def pin_packages() -> None:
    """Find our packages beside this one from here on. Calling it again changes nothing."""
    _put_first(OwnPackageFinder)


def _put_first(finder: type[MetaPathFinder]) -> None:
    if not any(isinstance(each, finder) for each in sys.meta_path):
        sys.meta_path.insert(0, finder())

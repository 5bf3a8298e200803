"""Builds the hot modules: every .py with a sibling .pxd is compiled with Cython from the very same file.

All of them or none: compiled modules call each other in C. Only what has changed is compiled again, on two
cores. Without a C compiler that works, or without Python's headers, the plain modules run, nothing compiled is
left beside them, and one line says so and what to install; AMQP_BROKER_REQUIRE_COMPILED makes that an error.
What was done is written to build/compiled.json. With AMQP_BROKER_NO_COMPILE set, compiling is left for later
and nothing is written; BUILD_OPTIMISATION is the compiler's flag for how far to go.

In a wheel the packages of the core, whose names others have too, lie in amqp_broker/_core, where only the broker's own
process looks (`amqp_broker.plain.pin_packages`). They keep their names, by which compiled modules find each other.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py
from setuptools.errors import BaseError, CCompilerError

ROOT = Path(__file__).parent
CORE = ("exchanges", "queues", "storage", "raft")
PACKAGES = (*CORE, "amqp_broker", "spark_connector")
#: The package in whose folder a wheel has them.
CORE_HOME = "amqp_broker._core"
#: What runs the files of the checkout, with compiled modules beside them.
IN_PLACE = bool({"--inplace", "editable_wheel", "develop"} & set(sys.argv))
#: A wheel is built apart: what is built for the checkout lies otherwise, and would get into it.
BUILD = ROOT / "build" if IN_PLACE else ROOT / "build" / "wheel"
RECORD = BUILD / "compiled.json"
CORES = 2
#: By folder of the installation: what is for others, a shell, a service manager, who watches the broker.
SHARED = {
    "share/man/man1": ["docs/man/amqp-broker.1"],
    "share/bash-completion/completions": ["packaging/completion/amqp-broker"],
    "share/zsh/site-functions": ["packaging/completion/_amqp-broker"],
    "share/fish/vendor_completions.d": ["packaging/completion/amqp-broker.fish"],
    "share/amqp-broker": ["packaging/amqp-broker.toml"],
    "share/amqp-broker/grafana": ["packaging/grafana/overview.json"],
    "share/amqp-broker/prometheus": ["packaging/prometheus/alerts.yaml", "packaging/prometheus/prometheus.yaml"],
    "share/amqp-broker/systemd": ["packaging/systemd/amqp-broker.service"],
}

DIRECTIVES = {
    "language_level": 3,
    "annotation_typing": False,  # C types are declared in the .pxd alone
    "initializedcheck": False,
    "cdivision": True,
    "binding": False,
    "auto_pickle": False,  # a class that can be pickled says how
}
#: -Og takes two fifths of the time, for what need not be fast: what tests simulate takes some 5 % longer than with -O1.
OPTIMISATION = os.environ.get("BUILD_OPTIMISATION") or "-O2"
FLAGS = [OPTIMISATION, "-g0", "-fno-strict-aliasing", "-w"]  # without debug information it takes a quarter less


SUFFIX = sysconfig.get_config_var("SHLIB_SUFFIX")


def hot_modules() -> list[Path]:
    """Every module with a .pxd beside it, in a fixed order."""
    found = (path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.pxd")))
    return [path.with_suffix(".py").relative_to(ROOT) for path in found]


def module_of(source: Path) -> str:
    """The name of a module, by which it is imported."""
    return ".".join(source.with_suffix("").parts)


def packed(name: str) -> str:
    """Where a module or package lies in what is being built, as a name."""
    return f"{CORE_HOME}.{name}" if not IN_PLACE and name.partition(".")[0] in CORE else name


def layout() -> dict[str, object]:
    """The packages, and the folders of the checkout that they are in."""
    found = find_packages(str(ROOT), include=[each for name in PACKAGES for each in (name, f"{name}.*")])
    folders = {"": "."}  # an editable install is then a folder on the path, which Spark can look through
    folders.update({packed(name): name for name in CORE if packed(name) != name})
    return {"packages": [packed(name) for name in found], "package_dir": folders}


class CannotCompile(Exception):
    """The modules cannot be compiled here; the text says why."""


def why_plain() -> str:
    """What keeps this machine from compiling, with the way out; an empty text if nothing does."""
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    if shutil.which(compiler[0]) is None:
        return f"there is no C compiler ({compiler[0]}); on Debian and Ubuntu: apt-get install gcc libc6-dev"
    header = Path(sysconfig.get_path("include"), "Python.h")
    if not header.exists():
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        return f"there is no {header}; on Debian and Ubuntu: apt-get install python{version}-dev"
    try:
        import Cython.Build  # noqa: F401
    except ImportError:
        return "Cython is not installed; pip install cython"
    return why_compiler_fails(compiler, header.parent)


def why_compiler_fails(compiler: list[str], include: Path) -> str:
    """Have it make an extension of nothing. An empty text if it can."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "probe.c")
        source.write_text("#include <Python.h>\nint probe(void) { return 0; }\n")
        command = [*compiler, "-shared", "-fPIC", f"-I{include}", str(source), "-o", str(Path(folder, "probe.so"))]
        if sys.platform == "darwin":
            command[len(compiler) : len(compiler) + 1] = ["-bundle", "-undefined", "dynamic_lookup"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, errors="replace")
        except OSError as error:
            said = str(error)
        else:
            if done.returncode == 0:
                return ""
            lines = [line.strip() for line in done.stderr.splitlines()]
            telling = next((line for line in lines if "error" in line), lines[0] if lines else "it says nothing")
            said = f"status {done.returncode}: {telling}"
    way_out = "set CC to one that works; on Debian and Ubuntu: apt-get install gcc libc6-dev"
    return f"the C compiler ({shlex.join(compiler)}) does not work ({said}); {way_out}"


def record(compiled: list[str], reason: str) -> None:
    """Notes what was done. If the slower plain modules are to run, tells the user, and sees to it that they do."""
    if reason:
        print(f"amqp-broker: the hot modules stay plain Python (slower): {reason}", file=sys.stderr)
        if os.environ.get("AMQP_BROKER_REQUIRE_COMPILED"):
            raise SystemExit("amqp-broker: AMQP_BROKER_REQUIRE_COMPILED is set, but nothing was compiled")
        removed = remove_compiled()
        if removed:
            why = "nothing is to run that is older than its source"
            print(f"amqp-broker: the {removed} modules that were compiled before are removed: {why}", file=sys.stderr)
    RECORD.parent.mkdir(parents=True, exist_ok=True)
    RECORD.write_text(json.dumps({"python": sys.version.split()[0], "compiled": compiled, "reason": reason}) + "\n")


def remove_compiled() -> int:
    """An earlier build's modules would run instead of the sources, or get into the wheel beside them. Returns how many
    there were."""
    removed = set()
    folders = [path for path in BUILD.glob("lib*") if path.is_dir()]
    if IN_PLACE:
        folders.append(ROOT)
    for folder in folders:
        for source in hot_modules():
            place = folder.joinpath(*packed(module_of(source)).split(".")).parent
            for path in place.glob(f"{source.stem}.*{SUFFIX}"):
                path.unlink()
                removed.add(source)
    return len(removed)


def remove_orphans() -> None:
    """What was compiled of a module that is not there any more would still be found under its name."""
    for package in PACKAGES if IN_PLACE else ():
        for path in (ROOT / package).rglob(f"*{SUFFIX}"):
            if not path.with_name(f"{path.name.partition('.')[0]}.pxd").exists():
                path.unlink()


class Progress:
    """How far a step is: one line that is written over on a terminal, now and then a line elsewhere."""

    def __init__(self, step: str, total: int) -> None:
        self._step = step
        self._total = total
        self._done = 0

    def advance(self) -> None:
        self._done += 1
        is_last = self._done == self._total
        if sys.stderr.isatty():
            end = "\n" if is_last else ""
            print(f"\r{self._text()}", end=end, file=sys.stderr, flush=True)
        elif is_last or self._done % 10 == 0:
            print(self._text(), file=sys.stderr, flush=True)

    def _text(self) -> str:
        return f"setup: {self._step} {self._done} of {self._total} modules"


class OnlyThese(build_py):
    """Copies the packages; nothing that an earlier build has copied, and that is gone since, gets into the wheel."""

    def run(self) -> None:
        folder = Path(self.build_lib)
        if folder.exists() and not IN_PLACE:
            compiled = {packed(module_of(source)) for source in hot_modules()}
            for path in folder.rglob("*"):
                module = (*path.relative_to(folder).parent.parts, path.name.partition(".")[0])
                if path.is_file() and not (path.name.endswith(SUFFIX) and ".".join(module) in compiled):
                    path.unlink()
        super().run()


class AllOrNone(build_ext):
    """Compiles every hot module; if one fails, none is put beside its source."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.parallel = self.parallel or CORES

    def run(self) -> None:
        if not self.extensions:
            return  # `extensions` has told why
        remove_orphans()
        names = [extension.name for extension in self.extensions]
        self._progress = Progress("compiled", len(names))
        try:
            self._translate()
            super().run()
        except (CannotCompile, BaseError, CCompilerError, OSError) as error:
            self.extensions = self.distribution.ext_modules = []  # nobody is to look for what was not made
            record([], f"compiling failed: {' '.join(str(error).split())}")
        else:
            record(names, "")

    def get_ext_fullpath(self, ext_name: str) -> str:
        """Beside its source, wherever that is packed; its name stays."""
        whole: str = super().get_ext_fullpath(ext_name)
        if packed(ext_name) == ext_name:
            return whole
        return str(Path(self.build_lib, *packed(ext_name).split(".")[:-1], Path(whole).name))

    def _translate(self) -> None:
        """Have every extension's source be C, made anew where it is older than what it is made from. Raises
        CannotCompile."""
        from Cython.Build import cythonize
        from Cython.Compiler.Errors import CompileError

        progress = Progress("translated to C", len(self.extensions))
        with ProcessPoolExecutor(CORES, multiprocessing.get_context("fork")) as pool:
            jobs = {}
            for each in self.extensions:
                plain = [Extension(each.name, each.sources)]
                options = {"compiler_directives": DIRECTIVES, "build_dir": "build/cython", "quiet": True}
                jobs[pool.submit(cythonize, plain, **options)] = each
            for job in as_completed(jobs):
                try:
                    (translated,) = job.result()
                except (CompileError, BrokenProcessPool) as error:
                    pool.shutdown(cancel_futures=True)
                    raise CannotCompile(f"{jobs[job].name} cannot be translated to C: {error}") from None
                jobs[job].sources = translated.sources
                progress.advance()

    def build_extension(self, extension: Extension) -> None:
        try:
            super().build_extension(extension)
        except CCompilerError:
            raise CannotCompile(f"the compiler fails at {extension.name} and says above why") from None
        self._progress.advance()


def extensions() -> list[Extension]:
    """The extensions to build; none where none can be built."""
    if os.environ.get("AMQP_BROKER_NO_COMPILE"):
        return []
    reason = why_plain()
    if reason:
        record([], reason)
        return []
    # The longest first: at the end no core waits long for the other one.
    longest = sorted(hot_modules(), key=lambda path: -(ROOT / path).stat().st_size)
    return [Extension(module_of(path), [str(path)], extra_compile_args=FLAGS) for path in longest]


if __name__ == "__main__":
    setup(
        **layout(),
        data_files=list(SHARED.items()),
        ext_modules=extensions() if {"build_ext", "editable_wheel", "bdist_wheel"} & set(sys.argv) else [],
        cmdclass={"build_ext": AllOrNone, "build_py": OnlyThese},
        options={"build": {"build_base": str(BUILD.relative_to(ROOT))}},
    )

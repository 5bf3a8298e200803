"""A fresh virtual environment. What distributions depend on is lent by the environment that the tests run in, as a
folder of links without our own distribution, which nothing has to be downloaded for."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from importlib.metadata import distribution
from pathlib import Path

OURS = "warrenmq"
#: What would decide in the processes of an environment which of our modules run, and where Python looks.
UNSET = ("PYTHONPATH", "AMQP_BROKER_PLAIN", "AMQP_BROKER_NO_COMPILE", "AMQP_BROKER_REQUIRE_COMPILED", "CC")


def outside() -> dict[str, str]:
    """Our own variables, without those that decide about modules."""
    return {name: value for name, value in os.environ.items() if name not in UNSET}


class Environment:
    """An environment in a folder, and `work`, a folder for what runs in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.python = folder / "bin" / "python"
        self.work = folder / "work"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
        self.site = Path(sysconfig.get_path("purelib", "venv", {"base": str(folder), "platbase": str(folder)}))
        self.work.mkdir()
        self._lend(folder / "lent")

    def _lend(self, lent: Path) -> None:
        lent.mkdir()
        own = {str(path).partition("/")[0] for path in distribution(OURS).files or ()}
        for place in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}:
            for path in Path(place).iterdir():
                if path.name not in own and path.suffix != ".pth" and path.name != "__pycache__":
                    (lent / path.name).symlink_to(path)
        (self.site / "lent.pth").write_text(f"{lent}\n")

    def run(self, *command: str | Path, **environment: str) -> str:
        """Standard output of a command of this environment, which has to succeed."""
        done = self.try_to_run(*command, **environment)
        assert done.returncode == 0, f"{command}: {done.stdout}\n{done.stderr}"
        return done.stdout

    def try_to_run(self, *command: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
        """As `run`, whatever comes of it."""
        return subprocess.run(
            [str(self.folder / "bin" / command[0]), *command[1:]],
            cwd=self.work, env=self.variables(**environment), capture_output=True, text=True, timeout=1800,
        )  # fmt: skip

    def variables(self, **more: str) -> dict[str, str]:
        """For its processes."""
        path = os.pathsep.join([str(self.folder / "bin"), os.environ["PATH"]])
        # pip has compiled what it installed; a process that is killed while it does so itself leaves half a file.
        own = {"PATH": path, "VIRTUAL_ENV": str(self.folder), "PYTHONDONTWRITEBYTECODE": "1"}
        return outside() | own | more

    def pip(self, *arguments: str | Path, **environment: str) -> str:
        """Runs pip, which is to fetch nothing."""
        return self.run("python", "-m", "pip", "--disable-pip-version-check", *arguments, **environment)

    def install(self, *what: str | Path, **environment: str) -> None:
        """Installs a wheel, an sdist or a checkout."""
        self.pip("install", "--no-index", "--no-deps", "--no-build-isolation", *what, **environment)

    def tops(self) -> set[str]:
        """The names at the top of site-packages, those of metadata and of this module aside."""
        names = {path.name for path in self.site.iterdir()} - {"__pycache__", "lent.pth"}
        return {name for name in names if not name.endswith(".dist-info")}

"""Builds what a release consists of: the sdist, out of it the wheel for this machine, and SHA256SUMS of both.

    python packaging/build_distributions.py [--into dist]

The same commit, built with the same tools, gives the same sdist and the same plain wheel: the times in the files are
those of the commit (SOURCE_DATE_EPOCH, if it is set), and nothing of who built them, where, or when gets in. A wheel
without compiled modules is not made unless AMQP_BROKER_NO_COMPILE asks for it.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SUMS = "SHA256SUMS"
_BUILD_SDIST = "import sys; from setuptools.build_meta import build_sdist; build_sdist(sys.argv[1])"


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description="Build the sdist and the wheel of a release.")
    parser.add_argument("--into", default=str(ROOT / "dist"), help="The folder, which is made if need be.")
    folder = Path(parser.parse_args().into).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    epoch = os.environ.get("SOURCE_DATE_EPOCH") or _time_of_commit()
    environment = {**os.environ, "SOURCE_DATE_EPOCH": epoch}
    if "AMQP_BROKER_NO_COMPILE" not in environment:
        environment["AMQP_BROKER_REQUIRE_COMPILED"] = "1"
    with tempfile.TemporaryDirectory() as scratch:
        sdist = _build_sdist(Path(scratch, "sdist"), folder, int(epoch), environment)
        wheel = _build_wheel(sdist, Path(scratch, "wheel"), folder, environment)
    sums = "".join(f"{hashlib.sha256(each.read_bytes()).hexdigest()}  {each.name}\n" for each in (sdist, wheel))
    (folder / SUMS).write_text(sums)
    sys.stdout.write(sums)


def _time_of_commit() -> str:
    done = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"no commit whose time could be taken: {done.stderr.strip()}; set SOURCE_DATE_EPOCH")
    return done.stdout.strip()


def _build_sdist(scratch: Path, folder: Path, epoch: int, environment: Mapping[str, str]) -> Path:
    """As setuptools makes it, with the same times and owners whoever makes it."""
    scratch.mkdir()
    subprocess.run([sys.executable, "-c", _BUILD_SDIST, str(scratch)], cwd=ROOT, env=environment, check=True)
    (made,) = scratch.iterdir()
    target = folder / made.name
    with (
        tarfile.open(made) as source,
        open(target, "wb") as file,
        gzip.GzipFile("", "wb", fileobj=file, mtime=epoch) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for member in sorted(source.getmembers(), key=lambda each: each.name):
            member.mtime, member.uid, member.gid, member.uname, member.gname = epoch, 0, 0, "", ""
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            member.pax_headers = {}
            tar.addfile(member, source.extractfile(member) if member.isfile() else None)
    return target


def _build_wheel(sdist: Path, scratch: Path, folder: Path, environment: Mapping[str, str]) -> Path:
    """Out of the sdist, so that whatever that lacks shows."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-cache-dir"]
    command = [*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(scratch), str(sdist)]
    subprocess.run(command, env=environment, check=True)
    (made,) = scratch.iterdir()
    target = folder / made.name
    target.write_bytes(made.read_bytes())
    return target


if __name__ == "__main__":
    main()

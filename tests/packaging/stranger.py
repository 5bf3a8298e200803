"""A distribution of somebody else whose packages have the names of ours, the names of their modules included."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from pathlib import Path

PACKAGES = ("exchanges", "octets", "queues", "raft", "storage")
#: Modules of ours that a process would fetch by these names.
MODULES = {"exchanges": "registry", "octets": "buffer", "queues": "classic", "raft": "host", "storage": "journal"}
NAME = "stranger-1.0"


def files() -> dict[str, str]:
    """What it installs. Its .pth has every Python of the environment import one of its packages at the start."""
    found = {"stranger.pth": "import queues\n"}
    for package in PACKAGES:
        found[f"{package}/__init__.py"] = f'"""The stranger\'s."""\n\nOWNER: str = "stranger\'s {package}"\n'
        found[f"{package}/{MODULES[package]}.py"] = f'"""The stranger\'s."""\n\nOWNER = "stranger\'s {package}"\n'
    found["queues/py.typed"] = ""
    return found


def write_wheel(folder: Path) -> Path:
    """Its wheel."""
    info = f"{NAME}.dist-info"
    name, version = NAME.split("-")
    contents = files()
    contents[f"{info}/METADATA"] = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    contents[f"{info}/WHEEL"] = "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    lines = [f"{path},sha256={_digest(text)},{len(text.encode())}\n" for path, text in contents.items()]
    contents[f"{info}/RECORD"] = "".join([*lines, f"{info}/RECORD,,\n"])
    wheel = folder / f"{NAME}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as file:
        for path, text in contents.items():
            file.writestr(path, text)
    return wheel


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()

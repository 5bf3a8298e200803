"""A Python for Spark that answers before it is ready to work.

To ask a stream for its offsets, Spark starts a Python of its own and gives it ten seconds, which nothing can change, to
connect back and say who it is. PySpark does so after it has imported all that it needs; on a machine that is slow, or
busy with other tests, or reads its files for the first time, that is too late: "Python worker failed to connect back".
So here the connection comes first, and the imports then take the time that they take.

It stands for the interpreter (PYSPARK_PYTHON is a command that runs this file): its arguments are Python's own, and
where it finds nothing to be early for, it is that Python. It must import nothing of weight before it has connected.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
from pathlib import Path

PORT = "PYTHON_WORKER_FACTORY_PORT"
SOCKET_PATH = "PYTHON_WORKER_FACTORY_SOCK_PATH"
SECRET = "PYTHON_WORKER_FACTORY_SECRET"


def write_command(folder: Path) -> Path:
    """A command in the folder that is this interpreter, but early."""
    command = folder / "python"
    here = Path(__file__).resolve()
    command.write_text(f"#!/bin/sh\nexec '{sys.executable}' '{here}' \"$@\"\n", encoding="utf-8")
    command.chmod(0o755)
    return command


def connect_back() -> socket.socket:
    """Connected to Spark, which knows who we are. Raises OSError."""
    path = os.environ.get(SOCKET_PATH)
    if path is not None:
        connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connected.connect(path)
    else:
        host = "::1" if os.environ.get("SPARK_PREFER_IPV6", "false").lower() == "true" else "127.0.0.1"
        connected = socket.create_connection((host, int(os.environ[PORT])))
        secret = os.environ[SECRET].encode()
        connected.sendall(struct.pack("!i", len(secret)) + secret)
        answer = _receive(connected, struct.unpack("!i", _receive(connected, 4))[0])
        if answer != b"ok":
            raise OSError(f"Spark does not accept its own secret: {answer!r}")
    connected.sendall(struct.pack("!i", os.getpid()))
    return connected


def _receive(connected: socket.socket, count: int) -> bytes:
    octets = b""
    while len(octets) < count:
        more = connected.recv(count - len(octets))
        if not more:
            raise OSError("Spark has closed the connection")
        octets += more
    return octets


def run(module: str, arguments: list[str]) -> None:
    """Runs PySpark's module over the connection that is there already."""
    connected = connect_back()
    import runpy
    from collections.abc import Iterator
    from contextlib import contextmanager
    from io import IOBase

    from pyspark import worker_util

    @contextmanager
    def get_sock_file_to_executor(timeout: int | None = -1) -> Iterator[IOBase]:
        if timeout is None or timeout > 0:
            connected.settimeout(timeout)
        with connected.makefile("rwb", int(os.environ.get("SPARK_BUFFER_SIZE", "65536"))) as file:
            yield file

    worker_util.get_sock_file_to_executor = get_sock_file_to_executor  # type: ignore[assignment]  # a file all the same
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def main() -> None:
    arguments = sys.argv[1:]
    is_worker = len(arguments) > 1 and arguments[0] == "-m" and arguments[1].startswith("pyspark.")
    if is_worker and arguments[1] != "pyspark.daemon" and (PORT in os.environ or SOCKET_PATH in os.environ):
        # The folder of this file is none that Python would look into; the current one is.
        sys.path[0] = os.getcwd()
        run(arguments[1], arguments[2:])
    else:
        os.execv(sys.executable, [sys.executable, *arguments])


if __name__ == "__main__":
    main()

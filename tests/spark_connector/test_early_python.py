"""A Python for Spark that is slow to import: it has connected back, and said who it is, long before."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
from pathlib import Path

from spark_connector.early_python import PORT, SECRET, SOCKET_PATH, write_command

TIMEOUT_S = 60

WORKER = """
import sys
open("gate").read()  # imports that take their time
from pyspark.worker_util import get_sock_file_to_executor
with get_sock_file_to_executor() as file:
    file.write(file.read(4) + str([__name__, sys.argv]).encode())
"""


def fake_pyspark(folder: Path) -> None:
    """As much of PySpark as a worker uses, with a worker that imports until somebody opens the gate."""
    package = folder / "pyspark"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "worker_util.py").write_text("def get_sock_file_to_executor():\n    raise AssertionError('too late')\n")
    (package / "slow.py").write_text(WORKER)
    os.mkfifo(folder / "gate")


def started(folder: Path, **environment: str) -> subprocess.Popen[bytes]:
    unset = (PORT, SECRET, SOCKET_PATH)
    variables = {name: value for name, value in os.environ.items() if name not in unset} | environment
    return subprocess.Popen([str(write_command(folder)), "-m", "pyspark.slow", "more"], cwd=folder, env=variables)


def finish(folder: Path, process: subprocess.Popen[bytes], spark: socket.socket) -> None:
    (folder / "gate").write_text("open")
    spark.sendall(b"work")
    with spark.makefile("rb") as file:
        assert file.read().startswith(b"work['__main__', [")
    assert process.wait(TIMEOUT_S) == 0


def test_it_connects_back_before_it_imports(tmp_path: Path) -> None:
    fake_pyspark(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(TIMEOUT_S)
        process = started(tmp_path, **{PORT: str(server.getsockname()[1]), SECRET: "sesame"})
        spark, _ = server.accept()
        with spark:
            spark.settimeout(TIMEOUT_S)
            secret = struct.pack("!i", 6) + b"sesame"
            assert spark.recv(len(secret), socket.MSG_WAITALL) == secret
            spark.sendall(struct.pack("!i", 2) + b"ok")
            assert struct.unpack("!i", spark.recv(4, socket.MSG_WAITALL)) == (process.pid,)
            finish(tmp_path, process, spark)


def test_by_a_socket_of_the_file_system_too(tmp_path: Path) -> None:
    fake_pyspark(tmp_path)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s"))
        server.listen()
        server.settimeout(TIMEOUT_S)
        process = started(tmp_path, **{SOCKET_PATH: str(tmp_path / "s")})
        spark, _ = server.accept()
        with spark:
            spark.settimeout(TIMEOUT_S)
            assert struct.unpack("!i", spark.recv(4, socket.MSG_WAITALL)) == (process.pid,)
            finish(tmp_path, process, spark)


def test_for_anything_else_it_is_that_python(tmp_path: Path) -> None:
    command = str(write_command(tmp_path))
    code = "import sys; print(sys.executable, sys.argv, 'spark_connector' in ' '.join(sys.path))"
    done = subprocess.run([command, "-c", code, "x"], capture_output=True, text=True, check=True, timeout=TIMEOUT_S)
    assert done.stdout == f"{sys.executable} ['-c', 'x'] False\n"

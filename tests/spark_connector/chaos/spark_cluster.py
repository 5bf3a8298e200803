"""A standalone Spark on loopback: a master, workers on two addresses (Spark never speculates on the same host), and a
driver that is submitted again whenever it ends."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import pyspark

from spark_connector.java import ensure_java
from tests.spark_connector.chaos.moments import VARIABLE, kill_all

ROOT = Path(__file__).resolve().parents[3]
SPARK_HOME = Path(pyspark.__file__).parent
HOSTS = ("127.0.0.1", "127.0.0.2")
#: Spark's own patience is long: that a machine is busy with other things is no death.
SETTINGS = {
    "spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.driver.memory": "512m",
    "spark.executor.memory": "512m", "spark.executor.cores": "1", "spark.cores.max": "2",
    "spark.speculation": "true", "spark.speculation.interval": "100ms", "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.2", "spark.speculation.minTaskRuntime": "200ms", "spark.task.maxFailures": "10",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "2", "spark.log.level": "ERROR", "spark.excludeOnFailure.enabled": "false",
    "spark.network.timeout": "1200s",
}  # fmt: skip


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


class SparkCluster:
    """A context manager. `is_local`: no master and workers, all of Spark in the driver's process."""

    def __init__(self, work: Path, moments: Path, url: str, is_local: bool) -> None:
        self.starts = 0
        self._work = work
        self._url = url
        self._is_local = is_local
        self._environment = {
            **os.environ, VARIABLE: str(moments), "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_DIRS": str(work / "tmp"), "SPARK_WORKER_DIR": str(work / "workers"),
            "SPARK_HOME": str(SPARK_HOME), "PYTHONPATH": str(ROOT), "SPARK_MASTER_OPTS": "-Dspark.worker.timeout=1200",
        }  # fmt: skip
        ensure_java(self._environment)
        self._log: IO[bytes] = (work / "spark.log").open("ab")
        self._processes: list[subprocess.Popen[bytes]] = []
        self._driver: subprocess.Popen[bytes] | None = None
        self._master = "local[2]"

    def __enter__(self) -> Self:
        if not self._is_local:
            port = free_port()
            self._master = f"spark://127.0.0.1:{port}"
            kind = "org.apache.spark.deploy"
            self._start(f"{kind}.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0")
            for host in HOSTS:
                self._start(
                    f"{kind}.worker.Worker", "--host", host, "--cores", "1", "--memory", "768m", "--webui-port", "0",
                    self._master,
                )  # fmt: skip
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in [*self._processes, self._driver]:
            if process is not None:
                kill_group(process)
        self._log.close()

    def tend(self) -> None:
        """Submits the application if it does not run."""
        if self._driver is not None and self._driver.poll() is None:
            return
        if self._driver is not None:
            kill_group(self._driver)
        self.starts += 1
        settings = [word for name, value in SETTINGS.items() for word in ("--conf", f"{name}={value}")]
        self._driver = self._popen(
            str(SPARK_HOME / "bin" / "spark-submit"), "--master", self._master, *settings,
            str(Path(__file__).with_name("application.py")), self._url, str(self._work),
        )  # fmt: skip

    def executors(self) -> list[int]:
        """The Java processes that run tasks."""
        found = []
        for process in self._processes[1:]:
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children").parent.parent.glob("*/children")
            found += [int(pid) for path in children for pid in path.read_text().split()]
        return found

    def python_workers(self) -> list[int]:
        """The Python processes of executors, which are forked by a daemon."""
        return [pid for java in self.executors() for daemon in below(java) for pid in below(daemon)]

    def _start(self, main: str, *arguments: str) -> None:
        self._processes.append(self._popen(str(SPARK_HOME / "bin" / "spark-class"), main, *arguments))

    def _popen(self, *command: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command, env=self._environment, stdout=self._log, stderr=self._log, stdin=subprocess.DEVNULL,
            start_new_session=True, cwd=self._work,
        )  # fmt: skip


def below(pid: int) -> list[int]:
    """The children of a process, of whichever thread."""
    found: list[int] = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += [int(child) for child in path.read_text().split()]
        except OSError:
            continue
    return found


def all_below(pid: int) -> list[int]:
    return [each for child in below(pid) for each in (child, *all_below(child))]


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """A process with all that it started."""
    kill_all([*all_below(process.pid), process.pid])
    process.wait()

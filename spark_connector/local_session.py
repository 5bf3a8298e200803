"""A Spark session inside this process, for commands and tests: no web page, no words, quick to start."""

from __future__ import annotations

import os
from pathlib import Path

from pyspark.sql import SparkSession

from spark_connector.early_python import write_command
from spark_connector.java import ensure_java

_QUIET = """status = error
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %m%n
rootLogger.level = {level}
rootLogger.appenderRef.stdout.ref = console
"""


def local_session(
    folder: Path, *, cores: int, memory: str = "1g", name: str = "amqp", level: str = "off"
) -> SparkSession:
    """Starts Spark with `cores` tasks at a time; what it writes for itself goes into `folder`. Raises ConnectorError
    where there is no Java.

    level: what of Spark's own log reaches standard error.
    """
    ensure_java()
    os.environ["PYSPARK_PYTHON"] = str(write_command(folder))
    quiet = folder / "log4j2.properties"
    quiet.write_text(_QUIET.format(level=level), encoding="utf-8")
    java = f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Dlog4j2.configurationFile={quiet.as_uri()}"
    return (
        SparkSession.builder.master(f"local[{cores}]")
        .appName(name)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", memory)
        # Seconds that Spark and its Pythons wait for each other's words; 15 are few on a busy machine.
        .config("spark.python.authenticate.socketTimeout", "300s")
        .config("spark.driver.extraJavaOptions", java)
        .config("spark.sql.catalogImplementation", "in-memory")
        .config("spark.sql.shuffle.partitions", str(cores))
        .config("spark.sql.warehouse.dir", str(folder))
        .config("spark.local.dir", str(folder))
        .getOrCreate()
    )

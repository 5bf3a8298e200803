"""`python -m tests.web.shapes.record`: starts RabbitMQ with its management plugin, and writes the shapes of its answers
into the files beside this one: names and types, no values. tests/web/test_shapes.py compares ours with them."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.brokers import free_port, rabbitmq_broker, rabbitmq_environment, temporary_folder
from tests.web.http_client import Http
from tests.web.shapes.filled import PATHS, ask, filled
from tests.web.shapes.shape import shape_of

FOLDER = Path(__file__).parent


def main() -> None:
    with temporary_folder() as folder:
        environment, port = rabbitmq_environment(folder), free_port()
        with (folder / "rabbitmq.conf").open("a", encoding="ascii") as config:
            config.write(f"management.tcp.ip = 127.0.0.1\nmanagement.tcp.port = {port}\n")
            config.write("collect_statistics_interval = 1000\n")
        (folder / "plugins").write_text("[rabbitmq_management].\n", encoding="ascii")
        with rabbitmq_broker(folder, environment) as broker:
            http = Http(f"http://127.0.0.1:{port}/")
            with filled(http, f"amqp://guest:guest@127.0.0.1:{broker.target.port}/") as names:
                for file, path in PATHS.items():
                    shape = {"path": path, "shape": shape_of(ask(http, names, path))}
                    (FOLDER / f"{file}.json").write_text(json.dumps(shape, indent=1) + "\n", encoding="utf-8")
            http.close()


if __name__ == "__main__":
    main()

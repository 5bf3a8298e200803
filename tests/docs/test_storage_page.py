"""docs/storage.md names all that a data folder has."""

from __future__ import annotations

import re
from pathlib import Path

import amqp_broker
from amqp_broker.client import Connection
from amqp_broker.protocol.fields import Table
from amqp_broker.protocol.methods import QueueDeclare
from tests.docs.source_names import DOCS


def test_all_that_is_in_a_data_folder_is_in_the_table(tmp_path: Path) -> None:
    with amqp_broker.running(tmp_path, workers=2, management=True) as broker:
        stream = Table({"x-queue-type": "stream"})
        with Connection.open(broker.url) as connection, connection.channel() as channel:
            channel.call(QueueDeclare(0, "q", False, True, False, False, False, stream))
    section = (DOCS / "storage.md").read_text(encoding="utf-8").partition("## The folder\n")[2].partition("\n## ")[0]
    first_cells = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
    named = {re.split(r"[/`]", path)[0] for cell in first_cells for path in re.findall(r"`(.+?)`", cell)}
    found = {path.name for path in tmp_path.iterdir()}
    assert {"FORMAT", "journal", "workers"} <= found
    assert sorted(found - named) == []

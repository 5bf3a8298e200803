"""What an import would do: found without doing it, and true when it is done."""

from __future__ import annotations

from typing import Any

import pytest

from tests.node.node_driver import NodeDriver, declare
from tests.node.system_service import SystemService


@pytest.fixture
def service() -> SystemService:
    driver = NodeDriver()
    service = SystemService(driver)
    service.client.send(1, declare("same"), declare("other", x_max_length=5), declare("besides"))
    driver.settle()
    assert service.ask("policy.put", vhost="/", name="p", pattern="x", definition={"max-length": 1})["ok"]
    service.client.take()
    return service


def file_of() -> dict[str, Any]:
    queue = {"vhost": "/", "durable": True, "auto_delete": False, "arguments": {}}
    policy = {"vhost": "/", "name": "p", "pattern": "x", "apply-to": "all", "priority": 0}
    return {
        "queues": [{**queue, "name": "same"}, {**queue, "name": "other"}, {**queue, "name": "new"}],
        "policies": [{**policy, "definition": {"max-length": 2}}],
        "bindings": [
            {"vhost": "/", "source": "amq.direct", "destination": "new", "destination_type": "queue",
             "routing_key": "k", "arguments": {}},
        ],
    }  # fmt: skip


def test_add_change_conflict_extra(service: SystemService) -> None:
    said = service.ask("definitions.diff", definitions=file_of())
    assert [(row["category"], row["place"]) for row in said["add"]] == [
        ("queues", "queues[2]"), ("bindings", "bindings[0]"),
    ]  # fmt: skip
    (changed,) = said["change"]
    assert (changed["place"], changed["fields"]) == ("policies[0]", ["definition"])
    assert (changed["is"]["definition"], changed["would_be"]["definition"]) == ({"max-length": 1}, {"max-length": 2})
    (conflict,) = said["conflict"]
    assert (conflict["place"], conflict["key"]) == ("queues[1]", {"vhost": "/", "name": "other"})
    extra = {(row["category"], row["key"].get("name", "")) for row in said["extra"]}
    assert ("queues", "besides") in extra
    assert ("queues", "same") not in extra
    assert said["counts"] == {kind: len(said[kind]) for kind in ("add", "change", "conflict", "extra")}
    assert service.ask("definitions.diff", definitions=file_of())["counts"] == said["counts"], "nothing was changed"


def test_afterwards_there_is_nothing_to_add(service: SystemService) -> None:
    before = service.ask("definitions.diff", definitions=file_of())["counts"]
    dry = service.ask("definitions.import", definitions=file_of(), dry_run=True)
    assert dry["commands"] == before["add"] + before["change"]
    assert service.ask("definitions.import", definitions=file_of())["commands"] == dry["commands"]
    after = service.ask("definitions.diff", definitions=file_of())["counts"]
    assert (after["add"], after["change"], after["conflict"]) == (0, 0, 1)


def test_only_what_is_chosen(service: SystemService) -> None:
    assert service.ask("definitions.import", definitions=file_of(), only=["queues[2]"])["commands"] == 1
    counts = service.ask("definitions.diff", definitions=file_of())["counts"]
    assert (counts["add"], counts["change"]) == (1, 1)
    for place in ("queues[3]", "queues", "what[0]", "queues[x]"):
        answer = service.ask("definitions.import", definitions=file_of(), only=[place])
        assert f"there is no '{place}'" in answer["error"]


def test_an_export_is_what_is_there(service: SystemService) -> None:
    whole = service.ask("definitions.export")["definitions"]
    said = service.ask("definitions.diff", definitions=whole)
    assert said["counts"] == dict.fromkeys(("add", "change", "conflict", "extra"), 0), said


def test_hashes_are_not_shown(service: SystemService) -> None:
    said = service.ask("definitions.diff", definitions={"users": [{"name": "new", "password_hash": "", "tags": ""}]})
    assert said["add"][0]["would_be"]["password_hash"] == "..."
    assert all(row["is"].get("password_hash", "...") == "..." for row in said["extra"])

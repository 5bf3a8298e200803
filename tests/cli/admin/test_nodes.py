"""`amqp-broker node`: drained, revived, and whether it can be stopped."""

from __future__ import annotations

import json

from tests.cli.admin.conftest import Command


def test_a_node_is_drained_and_revived(command: Command) -> None:
    assert "in service, can be stopped" in command.out("node", "guard")
    status, out, _ = command.call("node", "drain", "solo", "--pace", "1000", "--wait", "30")
    assert (status, out.splitlines()[0]) == (0, "node solo: drained, can be stopped")
    assert "it is going away" in command.call("health")[1]
    assert command.out("health", "--check", "alive") == "alive: ok\n"
    said = json.loads(command.out("node", "revive", "--json"))
    assert (said["is_draining"], said["connections"]) == (False, 0)
    assert "no member 'other'" in command.refusal("node", "guard", "other")

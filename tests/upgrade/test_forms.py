"""What this version writes and says that the version before does not know is known here, each with its level: whoever
adds a form without one would have nodes of the version before stop, or refuse their folders, in the middle of an
upgrade.

The forms of the version before are read from its own sources.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from amqp_broker.links.frame_kinds import SINCE, FrameKind
from amqp_broker.links.levels import (
    DELETION_PROTECTION,
    FIRST_ONE_STAYS,
    LAST_ADMINISTRATOR,
    LAST_LETTERS,
    LEVEL,
    RACKS,
    REHOMING,
    SOME_MEMBERS,
    STREAMS,
    WORKERS,
)
from amqp_broker.metadata.commands import DEFAULTS, FIELDS
from tests.chaos.nodes import PROJECT_ROOT
from tests.upgrade.earlier import LEVEL_1, NoHistory, earlier_program

#: What is new in the metadata, and its level: commands, and fields of commands as "command field". `level.raise` is
#: written when all members speak the level that it raises to.
NEW_COMMANDS = {
    "level.raise": 2,
    "vhost.protect": DELETION_PROTECTION,
    "user.put leaves_administrator": LAST_ADMINISTRATOR,
    "user.delete leaves_administrator": LAST_ADMINISTRATOR,
    "global_parameter.set is_first": FIRST_ONE_STAYS,
    "partitions.declare": STREAMS,
    "queue.declare part_of": STREAMS,
    "queue.delete partition_ids": STREAMS,
    "group.members": SOME_MEMBERS,
    "queue.rehome": REHOMING,
    "member.workers": WORKERS,
    "member.rack": RACKS,
}
#: New kinds of entries of the journal, and of those of groups among them.
NEW_ENTRIES = {"LETTERS": LAST_LETTERS, "PLACED": STREAMS}

#: The constants that are compared: where they stand in the version before, and in this one.
VERSIONS = {
    "raft.wire VERSION": "raft.wire VERSION",
    "raft.memory _VERSION": "raft.memory _VERSION",
    "raft.configuration _VERSION": "raft.configuration _VERSION",
    "storage.records VERSION": "storage.records VERSION",
    "queues.quorum.commands VERSION": "queues.quorum.commands VERSION",
    "queues.quorum.image VERSION": "queues.quorum.image VERSION",
    "amqp_broker.proxies.effects_codec VERSION": "amqp_broker.queue_types.remote.effects_codec VERSION",
    "amqp_broker.reply_to _VERSION": "amqp_broker.routing.reply_to _VERSION",
    "amqp_broker.leases.peer_requests _VERSION": "amqp_broker.leases.peer_requests _VERSION",
    "amqp_broker.leases.app_note _VERSION": "amqp_broker.leases.app_note _VERSION",
    "amqp_broker.cluster.peer_handshake VERSION": "amqp_broker.links.peer_handshake VERSION",
}
#: Versions of octets that the version before does not read, each with what has the version that it reads, and the
#: level below which nobody makes such.
NEW_VERSIONS = {
    "queues.quorum.commands VERSION_WITH_STREAMS": ("queues.quorum.commands VERSION", STREAMS),
    "queues.quorum.image VERSION_WITH_STREAMS": ("queues.quorum.image VERSION", STREAMS),
}
ENTRIES = ("queues.store", "raft.journal_records", "raft.entry")

ASK = """
import amqp_broker, importlib, json, sys
commands, names, modules = json.load(sys.stdin)
found = importlib.import_module(commands)
value = lambda name: getattr(importlib.import_module(name.split()[0]), name.split()[1])
print(json.dumps({
    "fields": {op: list(fields) for op, fields in found.FIELDS.items()},
    "defaults": {op: list(fields) for op, fields in found.DEFAULTS.items()},
    "versions": [value(name) for name in names],
    "entries": {name: number for module in map(importlib.import_module, modules)
                for name, number in vars(module).items() if name.isupper() and name[0] != "_" and type(number) is int},
}))
"""


def forms_of(tree: Path, commands: str, names: list[str]) -> dict[str, object]:
    told = json.dumps([commands, names, ENTRIES])
    environment = {**os.environ, "PYTHONPATH": str(tree), "AMQP_BROKER_PLAIN": "1"}
    command = [sys.executable, "-P", "-c", ASK]
    done = subprocess.run(command, input=told, capture_output=True, text=True, env=environment, cwd=tree, check=True)
    forms: dict[str, object] = json.loads(done.stdout)
    return forms


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, object], dict[str, object]]:
    """Of the version before, and of this one."""
    try:
        earlier = earlier_program(LEVEL_1, tmp_path_factory.mktemp("forms") / "earlier")
    except NoHistory as error:
        pytest.skip(str(error))
    before = forms_of(earlier.tree, "amqp_broker.cluster.commands", list(VERSIONS))
    return before, forms_of(PROJECT_ROOT, "amqp_broker.metadata.commands", list(VERSIONS.values()))


Forms = tuple[dict[str, dict[str, list[str]]], dict[str, dict[str, list[str]]]]


def test_new_commands_of_the_metadata_have_a_level(both: Forms) -> None:
    before = both[0]["fields"]
    new = {op for op in FIELDS if op not in before}
    new |= {f"{op} {field}" for op in before for field in FIELDS[op] if field not in before[op]}
    assert new == set(NEW_COMMANDS)
    assert max(NEW_COMMANDS.values()) <= LEVEL


def test_commands_of_the_version_before_are_read(both: Forms) -> None:
    """None of them is gone, and none asks for more."""
    before, optional = both[0]["fields"], both[0]["defaults"]
    for op, fields in before.items():
        assert set(fields) <= set(FIELDS[op])
        assert set(optional.get(op, ())) <= set(DEFAULTS.get(op, {}))
        assert set(FIELDS[op]) - set(fields) <= set(DEFAULTS.get(op, {}))


def test_new_entries_of_the_journal_have_a_level(both: Forms) -> None:
    before, after = both[0]["entries"], both[1]["entries"]
    assert {name: number for name, number in after.items() if name in before} == before
    assert set(after) - set(before) == set(NEW_ENTRIES)


def test_no_layout_has_changed(both: Forms) -> None:
    """Whoever raises one of these: this version has to read the one before, and writes it below the new level."""
    assert both[1]["versions"] == both[0]["versions"]


@pytest.mark.parametrize("name", NEW_VERSIONS)
def test_what_the_version_before_does_not_read_has_another_version(name: str) -> None:
    before, level = NEW_VERSIONS[name]
    assert value_of(name) > value_of(before)
    assert level <= LEVEL


def value_of(name: str) -> int:
    """A constant, named by its module and itself."""
    module, constant = name.split()
    found: int = getattr(importlib.import_module(module), constant)
    return found


def test_new_frames_have_a_level() -> None:
    """Those of the version before have numbers up to 12 (tests/links/test_tenants.py has one of each)."""
    assert {kind for kind in FrameKind if kind > 12} == set(SINCE)

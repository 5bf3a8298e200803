"""The benchmark of the way of a message through three nodes: it carries what it says, and counts all of it."""

from __future__ import annotations

import pytest

from benchmarks.quorum_path import NAMES, PHASES, carry


@pytest.mark.parametrize("origin", NAMES[:2])
@pytest.mark.parametrize("acks_each", [False, True])
def test_messages_are_carried_and_every_phase_is_timed(origin: str, acks_each: bool) -> None:
    room = carry(origin, batch=7, messages=70, acks_each=acks_each)
    for name, node in room.nodes.items():
        own = {"submit", "effects"} if name == origin else set()
        leaders = {"propose"} if name == NAMES[0] else set()
        assert {phase for phase in PHASES if node.spent[phase]} == {"replicate", "apply", "write"} | own | leaders
        assert node.host.groups[1].is_leader == (name == NAMES[0])
        assert node.host.groups[1].last_applied == room.nodes[origin].host.groups[1].last_applied

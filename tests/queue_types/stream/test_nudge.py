"""What asks for a checkpoint says so again when nothing has come of it."""

from __future__ import annotations

from types import SimpleNamespace

from amqp_broker.queue_types.stream.nudge import Nudge
from queues.stream.commands import Trim


class _Group:
    """Takes a checkpoint only when something was applied."""

    def __init__(self) -> None:
        self.is_applied = False
        self.submitted: list[Trim] = []
        self.raft = SimpleNamespace(take_checkpoint=lambda: self.is_applied)

    def submit(self, command: Trim) -> None:
        self.submitted.append(command)


def _nudge() -> tuple[Nudge, _Group, SimpleNamespace]:
    group, clock = _Group(), SimpleNamespace(now=1_000_000)
    return Nudge(SimpleNamespace(queue_id=7, group=group), clock), group, clock


def test_something_is_written_once_while_it_is_waited_for() -> None:
    nudge, group, clock = _nudge()
    for _ in range(10):
        assert not nudge.takes()
        clock.now += 100
    assert group.submitted == [Trim(7, 0)]


def test_what_was_lost_on_its_way_is_written_again() -> None:
    nudge, group, clock = _nudge()
    assert not nudge.takes()
    clock.now += 5000
    assert not nudge.takes()
    assert len(group.submitted) == 2
    group.is_applied = True
    assert nudge.takes()
    group.is_applied = False
    assert not nudge.takes()
    assert len(group.submitted) == 3

"""TransientQueues: in which pieces queues go, and when a round ends without them."""

from __future__ import annotations

from amqp_broker.cluster.transient_queues import AHEAD, TransientQueues
from amqp_broker.metadata import commands
from amqp_broker.metadata.commands import Command
from amqp_broker.metadata.metadata import Metadata
from amqp_broker.metadata.stream import Proposal, Then


class Log:
    """What is proposed is applied when a test says so."""

    def __init__(self, queues: int) -> None:
        self.metadata = Metadata()
        self.metadata.apply(commands.put_vhost("v"))
        self.proposals: list[Proposal] = []
        self.applied = 0
        self.transients = TransientQueues(self.metadata, self.propose)
        for number in range(queues):
            self.declare(f"q{number}")

    def declare(self, name: str) -> None:
        assert self.metadata.apply(commands.declare_queue("v", name, 1, durable=False, home="n2"))

    def propose(self, command: Command, then: Then | None) -> Proposal:
        self.proposals.append(Proposal(len(self.proposals) + 1, command, then))
        return self.proposals[-1]

    def apply(self) -> list[str]:
        """All that has been proposed. Returns what it was."""
        said = []
        for proposal in self.proposals[self.applied :]:
            self.applied += 1
            said.append(str(proposal.command["op"]))
            self.metadata.apply(proposal.command)
            self.transients.applied(self.applied)
        return said


def test_they_go_in_pieces_and_the_last_command_comes_behind_them() -> None:
    log = Log(2 * AHEAD + 1)
    log.transients.delete("n2", commands.node_gone("n2"))
    log.transients.delete("n2", commands.node_gone("n2"))  # one round at a time
    assert log.apply() == ["queue_id.reserve"]
    assert log.apply() == ["queue.delete"] * AHEAD
    assert log.apply() == ["queue.delete"] * AHEAD
    assert log.apply() == ["queue.delete"]
    assert log.apply() == ["node.gone"]
    assert log.apply() == []
    log.transients.delete("n2", commands.node_gone("n2"))
    assert log.apply() == ["queue_id.reserve"]
    assert log.apply() == ["node.gone"]


def test_whoever_is_back_keeps_the_rest() -> None:
    log = Log(AHEAD + 10)
    is_away = True
    log.transients.delete("n2", commands.node_gone("n2"), goes_on=lambda: is_away)
    log.apply()
    is_away = False
    assert log.apply() == ["queue.delete"] * AHEAD
    assert log.apply() == []
    assert len(log.metadata.transients("n2")) == 10


def test_what_is_declared_meanwhile_is_left_to_the_last_command() -> None:
    log = Log(3)
    log.transients.delete("n2", commands.node_started("n2"))
    log.apply()
    log.declare("new")
    assert log.apply() == ["queue.delete"] * 3
    assert [queue.name for queue in log.metadata.transients("n2")] == ["new"]
    assert log.apply() == ["node.started"]
    assert log.metadata.transients("n2") == []

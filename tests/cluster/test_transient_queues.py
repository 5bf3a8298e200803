"""TransientQueues: in which pieces queues go, and when a round ends without them."""

from __future__ import annotations

from amqp_broker.cluster.transient_queues import AHEAD, TransientQueues
from amqp_broker.metadata import commands
from amqp_broker.metadata.commands import Command
from amqp_broker.metadata.entities import BindingRecord
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

    def bind(self, source: str, kind: str, name: str) -> None:
        assert self.metadata.apply(commands.add_binding("v", BindingRecord(source, kind, name, "", b"")))

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


def test_exchanges_of_a_node_that_starts_go_in_pieces_too() -> None:
    """Those that the queues were bound to, and those that these were bound to; looked at when all queues are gone."""
    log = Log(AHEAD + 1)
    for number in range(AHEAD + 1):
        for name in (f"e{number}", f"f{number}"):
            log.metadata.apply(commands.declare_exchange("v", name, "fanout", auto_delete=True))
        log.bind(f"e{number}", "queue", f"q{number}")
        log.bind(f"f{number}", "exchange", f"e{number}")
    log.bind("f7", "exchange", "amq.fanout")
    log.transients.delete("n2", commands.node_started("n2"), is_starting=True)
    log.apply()
    assert log.apply() == ["queue.delete"] * AHEAD
    assert log.apply() == ["queue.delete"]
    said: list[str] = []
    while "node.started" not in said:
        piece = log.apply()
        assert 0 < len(piece) <= AHEAD
        said += piece
    assert (said.count("exchange.delete"), said[-1]) == (2 * AHEAD + 1, "node.started")
    left = [each.name for each in log.metadata.exchanges("v") if each.auto_delete]
    assert left == ["f7"]


def test_an_exchange_that_leads_elsewhere_holds_up_nothing() -> None:
    log = Log(1)
    log.metadata.apply(commands.declare_exchange("v", "e", "fanout", auto_delete=True))
    log.metadata.apply(commands.declare_queue("v", "kept", 1, home="n1"))
    log.bind("e", "queue", "q0")
    log.bind("e", "queue", "kept")
    log.transients.delete("n2", commands.node_started("n2"), is_starting=True)
    assert [log.apply() for _ in range(4)] == [
        ["queue_id.reserve"], ["queue.delete"], ["queue_id.reserve"], ["node.started"],
    ]  # fmt: skip
    assert log.metadata.exchange("v", "e") is not None


def test_what_is_declared_meanwhile_is_left_to_the_last_command() -> None:
    log = Log(3)
    log.transients.delete("n2", commands.node_started("n2"))
    log.apply()
    log.declare("new")
    assert log.apply() == ["queue.delete"] * 3
    assert [queue.name for queue in log.metadata.transients("n2")] == ["new"]
    assert log.apply() == ["node.started"]
    assert log.metadata.transients("n2") == []


def test_exchanges_that_are_not_durable_go_in_pieces_when_all_there_is_starts() -> None:
    """With an auto-delete exchange that led only to them; of another start they stay."""
    log = Log(1)
    log.metadata.apply(commands.put_vhost("w"))
    log.metadata.apply(commands.declare_exchange("w", "kept", "fanout"))
    log.metadata.apply(commands.declare_exchange("v", "source", "fanout", auto_delete=True))
    names = [f"e{number}" for number in range(2 * AHEAD + 1)]
    for name in names:
        log.metadata.apply(commands.declare_exchange("v", name, "fanout", durable=False))
    log.bind("source", "exchange", "e0")
    log.transients.delete("n2", commands.node_started("n2"), is_starting=True)
    assert [log.apply() for _ in range(3)] == [["queue_id.reserve"], ["queue.delete"], ["node.started"]]
    assert log.metadata.exchange("v", "e0") is not None
    log.transients.delete("n2", commands.node_started("n2"), is_starting=True, with_exchanges=True)
    assert [log.apply() for _ in range(6)] == [
        ["queue_id.reserve"], ["exchange.delete"] * AHEAD, ["exchange.delete"] * AHEAD, ["exchange.delete"],
        ["exchange.delete"], ["node.started"],
    ]  # fmt: skip
    left = [each.name for vhost in ("v", "w") for each in log.metadata.exchanges(vhost) if not each.is_predeclared]
    assert left == ["kept"]


def test_very_many_exchanges_are_looked_at_in_pieces() -> None:
    log = Log(0)
    for number in range(5000):
        log.metadata.apply(commands.declare_exchange("v", f"e{number}", "fanout", durable=number != 4999))
    log.transients.delete("n2", commands.node_started("n2"), is_starting=True, with_exchanges=True)
    assert [log.apply() for _ in range(4)] == [
        ["queue_id.reserve"], ["queue_id.reserve"], ["exchange.delete"], ["node.started"],
    ]  # fmt: skip

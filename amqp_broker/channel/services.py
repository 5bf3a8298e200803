"""ChannelServices: what the channels of a node, and the handlers of their methods, use of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amqp_broker.audit.audit_log import AuditLog
    from amqp_broker.channel.assemblies import Assemblies
    from amqp_broker.channel.confirms import Confirming
    from amqp_broker.channel.publisher import Publisher
    from amqp_broker.flow.message_sizes import MessageSizes
    from amqp_broker.flow.pauses import Pauses
    from amqp_broker.flow.pending_answers import PendingAnswers
    from amqp_broker.flow.turn_share import TurnShare
    from amqp_broker.metadata.commands import Command
    from amqp_broker.metadata.metadata import Metadata
    from amqp_broker.metadata.stream import Proposal
    from amqp_broker.routing.dead_letters import DeadLetters
    from amqp_broker.routing.reply_to import ReplyConsumers
    from amqp_broker.turn.clock import TurnClock
    from amqp_broker.vhosts.declarations import Declarations
    from amqp_broker.vhosts.held_queues import HeldQueues
    from queues.background import Background
    from queues.pager import Pager
    from queues.store import MessageStore
    from queues.timers import Timers


@dataclass(frozen=True, slots=True)
class ChannelServices:
    """One for each node. propose(command, then): have it applied on all nodes. settling(): the Proposal, if any, that
    the other nodes have still to apply before they know what this one does."""

    clock: TurnClock
    timers: Timers
    background: Background
    store: MessageStore
    pager: Pager
    metadata: Metadata
    declarations: Declarations
    publisher: Publisher
    reply_consumers: ReplyConsumers
    dead_letters: DeadLetters
    assemblies: Assemblies
    confirming: Confirming
    answers: PendingAnswers
    pauses: Pauses
    turn_share: TurnShare
    message_sizes: MessageSizes
    random_bytes: Callable[[int], bytes]
    propose: Callable[[Command, Callable[[object], None]], Proposal]
    settling: Callable[[], Proposal | None]
    audit: AuditLog
    held: HeldQueues

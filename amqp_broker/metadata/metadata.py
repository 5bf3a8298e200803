"""Metadata: the state machine of all that outlives a restart, save messages.

Vhosts, users, permissions, policies, parameters, exchanges, queues, bindings. It is fed by a log of commands
(commands.py) and is the same on every node that has applied the same commands. It knows no AMQP error, no clock,
no disk and no other node: whether a command makes sense is checked before it is proposed. One that has been
overtaken (its vhost is gone, its name is taken) changes nothing, and the proposer sees so by looking.

Invariants:
1. `apply` depends on the state and the command only; applied twice in a row, a command changes nothing the second time.
2. A queue id is used once: ids of declared queues rise, also across deletions (`next_queue_id`).
3. Nothing refers to what is not there: permissions to their user and vhost, bindings to both of their ends.
4. Each look-up by name or id costs the same whatever the number of things; each listing is in the order of creation.
5. A machine that applies all of `snapshot()` in an empty state is equal to this one, the orders included.
6. `access_generation` rises when users or permissions change, `policy_generation` when policies do: while
   one stays equal, what was computed from it stays true.
7. Where members are known, no queue is declared that lives on a node that is none; with a member go the queues that
   live there, if its removal says so.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Generator, Iterator, Mapping
from itertools import chain
from operator import attrgetter
from sys import intern

from amqp_broker.metadata import commands
from amqp_broker.metadata.access import Access
from amqp_broker.metadata.app_records import AppRecords
from amqp_broker.metadata.commands import Command
from amqp_broker.metadata.entities import (
    BindingRecord,
    ExchangeRecord,
    GlobalParameter,
    Parameter,
    Policy,
    QueueRecord,
    VHost,
    is_same,
)
from amqp_broker.metadata.group_members import GroupMembers
from amqp_broker.metadata.member_workers import MemberWorkers
from amqp_broker.metadata.partitions import Partitions
from amqp_broker.metadata.queue_index import QueueIndex
from amqp_broker.metadata.snapshot import describe_queue, lines_of, snapshot_of
from amqp_broker.metadata.vhost_state import VHostState
from amqp_broker.settings.kinds import WORKER_MARK
from amqp_broker.settings.workers import node_of_worker
from exchanges.bindings import EXCHANGE, QUEUE
from exchanges.router import Later, at_once

#: So much of a draft is made at a time.
_SLICE = 16


class Metadata(GroupMembers, MemberWorkers, Access, AppRecords, Partitions):
    """The machine. Commands go in through `apply`; everything else looks and changes nothing. later: gets what is to be
    done in slices, and shows in nothing."""

    def __init__(self, later: Later = at_once) -> None:
        super().__init__()
        self._later = later
        self._vhosts: dict[str, VHostState] = {}
        self._global_parameters: dict[str, GlobalParameter] = {}
        self._queues = QueueIndex(self._vhosts)
        self._next_queue_id = 1
        self._dropped: list[QueueRecord] = []
        self._members: dict[str, str] = {}
        self._identities: dict[str, str] = {}  # of those members' folders of which one was told
        self._level = 1
        self.policy_generation = 0
        self._handlers: dict[str, Callable[[Command], bool]] = {
            "vhost.put": self._put_vhost,
            "vhost.limits": self._limit_vhost,
            "vhost.protect": self._protect_vhost,
            "vhost.delete": self._delete_vhost,
            **self.access_handlers(),
            "policy.set": self._set_policy,
            "policy.clear": self._clear_policy,
            "operator_policy.set": self._set_policy,
            "operator_policy.clear": self._clear_policy,
            "parameter.set": self._set_parameter,
            "parameter.clear": self._clear_parameter,
            "global_parameter.set": self._set_global_parameter,
            "global_parameter.clear": self._clear_global_parameter,
            "exchange.declare": self._declare_exchange,
            "exchange.number": self._number_exchange,
            "exchange.delete": self._delete_exchange,
            "queue.declare": self.declare_queue,
            "queue.delete": self._delete_queue,
            **self.partition_handlers(),
            "queue.rehome": self._rehome_queue,
            "queue_id.reserve": self._reserve_queue_ids,
            **self.app_handlers(),
            "binding.add": self._add_binding,
            "binding.remove": self._remove_binding,
            "node.started": self._drop_transients,
            "node.gone": self._drop_transients,
            "member.put": self._put_member,
            "member.add": self._add_member,
            "member.remove": self._remove_member,
            "level.raise": self._raise_level,
            **self.group_handlers(),
            **self.worker_handlers(),
            **self.rack_handlers(),
        }

    def apply(self, command: Command) -> bool:
        """Applies one command. True: something changed. False: it was so already, or was overtaken.

        Raises ValueError where the command has no known form, and only then; nothing has changed then.
        """
        commands.check_command(command)
        return self._handlers[command["op"]](command)

    def snapshot(self) -> list[Command]:
        """The commands that make this state out of an empty one."""
        return snapshot_of(self)

    def snapshot_lines(self) -> list[bytes]:
        """The same, each as JSON. Those of queues and bindings were made when these were declared: there may be very
        many, and a checkpoint is taken within a turn."""
        return lines_of(self)

    def queue_lines(self) -> list[bytes]:
        """See `snapshot_lines`; in the order of `all_queues`."""
        return self._queues.lines()

    def binding_lines(self, vhost: str) -> list[bytes]:
        """See `snapshot_lines`; in the order of `bindings`."""
        return self._vhosts[vhost].bindings.lines()

    def become(self, other: Metadata) -> None:
        """Take over the state of another machine, which is not to be used any more. The generations rise."""
        self._let_go_later(self.let_go())
        access, policy = self.access_generation, self.policy_generation
        groups, places = self.group_generation, self.place_generation
        handlers, later = self._handlers, self._later
        self.__dict__.update(other.__dict__)
        self._handlers, self._later = handlers, later
        self.access_generation, self.policy_generation = access + 1, policy + 1
        self.group_generation = groups + 1
        self.place_generation = places + 1

    def drafting(self, other: Metadata) -> Generator[None, None, None]:
        """Make a draft of a new machine, in slices: the same state, but for its bindings, of which it has none, to try
        commands out on. Exchanges and queues are as they are when they are come to."""
        for name in list(self._vhosts):
            if name in self._vhosts:
                other._vhosts[name] = self._vhosts[name].draft()
            yield
        self.copy_access_to(other)
        self.copy_groups_to(other)
        self.copy_workers_to(other)
        self.copy_racks_to(other)
        other._global_parameters = dict(self._global_parameters)
        other._members = dict(self._members)
        other._identities = dict(self._identities)
        other._level = self._level
        other.policy_generation = self.policy_generation
        yield
        for name, drafted in other._vhosts.items():
            place, exchanges = self.exchanges_after(name, 0, _SLICE)
            while exchanges:
                for exchange in exchanges:
                    drafted.put_exchange(exchange)
                yield
                place, exchanges = self.exchanges_after(name, place, _SLICE)
        before, (block, queues) = 0, self.queues_after(0)
        while block != before:
            for number, each in enumerate(queues, 1):
                queue = self._queues.get(each.queue_id)
                if queue is not None and queue.vhost in other._vhosts:
                    known = other.queue(queue.vhost, queue.name)
                    if known is not None and known.queue_id != queue.queue_id:
                        other._queues.remove(known)  # it has another id since
                    other._queues.put(queue, self._queues.line(queue.queue_id))
                if number % _SLICE == 0:
                    yield
            yield
            before, (block, queues) = block, self.queues_after(block)
        other._next_queue_id = self._next_queue_id

    def let_go(self) -> Iterator[None]:
        """Forget, in slices, what there may be very many of in this state, which nobody needs any more: that of a draft
        that was tried, or the one that another takes the place of."""
        return chain(self._queues.let_go(), *(state.let_go() for state in self._vhosts.values()))

    # Vhosts (users and what they may do are in access.py)

    def has_vhost(self, name: str) -> bool:
        return name in self._vhosts

    def vhost(self, name: str) -> VHost | None:
        state = self._vhosts.get(name)
        return state.vhost if state else None

    def vhosts(self) -> list[VHost]:
        return [state.vhost for state in self._vhosts.values()]

    def _put_vhost(self, command: Command) -> bool:
        name = command["vhost"]
        state = self._vhosts.get(name)
        vhost = VHost(
            name,
            command["description"],
            tuple(command["tags"]),
            command["default_queue_type"],
            command["tracing"],
            state.vhost.limits if state else {},
            state is not None and state.vhost.is_protected,
        )
        if state is None:
            self._vhosts[name] = VHostState(vhost)
            return True
        changed = state.vhost != vhost
        state.vhost = vhost
        return changed

    def _limit_vhost(self, command: Command) -> bool:
        state = self._vhosts.get(command["vhost"])
        if state is None or state.vhost.limits == command["limits"]:
            return False
        state.vhost = state.vhost._replace(limits=dict(command["limits"]))
        return True

    def _protect_vhost(self, command: Command) -> bool:
        state = self._vhosts.get(command["vhost"])
        if state is None or state.vhost.is_protected == command["is_protected"]:
            return False
        state.vhost = state.vhost._replace(is_protected=command["is_protected"])
        return True

    def _delete_vhost(self, command: Command) -> bool:
        name = command["vhost"]
        state = self._vhosts.get(name)
        if state is None or state.vhost.is_protected:
            return False
        del self._vhosts[name]
        self._let_go_later(chain(self._queues.remove_vhost(state), state.let_go()))
        self.drop_permissions(1, name)
        self.access_generation += 1
        self.policy_generation += 1
        return True

    # Policies and parameters

    def policies(self, vhost: str) -> list[Policy]:
        state = self._vhosts.get(vhost)
        return list(state.policies.values()) if state else []

    def operator_policies(self, vhost: str) -> list[Policy]:
        state = self._vhosts.get(vhost)
        return list(state.operator_policies.values()) if state else []

    def parameters(self, vhost: str) -> list[Parameter]:
        state = self._vhosts.get(vhost)
        return list(state.parameters.values()) if state else []

    def parameter(self, vhost: str, component: str, name: str) -> Parameter | None:
        state = self._vhosts.get(vhost)
        return state.parameters.get((component, name)) if state else None

    def global_parameters(self) -> list[GlobalParameter]:
        return list(self._global_parameters.values())

    def global_parameter(self, name: str) -> GlobalParameter | None:
        return self._global_parameters.get(name)

    def _policies_of(self, command: Command) -> dict[str, Policy] | None:
        state = self._vhosts.get(command["vhost"])
        if state is None:
            return None
        return state.operator_policies if command["op"].startswith("operator_") else state.policies

    def _set_policy(self, command: Command) -> bool:
        policies = self._policies_of(command)
        policy = Policy(
            command["vhost"],
            command["name"],
            command["pattern"],
            command["apply_to"],
            command["priority"],
            copy.deepcopy(command["definition"]),
        )
        if policies is None or is_same(policies.get(policy.name), policy, "definition"):
            return False
        policies[policy.name] = policy
        self.policy_generation += 1
        return True

    def _clear_policy(self, command: Command) -> bool:
        policies = self._policies_of(command)
        if policies is None or policies.pop(command["name"], None) is None:
            return False
        self.policy_generation += 1
        return True

    def _set_parameter(self, command: Command) -> bool:
        state = self._vhosts.get(command["vhost"])
        key, value = (command["component"], command["name"]), copy.deepcopy(command["value"])
        parameter = Parameter(command["vhost"], *key, value)
        if state is None or is_same(state.parameters.get(key), parameter, "value"):
            return False
        state.parameters[key] = parameter
        return True

    def _clear_parameter(self, command: Command) -> bool:
        state = self._vhosts.get(command["vhost"])
        key = (command["component"], command["name"])
        return state is not None and state.parameters.pop(key, None) is not None

    def _set_global_parameter(self, command: Command) -> bool:
        parameter = GlobalParameter(command["name"], copy.deepcopy(command["value"]))
        known = self._global_parameters.get(parameter.name)
        if is_same(known, parameter, "value") or (known is not None and command.get("is_first")):
            return False
        self._global_parameters[parameter.name] = parameter
        return True

    def _clear_global_parameter(self, command: Command) -> bool:
        return self._global_parameters.pop(command["name"], None) is not None

    # Exchanges, queues and bindings

    @property
    def next_queue_id(self) -> int:
        """The lowest id that a new queue may have."""
        return self._next_queue_id

    def exchange(self, vhost: str, name: str) -> ExchangeRecord | None:
        state = self._vhosts.get(vhost)
        return state.exchanges.get(name) if state else None

    def exchanges(self, vhost: str) -> list[ExchangeRecord]:
        """All exchanges of the vhost, the predeclared ones first."""
        state = self._vhosts.get(vhost)
        return state.exchanges_after(0, len(state.exchanges))[1] if state else []

    def exchanges_after(self, vhost: str, place: int, most: int) -> tuple[int, list[ExchangeRecord]]:
        """As `exchanges`, so many at most behind this place, and the last one's: for who goes through all of them in
        slices. 0 is before the first."""
        state = self._vhosts.get(vhost)
        return state.exchanges_after(place, most) if state else (place, [])

    def queue(self, vhost: str, name: str) -> QueueRecord | None:
        state = self._vhosts.get(vhost)
        return state.queues.get(name) if state else None

    def queue_by_id(self, queue_id: int) -> QueueRecord | None:
        return self._queues.get(queue_id)

    def all_queues(self) -> list[QueueRecord]:
        """Those of all virtual hosts, in the order of their ids."""
        return self._queues.all()

    def queues_after(self, block: int) -> tuple[int, list[QueueRecord]]:
        """As `bindings_after`, of all virtual hosts, by their ids."""
        return self._queues.after(block)

    def queues(self, vhost: str) -> list[QueueRecord]:
        """In the order of their ids."""
        state = self._vhosts.get(vhost)
        return sorted(state.queues.values(), key=attrgetter("queue_id")) if state else []

    def queue_count(self, vhost: str) -> int:
        state = self._vhosts.get(vhost)
        return len(state.queues) if state else 0

    def bindings(self, vhost: str) -> list[BindingRecord]:
        state = self._vhosts.get(vhost)
        return state.bindings.all() if state else []

    def bindings_after(self, vhost: str, block: int) -> tuple[int, list[BindingRecord]]:
        """Some, maybe none, of which the first are behind block 0, and where the next ones begin: for who goes through
        all of them in slices. The same block: there are no more."""
        state = self._vhosts.get(vhost)
        return state.bindings.after(block) if state else (block, [])

    def has_binding(self, vhost: str, binding: BindingRecord) -> bool:
        """Whether this very binding is there, octet for octet."""
        state = self._vhosts.get(vhost)
        return state is not None and binding in state.bindings

    def bindings_to(self, vhost: str, destination_kind: str, destination: str) -> list[BindingRecord]:
        state = self._vhosts.get(vhost)
        return state.bindings.to_destination(destination_kind, destination) if state else []

    def may_go_with_queue(self, vhost: str, queue: str) -> list[str]:
        """The auto-delete exchanges that are bound to it."""
        return self._auto_delete_sources(vhost, QUEUE, queue)

    def may_go_with_exchange(self, vhost: str, exchange: str) -> list[str]:
        """The auto-delete exchanges that are bound to it."""
        return self._auto_delete_sources(vhost, EXCHANGE, exchange)

    def _auto_delete_sources(self, vhost: str, destination_kind: str, destination: str) -> list[str]:
        state = self._vhosts.get(vhost)
        names = state.bindings.sources_of(destination_kind, destination) if state else []
        return [name for name in names if state is not None and state.exchanges[name].auto_delete]

    def is_source(self, vhost: str, exchange: str) -> bool:
        """Whether anything is bound to an exchange."""
        state = self._vhosts.get(vhost)
        return state is not None and state.bindings.has_source(exchange)

    def _declare_exchange(self, command: Command) -> bool:
        state = self._vhosts.get(command["vhost"])
        if state is None or command["name"] in state.exchanges:
            return False
        number = 0
        if command.get("numbered", False):
            number = self._next_queue_id
            self._next_queue_id += 1
        state.put_exchange(
            ExchangeRecord(
                state.vhost.name,
                command["name"],
                command["type"],
                command["auto_delete"],
                command["internal"],
                commands.decode_arguments(command["arguments_raw"]),
                durable=command.get("durable", True),
                number=number,
            )
        )
        return True

    def _number_exchange(self, command: Command) -> bool:
        exchange, number = self.exchange(command["vhost"], command["name"]), command["number"]
        if exchange is None or exchange.is_predeclared or exchange.number == number:
            return False
        self._vhosts[exchange.vhost].put_exchange(exchange._replace(number=number))
        self._next_queue_id = max(self._next_queue_id, number + 1)
        return True

    def _delete_exchange(self, command: Command) -> bool:
        exchange = self.exchange(command["vhost"], command["name"])
        if exchange is None or exchange.is_predeclared:
            return False
        state = self._vhosts[exchange.vhost]
        state.remove_exchange(exchange.name)
        self._forget_later(state)
        return True

    def _forget_later(self, state: VHostState) -> None:
        """What is left of bindings that are gone with very many others is forgotten in slices."""
        if state.bindings.wants_slices():
            self._later(lambda now: state.bindings.forget())

    def _let_go_later(self, steps: Iterator[None]) -> None:
        """What nobody needs any more is forgotten in slices."""
        self._later(lambda now: next(steps, False) is None)

    def declare_queue(self, command: Command) -> bool:
        """See Partitions."""
        state = self._vhosts.get(command["vhost"])
        home = command.get("home", "")
        if state is None or command["name"] in state.queues or not self.may_be_home(home):
            return False
        # Another node may have been faster: the id that was proposed is the lowest that may be given.
        queue_id = max(command["queue_id"], self._next_queue_id)
        queue = QueueRecord(
            state.vhost.name,
            command["name"],
            queue_id,
            intern(command["type"]),  # of these there are few, and of queues very many
            command["auto_delete"],
            commands.decode_arguments(command["arguments_raw"]),
            durable=command.get("durable", True),
            exclusive=command.get("exclusive", False),
            home=intern(home),
            part_of=command.get("part_of", ""),
        )
        self.replace_queue(queue)
        self._next_queue_id = queue_id + 1
        return True

    def replace_queue(self, queue: QueueRecord) -> None:
        """See Partitions."""
        self._queues.put(queue, commands.encode(describe_queue(queue)))

    def _delete_queue(self, command: Command) -> bool:
        queue = self.queue(command["vhost"], command["name"])
        if queue is None or queue.queue_id != command["queue_id"]:
            return False
        state = self._vhosts[queue.vhost]
        known = self.partitions(queue.vhost, queue.name)
        for one in (queue, *[each for each in known if each.queue_id in command.get("partition_ids", ())]):
            self._queues.remove(one)
            state.bindings.remove_destination(QUEUE, one.name)
        self._forget_later(state)
        return True

    def _rehome_queue(self, command: Command) -> bool:
        queue, queue_id = self.queue(command["vhost"], command["name"]), command["new_queue_id"]
        if queue is None or queue.queue_id != command["queue_id"] or not self.may_be_home(command["home"]):
            return False
        if queue_id >= self._next_queue_id or self._queues.get(queue_id) is not None:
            return False
        self._queues.remove(queue)
        self.replace_queue(queue._replace(queue_id=queue_id, home=command["home"]))
        return True

    def _reserve_queue_ids(self, command: Command) -> bool:
        if command["next_queue_id"] <= self._next_queue_id:
            return False
        self._next_queue_id = command["next_queue_id"]
        return True

    def transients(self, node: str) -> list[QueueRecord]:
        """The queues of a node, or of one of its workers, that do not survive its restart."""
        return self._queues.transients(node)

    def some_transients(self, node: str, most: int, below: int) -> list[QueueRecord]:
        """So many of them, at most, in any order, whose ids are below this one."""
        return self._queues.some_transients(node, most, below)

    def take_dropped(self) -> list[QueueRecord]:
        """Those that went with their node by the last command that was applied, once."""
        dropped, self._dropped = self._dropped, []
        return dropped

    def _drop_transients(self, command: Command) -> bool:
        """One that has started, or is gone, is this process: the other workers of its node go on."""
        return self._drop_queues(self.transients(command["node"]))

    def _drop_queues(self, queues: list[QueueRecord]) -> bool:
        for queue in queues:
            self._delete_queue({"vhost": queue.vhost, "name": queue.name, "queue_id": queue.queue_id})
        self._dropped = queues
        return bool(queues)

    def queues_at(self, node: str, with_workers: bool = False) -> list[QueueRecord]:
        """All queues that live on a node, or on one of its workers. with_workers: on all that are of the node."""
        queues = self._queues.all()
        if with_workers:
            beside = node + WORKER_MARK
            return [queue for queue in queues if queue.home == node or queue.home.startswith(beside)]
        return [queue for queue in queues if queue.home == node]

    def count_at(self, node: str) -> int:
        """How many queues live on a node, or on one of its workers."""
        return self._queues.count_at(node)

    def may_be_home(self, node: str) -> bool:
        """Whether a queue or an app may live there: nobody who is no member (any more) is anybody's home."""
        return not node or not self._members or node_of_worker(node) in self._members

    def members(self) -> Mapping[str, str]:
        """The addresses, HOST:PORT, of the nodes of which one was told, by name."""
        return self._members

    def identity_of(self, node: str) -> str:
        """Of the folder that a member was added with, hexadecimal; "" of one that was added without, or is none."""
        return self._identities.get(node, "")

    def _put_member(self, command: Command) -> bool:
        node, address, known = command["node"], command["address"], self.identity_of(command["node"])
        identity = command.get("identity") or known
        if self._members.get(node) == address and identity == known:
            return False
        is_new = node not in self._members
        self._members[node] = address
        self.place_generation += 1
        if identity:
            self._identities[node] = identity
        if is_new:
            self.fill_groups()
        return True

    def _add_member(self, command: Command) -> bool:
        node = command["node"]
        is_another = node in self._members and self.identity_of(node) != command["identity"]
        return not is_another and self._put_member(command)

    def _remove_member(self, command: Command) -> bool:
        node, fate = command["node"], command.get("queues", commands.KEEP)
        if node not in self._members or (command.get("expected") and set(command["expected"]) != set(self._members)):
            return False
        queues = self.queues_at(node, with_workers=True) if node and fate != commands.KEEP else []
        if fate == commands.REFUSE and any(queue.durable for queue in queues):
            return False
        del self._members[node]
        self._identities.pop(node, None)
        self._drop_queues(queues)
        self.drop_workers_of(node)
        self.drop_rack_of(node)
        self.drop_apps_of(node)
        self.drop_group_member(node)
        return True

    @property
    def level(self) -> int:
        """Which forms nodes use towards each other and on their disks; it never falls."""
        return self._level

    def _raise_level(self, command: Command) -> bool:
        if command["level"] <= self._level:
            return False
        self._level = command["level"]
        return True

    def _add_binding(self, command: Command) -> bool:
        state = self._vhosts.get(command["vhost"])
        if state is None:
            return False
        source = state.exchanges.get(command["source"])
        ends = state.queues if command["destination_kind"] == QUEUE else state.exchanges
        destination = ends.get(command["destination"])
        if source is None or destination is None:
            return False
        # The names of the two ends are taken from there: of many bindings, each keeps no copy of its own.
        kind = QUEUE if command["destination_kind"] == QUEUE else EXCHANGE
        raw = commands.decode_arguments(command["arguments_raw"])
        binding = BindingRecord(source.name, kind, destination.name, command["binding_key"], raw)
        if binding in state.bindings:
            return False
        return state.bindings.add(binding, commands.encode(commands.add_binding(state.vhost.name, binding)))

    def _remove_binding(self, command: Command) -> bool:
        state = self._vhosts.get(command["vhost"])
        return state is not None and state.bindings.remove(
            BindingRecord(
                command["source"],
                command["destination_kind"],
                command["destination"],
                command["binding_key"],
                commands.decode_arguments(command["arguments_raw"]),
            )
        )

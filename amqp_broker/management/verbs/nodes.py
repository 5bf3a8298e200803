"""NodeVerbs: what is asked of a node itself: who one is, how it is, whether somebody may log in.

A node is all of its workers: an alarm of one of them is the node's, limits and what is used of them are sums, and of a
group its worker knows how it is. Who does not answer in time is left out.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from amqp_broker.auth.users import LoginOutcome
from amqp_broker.management.queue_walk import queues_in_slices
from amqp_broker.management.refused import NOT_AUTHORISED, Refused
from amqp_broker.management.verbs.cluster import MAX_LISTED_QUEUES
from amqp_broker.metadata.cluster_identity import cluster_name
from amqp_broker.protocol.json_values import JsonObject
from amqp_broker.queue_types.register import lives_in_groups
from amqp_broker.settings.config import SETTINGS
from amqp_broker.settings.workers import are_beside, node_of_worker
from amqp_broker.turn.task import Steps
from amqp_broker.version import __version__
from exchanges.registry import EXCHANGE_TYPES

if TYPE_CHECKING:
    from amqp_broker.cluster.replication import Replication
    from amqp_broker.connection.logins import AskedLogin
    from amqp_broker.management.node_counts import NodeCounts
    from amqp_broker.management.peer_questions import PeerQuestions
    from amqp_broker.management.request import Request
    from raft.group import Group

#: So many virtual hosts, or queues, are looked at in one slice.
_SLICE = 64


class NodeVerbs:
    """See the module's docstring."""

    def __init__(self, counts: NodeCounts, replication: Replication, peers: PeerQuestions) -> None:
        self._counts = counts
        self._node_name = counts.config.node_name
        self._broker = counts.broker
        self._metadata = counts.broker.metadata
        self._groups = counts.groups
        self._pager = counts.store.pager
        self._clock = counts.broker.clock
        self._logins = counts.logins
        self._said = counts.facts
        self._peers = peers
        peers.serve({"node": self._serve_facts, "alarms": self._serve_alarms})
        self._replication = replication
        config = counts.config
        #: One that is left over, when there are to be fewer workers, gets none.
        self._takes_clients = not config.has_workers or config.worker < config.workers
        self.verbs: dict[str, Callable[[Request], Steps]] = {
            "whoami": self._whoami,
            "login": self._login,
            "node": self._describe,
            "node.settings": self._settings,
            "health": self._health,
        }

    def _whoami(self, request: Request) -> Steps:
        """With the virtual hosts that are the user's own."""
        asker, broker = request.asker, self._broker
        vhosts: list[str] = []
        for names in broker.vhost_names.in_slices(_SLICE):
            vhosts += [name for name in names if asker.owns(name)]
            yield None
        return {"name": asker.name, "tags": list(asker.tags), "vhosts": vhosts}

    def _settings(self, request: Request) -> Steps:
        """Those that are in force at this node, as a person writes them; secrets are covered."""
        settings: JsonObject = {}
        for number, each in enumerate(SETTINGS, 1):
            if not each.is_hidden:
                settings[each.key] = each.show(getattr(self._counts.config, each.attribute))
            if number % _SLICE == 0:
                yield None
        return {"settings": settings}

    def _login(self, request: Request) -> Steps:
        """Whether a user may come in from a host with a password: as with AMQP, off the loop, and with its back-off. It
        is asked at once: the turn that is going on hands it out."""
        user, password, host = request.text("user"), request.text("password"), request.text("host")
        return self._decide(self._logins.ask(user, password, host))

    def _decide(self, check: AskedLogin) -> Steps:
        user, host = check.user, check.host
        yield check
        if check.result is not LoginOutcome.ACCEPTED:
            more = {"retry_after_ms": check.wait_ms} if check.wait_ms else {}
            text = f"login of user '{user}' from {host} refused"
            raise Refused(NOT_AUTHORISED, text, reason="Not_Authorized", **more)
        known = self._metadata.user(user)
        return {"name": user, "tags": list(known.tags) if known is not None else []}

    def _listeners(self) -> list[JsonObject]:
        node = self._node_name
        return [{"node": node, **each._asdict()} for each in self._said.listeners]

    def _certificates(self) -> list[JsonObject]:
        return [
            {
                "node": self._node_name,
                "protocol": each.listener.protocol,
                "interface": each.listener.ip_address,
                "port": each.listener.port,
                "certfile": each.certfile,
                "cacertfile": each.cacertfile,
                "certfile_ends_at": list(each.certfile_ends_at),
                "cacertfile_ends_at": list(each.cacertfile_ends_at),
            }
            for each in self._said.certificates
        ]

    def _alarms(self) -> list[JsonObject]:
        alarms, node = self._counts.alarms, self._node_name
        found = []
        if alarms.is_memory_high:
            found.append({"node": node, "resource": "memory"})
        if alarms.is_disk_low or alarms.is_disk_full or self._pager.has_no_room:
            found.append({"node": node, "resource": "disk"})
        return found

    def _describe(self, request: Request) -> Steps:
        """This node, and what each process of it and of the others says of itself."""
        own, own_name = self._facts(), self._peers.own_node
        answers = yield from self._peers.ask_all(self._peers.others(), "node", {}, request.asker)
        others = {name: answer.fields for name, answer in answers.items() if answer is not None}
        stale = [name for name, answer in answers.items() if answer is None]
        beside = [fields for name, fields in others.items() if are_beside(name, own_name)]
        whole = {**own, **_together([own, *beside])}
        return {**whole, "nodes": {own_name: own, **others}, "stale": stale}

    def _serve_facts(self, request: Request) -> Steps:
        return self._facts(), ""
        yield

    def _serve_alarms(self, request: Request) -> Steps:
        return self._condition(), ""
        yield

    def _facts(self) -> JsonObject:
        counts, replication = self._counts, self._replication
        config, facts, alarms = counts.config, counts.facts, counts.alarms
        resources = {each["resource"] for each in self._alarms()}
        members = sorted({*replication.recorded_members(), *replication.members(), replication.own_node})
        linked = [name for name in members if name == replication.own_node or counts.membership.is_linked(name)]
        return {
            "name": config.node_name,
            "cluster_name": cluster_name(counts.broker.metadata, config),
            "started_at": facts.started_at,
            "at": self._clock.now,
            "is_ready": counts.is_ready(),
            "being_drained": facts.is_draining,
            "os_pid": facts.process_id,
            "version": __version__,
            "python": sys.version.split()[0],
            "listeners": self._listeners(),
            "mem_limit": self._pager.budget_bytes,
            "memory_budget": config.memory_budget_bytes,
            "mem_used": self._pager.used,
            "mem_alarm": "memory" in resources,
            "disk_free_limit": config.disk_free_limit_bytes,
            "disk_free_alarm": "disk" in resources,
            "is_full": alarms.is_full,
            "max_connections": counts.clients.max_connections,
            "sockets_used": len(counts.clients.connections),
            "members": members,
            "racks": {name: rack for name, rack in replication.recorded_racks().items() if rack},
            "running": linked,
            "data_dir": facts.data_dir,
            "config_files": list(facts.config_files),
            "exchange_types": [{"name": name, "description": "", "enabled": True} for name in EXCHANGE_TYPES],
            "auth_mechanisms": ["PLAIN", "AMQPLAIN", "EXTERNAL"],
        }

    def _condition(self) -> JsonObject:
        """What this process knows of how its node is. groups: of Raft's those that it has; critical_groups: those that
        one member more would cost their majority. room: for so many more clients."""
        replication, clients = self._replication, self._counts.clients
        groups = replication.groups()
        return {
            "alarms": self._alarms(),
            "is_draining": self._said.is_draining,
            "room": max(0, clients.max_connections - clients.open_count) if self._takes_clients else 0,
            "groups": [each.group_id for each in groups if self._groups.is_here(each.group_id)],
            "critical_groups": [each.group_id for each in groups if self._is_critical(each)],
            "leaderless_groups": [
                each.group_id
                for each in groups
                if each.leader is None and not self._has_leader_elsewhere(each.group_id)
            ],
        }

    def _is_critical(self, group: Group) -> bool:
        own, membership = self._replication.own_node, self._counts.membership
        own_host = node_of_worker(own)
        voters = self._voters(group.group_id) or group.members
        linked = [each for each in voters if each == own_host or membership.is_linked(each)]
        return len(voters) > 1 and 2 * (len(linked) - 1) <= len(voters)

    def _health(self, request: Request) -> Steps:
        """quorum_critical: queues that would lose their majority with one member more. alarms: those of the others,
        too, as far as they answer."""
        peers, own = self._peers, self._condition()
        answers = yield from peers.ask_all(peers.others(), "alarms", {}, request.asker)
        said = {name: answer.fields for name, answer in answers.items() if answer is not None}
        beside = [fields for name, fields in said.items() if are_beside(name, peers.own_node)]
        workers = [own, *beside]
        critical, leaderless = (_of_groups(own, beside, name) for name in ("critical_groups", "leaderless_groups"))
        queues: list[dict[str, str]] = []
        if critical and request.asker.tags:
            queues = yield from self._queues_in(critical)
        is_draining = any(each["is_draining"] for each in workers)
        return {
            "ready": self._counts.is_ready() and not is_draining,
            "alarms": own["alarms"] + [each for fields in said.values() for each in fields["alarms"]],
            "local_alarms": [each for fields in workers for each in fields["alarms"]],
            "listeners": self._listeners(),
            "certificates": self._certificates() if request.asker.tags else [],
            "is_draining": is_draining,
            "is_alone": {*self._metadata.members(), *self._replication.members()} <= {node_of_worker(peers.own_node)},
            "below_connection_limit": any(each["room"] for each in workers),
            "quorum_critical": queues,
            "leaderless_groups": sorted(leaderless),
        }

    def _voters(self, group_id: int) -> tuple[str, ...]:
        """Of a group of queues, whether this node is a member of it or not."""
        groups = self._counts.groups
        found = groups.all.get(group_id)
        return found.members() if found is not None else ()

    def _has_leader_elsewhere(self, group_id: int) -> bool:
        """Whether this node is a guest of a group, and attached to who leads it."""
        groups = self._counts.groups
        found = groups.all.get(group_id)
        return found is not None and found.leader is not None

    def _queues_in(self, groups: set[int]) -> Steps:
        """Its result: queues whose groups these are, a bounded number of them."""
        found: list[dict[str, str]] = []
        for vhost, names in queues_in_slices(self._broker, _SLICE):
            for each in names:
                queue = vhost.queues.made(each)
                if queue is None:
                    continue  # it lives elsewhere, in no group
                kind = queue.declaration.type
                if lives_in_groups(kind) and self._groups.of(queue.queue_id).group_id in groups:
                    found.append({"name": each, "virtual_host": vhost.name, "type": kind})
            if len(found) >= MAX_LISTED_QUEUES:
                return found[:MAX_LISTED_QUEUES]
            yield None
        return found


def _together(parts: list[JsonObject]) -> JsonObject:
    """What is not one worker's of that which the workers of a node say of themselves."""
    alike = ("mem_alarm", "disk_free_alarm", "being_drained")
    divided = ("mem_used", "max_connections", "sockets_used")
    return {
        **{name: any(each[name] for each in parts) for name in alike},
        **{name: sum(each[name] for each in parts) for name in divided},
        # What is just given back by one worker is no other's yet, and nobody's if one does not answer.
        "mem_limit": parts[0]["memory_budget"],
        "is_full": all(each["is_full"] for each in parts),
    }


def _of_groups(own: JsonObject, beside: list[JsonObject], name: str) -> set[int]:
    """Groups of a node of which something is so: by the worker that has a group, if that answers."""
    found = {*own[name]}
    for each in beside:
        found -= {*each["groups"]}
    return found.union(*({*each[name]} & {*each["groups"]} for each in beside))

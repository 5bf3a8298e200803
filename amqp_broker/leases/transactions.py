"""Transactions: the verbs of txn.*: asked on any node, done at the app's home.

    txn.stage -> checked (staging.py) -> the app has a home? -- no --> this node proposes itself: the first one wins
                                                             -- yes -> Apps, here or on the other node

An app belongs to the user who has used it first; others are refused, but for administrators.

Invariant: a node serves an app only while the metadata say that it is the app's home.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from amqp_broker.auth.permissions import Action
from amqp_broker.leases.answer import Answer
from amqp_broker.leases.app_note import Position
from amqp_broker.leases.apps import Apps, staged_messages
from amqp_broker.leases.errors import ACCESS_REFUSED, BUSY, INVALID, NOT_FOUND, LeaseError
from amqp_broker.leases.fields import MAX_NUMBER, Fields
from amqp_broker.leases.peer_requests import PeerRequest
from amqp_broker.leases.queue_leases import giving
from amqp_broker.leases.staging import FindRoute, Staging
from amqp_broker.metadata import commands

if TYPE_CHECKING:
    from amqp_broker.channel.channel import Channel
    from amqp_broker.leases.app import App
    from amqp_broker.leases.service import Leases
    from amqp_broker.messages.facts import MessageFacts
    from amqp_broker.metadata.entities import AppRecord
    from amqp_broker.protocol.json_values import JsonObject
    from queues.message import Message

VERBS = ("txn.stage", "txn.commit", "txn.abort", "txn.stat")
#: Octets that an answer takes at most, about.
_ANSWER_BYTES = 4096
#: A commit may take so long on purpose, milliseconds: publishing takes its time.
_COMMIT_MS = 600_000
_OFFSETS = "offsets"
_FIELDS = ("app", "epoch", "partition", "attempt", "sequence", "mandatory")


class Transactions:
    """Of one node."""

    def __init__(self, service: Leases, apps: Apps, find_route: FindRoute) -> None:
        self._service = service
        self._apps = apps
        self._config = config = service.config
        self._broker = service.broker
        self._metadata = service.broker.metadata
        self._peers = service.peers
        self._staging = Staging(find_route, config.max_table_depth, config.max_message_size_bytes)

    def request(
        self, channel: Channel, verb: str, message: Message, facts: MessageFacts, answer: Answer
    ) -> None:
        """A request of a client. Raises LeaseError."""
        if verb not in VERBS:
            raise LeaseError(NOT_FOUND, f"unknown verb '{verb}'; there are {', '.join(VERBS)}")
        body, blob = message.body_bytes(), b""
        if verb == "txn.stage":
            blob = body
            headers = facts.headers
            fields = Fields(verb, {name: headers[name] for name in _FIELDS if name in headers})
            body = self._checked(channel, fields, blob)
        else:
            fields = Fields.of_json(verb, body)
        if verb == "txn.commit":
            self._check_positions(channel, fields)
        vhost = channel.vhost.name
        if verb == "txn.stat" and not fields.has("app"):
            self._list(channel, answer)
            return
        name = fields.text("app")
        record = self._metadata.app(vhost, name)
        session = channel.session
        if record is not None and record.user != session.user and not session.has_tag("administrator"):
            raise LeaseError(ACCESS_REFUSED, f"{verb}: app '{name}' belongs to another user")
        request = PeerRequest(0, vhost, verb, body, blob)
        if record is not None:
            self._hand_on(record.home, request, answer)
        elif verb == "txn.stat":
            answer.give({"apps": []})
        elif verb == "txn.abort":
            answer.give({})
        else:
            self._settle_home(session.user, name, request, answer)

    def _checked(self, channel: Channel, fields: Fields, blob: bytes) -> bytes:
        """The fields of txn.stage as JSON. Raises LeaseError."""
        found: JsonObject = {"app": fields.text("app")}
        for name in _FIELDS[1:5]:
            found[name] = fields.number(name, 0, MAX_NUMBER)
        found["messages"] = count = self._staging.check(channel, blob, fields.flag("mandatory", True))
        most = self._config.max_blob_size_bytes
        if count > 1 and len(blob) > most:
            raise LeaseError(
                INVALID, f"txn.stage: {count} messages of {len(blob)} octets; at most {most} are taken (max_blob_size)"
            )
        return json.dumps(found).encode()

    # -- the home ------------------------------------------------------------------------------------------------------

    def _settle_home(self, user: str, name: str, request: PeerRequest, answer: Answer) -> None:
        """The first request of an app: it lives here, unless another node was faster."""
        broker = self._broker
        late = self._service.within_time(answer, request.verb)

        def settled(result: object) -> None:
            record = broker.metadata.app(request.vhost, name)
            if record is None or record.user != user:
                late.refuse(LeaseError(BUSY, f"{request.verb}: app '{name}' was taken by another user, or dropped"))
                return
            try:
                self._hand_on(record.home, request, late)
            except LeaseError as error:
                late.refuse(error)

        command = commands.put_app(request.vhost, name, self._broker.own_node, user)
        broker.propose(command).when_done(settled)

    def _hand_on(self, home: str, request: PeerRequest, answer: Answer) -> None:
        if home == self._broker.own_node:
            self.serve(request, answer)
        else:
            wait_ms = _COMMIT_MS if request.verb == "txn.commit" else 0
            self._peers.ask(home, request, _ANSWER_BYTES, wait_ms, answer)

    def serve(self, request: PeerRequest, answer: Answer) -> None:
        """A request that was checked, at the app's home. Raises LeaseError."""
        fields = Fields.of_json(request.verb, request.fields)
        verb, vhost = request.verb, request.vhost
        if verb == "txn.stat" and not fields.has("app"):
            answer.give({"apps": [_statistics(app) for app in self._apps.of(vhost)]})
            return
        name = fields.text("app")
        record = self._metadata.app(vhost, name)
        if record is None or record.home != self._broker.own_node:
            raise LeaseError(BUSY, f"{verb}: this node is not, or not yet, the home of app '{name}'")
        if verb == "txn.stat":
            app = self._apps.find(vhost, name)
            answer.give({"apps": [_statistics(app)] if app is not None else []})
            return
        epoch = fields.number("epoch", 0, MAX_NUMBER - 1)
        if verb == "txn.stage":
            key = (epoch, fields.number("partition", 0, MAX_NUMBER), fields.number("attempt", 0, MAX_NUMBER))
            number, messages = fields.number("sequence", 0, MAX_NUMBER), fields.number("messages", 0, MAX_NUMBER)
            self._apps.stage(vhost, name, key, number, request.blob, messages, giving(answer))
        elif verb == "txn.commit":
            blobs = fields.by_partition("blobs") if fields.has("blobs") else {}
            # Who was asked has looked; what this node does not know it has not heard of yet.
            attempts, positions = fields.by_partition("attempts"), self._positions(vhost, fields, BUSY)
            self._apps.commit(vhost, name, epoch, attempts, blobs, positions, giving(answer))
        elif verb == "txn.abort":
            self._apps.abort(vhost, name, epoch, giving(answer))
        else:
            raise LeaseError(NOT_FOUND, f"unknown verb '{verb}'")

    # -- positions of groups of readers --------------------------------------------------------------------------------

    def _check_positions(self, channel: Channel, fields: Fields) -> None:
        """The streams of `offsets` are there, and the user may read them. Raises LeaseError."""
        session = channel.session
        for stream in dict.fromkeys(stream for stream, _, _, _ in fields.positions(_OFFSETS)):
            if not session.allows(Action.READ, stream):
                raise LeaseError(ACCESS_REFUSED, f"txn.commit: user '{session.user}' may not read stream '{stream}'")
        self._positions(channel.vhost.name, fields, NOT_FOUND)

    def _positions(self, vhost: str, fields: Fields, if_missing: str) -> tuple[Position, ...]:
        """What `offsets` says, by the ids of streams. Raises LeaseError; if_missing: its code where there is none."""
        queues, found = self._broker.vhosts[vhost].queues, []
        for stream, group, partition, offset in fields.positions(_OFFSETS):
            queue = queues.get(stream)
            if queue is None or not queue.keeps_messages:
                raise LeaseError(if_missing, f"txn.commit: there is no stream '{stream}' in vhost '{vhost}'")
            parts = queue.partitions() or (queue,)
            if partition >= len(parts):
                last = len(parts) - 1
                raise LeaseError(INVALID, f"txn.commit: stream '{stream}' has partitions 0 to {last}, no {partition}")
            found.append(Position(parts[partition].queue_id, group, offset))
        return tuple(found)

    # -- statistics ----------------------------------------------------------------------------------------------------

    def _list(self, channel: Channel, answer: Answer) -> None:
        """txn.stat of all apps that the user may see; of a home that cannot be reached, only the names."""
        vhost, session = channel.vhost.name, channel.session
        is_administrator = session.has_tag("administrator")
        records = [
            record
            for record in self._metadata.apps(vhost)
            if is_administrator or record.user == session.user
        ]
        homes = list(dict.fromkeys(record.home for record in records))
        joint = _JointAnswer(records, homes, answer)
        for home in homes:
            self._hand_on(home, PeerRequest(0, vhost, "txn.stat", b"{}", b""), joint)
        joint.told()


class _JointAnswer(Answer):
    """To txn.stat, from several homes."""

    def __init__(self, records: list[AppRecord], homes: list[str], answer: Answer) -> None:
        self._records = records
        self._left = len(homes) + 1
        self._answer = answer
        self._found: dict[str, JsonObject] = {}

    @property
    def is_wanted(self) -> bool:
        return self._answer.is_wanted

    def send(self, content_type: str, body: bytes, headers: JsonObject) -> None:
        """See Answer."""
        for each in json.loads(body).get("apps", []):
            self._found[each["app"]] = each
        self.told()

    def told(self) -> None:
        """One more has answered."""
        self._left -= 1
        if self._left:
            return
        nothing = {"last_epoch": None, "staged_messages": None}
        apps = [
            {"home": record.home, **(self._found.get(record.name) or {"app": record.name, **nothing})}
            for record in self._records
        ]
        self._answer.give({"apps": apps})


def _statistics(app: App) -> JsonObject:
    last = app.last_epoch if app.last_epoch >= 0 else None
    return {"app": app.name, "last_epoch": last, "staged_messages": staged_messages(app)}

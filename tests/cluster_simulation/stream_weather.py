"""StreamWeather: a run in which clients publish to streams and read them, on any node and in any weather.

When it is calm, a new reader on each member reads each stream from its first offset on: it gets all that is there.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from amqp_broker.management.verbs import cluster as cluster_verbs
from amqp_broker.protocol import methods
from queues.quorum.commands import Batch, Command
from queues.quorum.cursor_commands import OpenCursor
from queues.stream.commands import AppendChunk, JoinGroup, LeaveGroup, MoveGroup, OpenGroup, StorePosition
from queues.stream.murmur import partition_of
from tests.cluster_simulation.application import Application, Question
from tests.cluster_simulation.cluster_node import MS, ClusterNode
from tests.cluster_simulation.cluster_world import SECOND
from tests.cluster_simulation.cursor_clients import CursorConsumer
from tests.cluster_simulation.cursor_model import CursorKind, CursorModel
from tests.cluster_simulation.log_model import LogModel
from tests.cluster_simulation.log_records import GroupHistory, QueueLog, Stream
from tests.cluster_simulation.partition_clients import GROUPS, GroupMember
from tests.cluster_simulation.queue_kinds import RETRY, QueueKind
from tests.cluster_simulation.relay import COPY, NoJudge, Relay
from tests.cluster_simulation.stream_clients import KEYED, StreamClient, StreamConsumer, StreamPublisher, all_done
from tests.cluster_simulation.stream_model import StreamKind, StreamModel
from tests.cluster_simulation.weather import Weather
from tests.simulation.state import Violation

_PARTITIONS = 3
_Client = StreamPublisher | StreamConsumer | GroupMember | CursorConsumer


class StreamLog(LogModel):
    """A LogModel that tells a StreamModel of chunks, and a CursorModel of queues over streams."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.streams = StreamModel()
        self._streams_in: dict[int, set[str]] = {}
        self.cursors = CursorModel(self.streams, self.counts)

    def _execute(
        self, history: GroupHistory, batch: Batch, place: tuple[int, int], sequence: int, command: Command
    ) -> None:
        if getattr(command, "queue_id", None) in self.name_of and self.name_of[command.queue_id] == COPY:
            return  # what comes to it nobody has published: Relay checks it
        if isinstance(command, MoveGroup):
            return
        if isinstance(command, AppendChunk):
            stream = self.name_of[command.queue_id]
            self.streams.append(stream, command.chunk, history.clock)
            for copy in self.cursors.grown(stream, place, history.clock):
                self.by_number.setdefault(copy.number, []).append(copy)
        elif isinstance(command, OpenCursor):
            if command.queue_id not in self.queues:
                name = self.name_of[command.queue_id]
                self.queues[command.queue_id] = queue = QueueLog(
                    command.queue_id, self.cursors.kinds[name].queue_kind, place[0]
                )
                self.cursors.open(queue, name)
        elif isinstance(command, OpenGroup | JoinGroup | LeaveGroup | StorePosition):
            self._streams_in.setdefault(history.number, set()).add(self.name_of[command.queue_id])
            self.streams.groups.command(self.name_of[command.queue_id], batch.origin, command)
        else:
            super()._execute(history, batch, place, sequence, command)

    def _close(self, history: GroupHistory, origin: str, stream: Stream, index: int) -> None:
        if stream.is_open:
            for name in self._streams_in.get(history.number, ()):
                self.streams.groups.lose_all(name, origin)
        super()._close(history, origin, stream, index)

    def _check_first_deliveries(self, queue: QueueLog) -> None:
        cursor = self.cursors.cursors.get(queue.queue_id)
        if cursor is None or not cursor.kind.has_key_order:  # it has an order of its own
            super()._check_first_deliveries(queue)

    def at_the_end(self) -> None:
        """See LogModel."""
        self.cursors.at_the_end()
        super().at_the_end()


class StreamWeather(Weather):
    """A mixture: another Weather says what goes wrong. shared: has partitions, which are among the kinds, too."""

    applications_per_node = 1
    log_kind = StreamLog

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        assert isinstance(self.log, StreamLog)
        self.stream_model = self.log.streams
        self._seen: list[tuple[str, int, int]] = []
        limit = self.chance.choice([3_000, 30_000])
        self.stream_kinds = [
            StreamKind("events"),
            StreamKind("events-kept", max_bytes=limit),
            StreamKind("events-recent", max_age_s=1),
        ]
        self.shared = StreamKind("shared", partitions=_PARTITIONS)
        keys = [f"key {number}" for number in range(12)]
        for number in range(_PARTITIONS):
            own = tuple([key for key in keys if partition_of(key.encode(), _PARTITIONS) == number])
            self.stream_kinds.append(StreamKind(f"shared-{number}", whole="shared", keys=own))
        self.sharers = [GroupMember(f"member{number}", self) for number in range(4)]
        self.keyed = "events"
        self.cursor_kinds = [
            CursorKind("all", "events"),
            CursorKind("by-key", "events", has_key_order=True),
            CursorKind("red", "events", value="red"),
            CursorKind("kept", "events-kept"),
            CursorKind("recent", "events-recent", has_key_order=True),
            CursorKind("late", "events", has_key_order=True, has_retry=True),
        ]
        self.log.cursors.kinds = {kind.name: kind for kind in self.cursor_kinds}
        self.workers = [CursorConsumer(f"worker{number}", self) for number in range(5)]
        self.publishers = [StreamPublisher(f"publisher{number}", self) for number in range(3)]
        self.consumers = [StreamConsumer(f"reader{number}", self) for number in range(4)]
        self.relay = Relay(self)

    def judge(self, verb: str) -> NoJudge:
        """Who judges what is answered to a request."""
        return NoJudge()

    def draw_kinds(self) -> dict[str, QueueKind]:
        """See ClusterWorld: what comes back to one of them rests."""
        found = super().draw_kinds()
        found["second"] = replace(found["second"], arguments={**found["second"].arguments, **RETRY})
        return found

    # -- the beginning -------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        super()._begin()
        client = StreamClient("declares", self)
        self.wait_for(client.come, "who declares streams is let in")
        channel = client.channel
        assert channel is not None
        for kind in [*self.stream_kinds, StreamKind(COPY), self.shared, *self.cursor_kinds]:
            if not (isinstance(kind, StreamKind) and kind.whole):
                client.declare_stream(kind)
        client.declare_exchange(channel, KEYED, "fanout")
        client.bind(channel, self.keyed, KEYED)
        self.wait_for(lambda: not channel.questions, "the streams are declared")
        self.leave(client)

    def reader_cancelled(self, reader: Application) -> None:
        """basic.cancel from the broker."""
        raise Violation(f"{reader.name} was cancelled, and its queue is there")

    def answered(self, application: Application, question: Question, method: Any) -> None:
        """See ClusterWorld."""
        if question.queue or not isinstance(method, methods.QueueDeclareOk):
            super().answered(application, question, method)

    def _act_later(self) -> None:
        super()._act_later()
        for client in [*self.publishers, *self.consumers, *self.sharers, *self.workers]:
            self._client_later(client, self.chance.choice([3, 15, 40]))
        self.relay.start()
        self._trouble_later()

    def _trouble_later(self) -> None:
        def strike() -> None:
            if not self.is_calm:
                self.relay.trouble()
                self._trouble_later()

        self.after(self.chance.randint(10, 150) * MS, strike)

    def _ask(self, asked: ClusterNode, verb: str, request: dict[str, object]) -> cluster_verbs.Answer | None:
        """See Weather: a node that is removed takes its apps along."""
        homes = [record.home for record in asked.node.broker.metadata.apps("/")]
        return None if verb == "cluster.remove" and request["node"] in homes else super()._ask(asked, verb, request)

    def _client_later(self, client: _Client, pace: int) -> None:
        def act() -> None:
            if self.is_calm:
                return
            self._act_stream(client)
            self.after(self.chance.randint(1, 2 * pace) * MS, act)

        self.after(self.chance.randint(1, 2 * pace) * MS, act)

    def _act_stream(self, client: _Client) -> None:
        draw = self.chance.random()
        if client.is_open and draw < 0.004:
            self.leave(client)
        elif client.is_open and draw < 0.01:
            self._disturb(client)
        elif client.client is not None and not client.is_open and self.time - client.connected_at > 5 * SECOND:
            self.leave(client)
        else:
            client.act()

    # -- the end -------------------------------------------------------------------------------------------------------

    def _dismiss(self) -> None:
        """See Weather: publishers ask until they know; readers go."""
        self.wait_for(self._all_serve, "all nodes serve")
        self.wait_for(all_done(self.publishers), "publishers know what is in the streams")
        for client in [*self.publishers, *self.consumers, *self.sharers, *self.workers]:
            if client.client is not None:
                self.leave(client)
        super()._dismiss()
        self.relay.is_closing = True  # what nodes without links had taken has come to the source
        self.wait_for(lambda: self.relay.is_done, "everything is copied")
        self.relay.stop()

    def stream_on(self, node: ClusterNode, name: str) -> Any:
        """A stream as a node has it."""
        return self._find(node, StreamKind(name))[1]

    def _drain(self) -> None:
        self._drain_cursors()
        super()._drain()
        # By the clock of the group, which may be that of a node whose clock has jumped ahead.
        self.run_until(self.time + 2 * SECOND + self.clients.skew)
        self.wait_for(self._is_at_rest, "all nodes have applied everything")
        for kind in self.stream_kinds:
            self._compare(kind)
        self.relay.check()
        self.before_the_last_readers()
        readers = [
            (kind, StreamConsumer(f"last reader of {kind.name} on {node.name}", self, node))
            for node in self.serving()
            for kind in self.stream_kinds
        ]
        for kind, reader in readers:
            reader.read(kind, "first", self.stream_model.content(kind.name).first)

        def is_done(kind: StreamKind, reader: StreamConsumer) -> bool:
            assert reader.reading is not None
            if kind.is_compacted:  # the last message stays
                return reader.reading.expected == len(self._numbers(kind))
            return reader.took >= self._left(kind)

        def has_read() -> bool:
            for kind, reader in readers:
                if not is_done(kind, reader) and reader.come():
                    reader.go_on()
            return all(is_done(kind, reader) for kind, reader in readers)

        self.wait_for(has_read, "everything is read on every node")
        for _, reader in readers:
            self.leave(reader)
        self._read_the_rest()
        self.counts.update(self.stream_model.counts)

    def has_read(self, node: str, stream: str, how: str) -> None:
        """A message came to a client of this node."""

    def before_the_last_readers(self) -> None:
        """It is calm, and all members have the same."""

    def _read_the_rest(self) -> None:
        """Each group goes on to the end: then everything was acknowledged by somebody, in every partition."""
        last = [GroupMember(f"last of {name}", self, name) for name in GROUPS]
        groups = self.stream_model.groups

        def is_done() -> bool:
            for member in last:
                member.go_on()
            return all(
                groups.is_at_end(kind.name, name) and self._position(kind, name) == len(self._numbers(kind))
                for kind in self.stream_kinds
                if kind.whole
                for name in GROUPS
            )

        self.wait_for(is_done, "the groups have read everything")
        for member in last:
            self.leave(member)

    def _numbers(self, kind: StreamKind) -> list[int]:
        return self.stream_model.content(kind.name).numbers

    def _position(self, kind: StreamKind, name: str) -> int:
        """Of a group, as the first node has it that has a copy."""
        streams = [self._find(node, kind)[1] for node in self.serving()]
        stream = next((each for each in streams if each is not None), None)
        group = stream.groups.get(name) if stream is not None else None
        return group.position if group is not None else -1

    def published_as(self, name: str) -> str:
        """The queue to which is published what is to be in this stream."""
        return next(kind.whole or kind.name for kind in self.stream_kinds if kind.name == name)

    def _drain_cursors(self) -> None:
        """New consumers take what is in the queues over streams, each of them on some node."""
        serving = self.serving()
        drains = [
            (kind, CursorConsumer(f"last of {kind.name}", self, self.chance.choice(serving)))
            for kind in self.cursor_kinds
        ]

        def are_empty() -> bool:
            for kind, drain in drains:
                drain.drain(kind)
            names = {kind.name for kind in self.cursor_kinds}
            return not any(left.rsplit(" ", 1)[-1] in names for left in self.leftovers())

        self.wait_for(are_empty, "the queues over streams drain")
        for _, drain in drains:
            self.leave(drain)

    def _left(self, kind: StreamKind) -> int:
        content = self.stream_model.content(kind.name)
        return len(content.numbers) - content.first

    def _compare(self, kind: StreamKind) -> None:
        """What each member that has a copy has of a stream (S4, S5)."""
        clock = 0
        self.look()
        for node in self.serving():
            machine, stream = self._find(node, kind)
            if stream is None and self._is_guest_of(node, kind):
                continue
            assert stream is not None
            self.stream_model.ends(kind, stream.first, stream.next, node.name)
            clock = machine.clock
        self.stream_model.limits(kind, clock)

    def _is_guest_of(self, node: ClusterNode, kind: StreamKind) -> bool:
        """Whether another process of its host, or another host, has the group of a stream."""
        record = node.node.broker.metadata.queue("/", kind.name)
        return record is not None and node.node.groups.of(record.queue_id).guest is not None

    def look(self) -> None:
        """Note where streams begin on the members, unless nothing has happened to them since they were looked at."""
        serving = self.serving()
        seen = [(node.name, node.lives, node.inputs) for node in serving]
        if seen == self._seen:
            return
        self._seen = seen
        for node in serving:
            for kind in self.stream_kinds:
                _, stream = self._find(node, kind)
                if stream is not None:
                    self.stream_model.has(kind, stream.first, stream.next, (node.name, node.lives))
            self.stream_model.groups.read_now(node.name, self._readers(node))

    def _readers(self, node: ClusterNode) -> list[tuple[str, str, int]]:
        """Partition, group and generation of all who read partitions there."""
        whole = node.node.broker.vhosts["/"].queues.get(self.shared.name)
        return [
            (reader.queue.name, reader.name, reader.generation)
            for consumer in (whole.consumers.values() if whole is not None else ())
            for reader in consumer.readers.values()
            if reader.generation
        ]

    @staticmethod
    def _find(node: ClusterNode, kind: StreamKind) -> tuple[Any, Any]:
        """The machine that has a stream on a node, and the stream, if it is there yet."""
        record = node.node.broker.metadata.queue("/", kind.name)
        if record is None:
            return None, None
        machine = node.node.groups.of(record.queue_id).machine
        return machine, machine.stream(record.queue_id)

"""Relay: a program that reads a stream, and publishes what becomes of it to another, exactly once (docs/leases.md).

It knows nothing but what the broker tells it. It dies at any time, and the next one begins anew; one that is taken for
dead may go on besides. Each message of the copy is the offset of what it was made of, so the copy has to be all
offsets, in order, up to where the group is: nothing twice, nothing left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queues.stream.record import get_record
from tests.cluster_simulation.cluster_node import MS, ClusterNode
from tests.cluster_simulation.lease_blob import read_blob, write_blob
from tests.cluster_simulation.process import Process, Program, Wait
from tests.cluster_simulation.request_client import RequestClient
from tests.cluster_simulation.transmission import Answer, Transmission
from tests.simulation.state import Violation

if TYPE_CHECKING:
    from tests.cluster_simulation.stream_weather import StreamWeather

#: The stream that it reads, the one that it publishes to, the group and the app.
SOURCE, COPY, GROUP = "events", "copied", "relay"


class Relay:
    """drivers: those that live. is_closing: nothing more is published to the source; is_done: all of it was copied."""

    def __init__(self, world: StreamWeather) -> None:
        self.world = world
        self.drivers: list[Driver] = []
        self.is_closing = False
        self.is_done = False

    def start(self) -> None:
        """One more."""
        self.world.counts["relays"] += 1
        driver = Driver(self)
        self.drivers.append(driver)
        driver.process.start()

    def trouble(self) -> None:
        """One dies, or is taken for dead."""
        chance = self.world.chance
        if self.drivers and chance.random() < 0.7:
            driver = chance.choice(self.drivers)
            driver.die(is_heard=chance.random() < 0.5)
            self.ended(driver, False)
        elif len(self.drivers) < 3:
            self.start()

    def ended(self, driver: Driver, is_done: bool) -> None:
        """One has ended, and another begins."""
        driver.die(is_heard=True)
        self.drivers.remove(driver)
        self.is_done = self.is_done or is_done
        self.world.after(self.world.chance.choice([1, 20, 200]) * MS, self._start_again)

    def _start_again(self) -> None:
        if not self.drivers and not self.is_done:
            self.start()

    def stop(self) -> None:
        """All of them go."""
        self.is_done = True
        for driver in list(self.drivers):
            driver.die(is_heard=True)
        self.drivers.clear()

    def source_end(self) -> int:
        """Where the source ends on whoever knows most of it: others may be behind."""
        streams = [self.world.stream_on(node, SOURCE) for node in self.world.serving()]
        return max((stream.next for stream in streams if stream is not None), default=0)

    def check(self) -> None:
        """The copy on all members that have it: each offset of the source once, in order; and how far the group is."""
        end = self.source_end()
        for node in self.world.serving():
            source, copy = (self.world.stream_on(node, name) for name in (SOURCE, COPY))
            if copy is not None:
                self._check_copy(node, copy, end)
            if source is not None and end:
                group = source.groups.get(GROUP)
                if group is None or group.position != end:
                    position = None if group is None else group.position
                    raise Violation(f"{node.name}: the group is at {position} of {end}, and all is copied")

    def _check_copy(self, node: ClusterNode, copy: Any, end: int) -> None:
        found: list[int] = []
        addresses = node.node.store.pager.addresses
        while (stored := copy.log.chunk_at(len(found))) is not None:
            for at in stored.chunk.places():
                record = get_record(stored.chunk.octets, at, len(found), stored.time, addresses)
                found.append(int(record.body_bytes()))
        if found != list(range(end)):
            raise Violation(f"the copy on {node.name} is {found}, of {end} messages")
        self.world.counts["copied"] += len(found)


class Driver:
    """One life of the program."""

    def __init__(self, relay: Relay) -> None:
        self.relay = relay
        self.world = relay.world
        world: Any = relay.world  # RequestClient wants someone who judges: this one has nobody to ask
        self._client = RequestClient(f"relay{world.next_number()}", world, world.chance.choice([150, 600, 2500]))
        self.process = Process(self._work(), lambda is_done: relay.ended(self, bool(is_done)))

    def die(self, *, is_heard: bool) -> None:
        """Everything is forgotten; what it has sent may still arrive."""
        self.process.kill()
        self._client.die(is_heard=is_heard)

    def _ask(self, verb: str, blob: bytes = b"", **fields: Any) -> Wait:
        named = {name.rstrip("_"): each for name, each in fields.items()}
        return lambda resume: self._client.ask(verb, named, resume, blob)

    def _sleep(self, milliseconds: int) -> Wait:
        return lambda resume: self.world.after(milliseconds * MS, lambda: resume(None))

    def _work(self) -> Program:
        """Returns whether all is copied; if not, somebody else has to begin anew."""
        chance = self.world.chance
        answer: Answer = yield self._ask("txn.stat", app=GROUP)
        last = answer.fields["apps"][0]["last_epoch"] if answer.fields["apps"] else None
        epoch = 0 if last is None else last + 1
        if epoch:
            answer = yield self._ask("txn.commit", app=GROUP, epoch=epoch - 1, attempts={})
            if not answer.is_ok:
                return False
        answer = yield self._ask("stream.offsets", stream=SOURCE, group=GROUP)
        if not answer.is_ok:
            return False  # there is no copy here
        start = answer.fields["position"] or 0
        while True:
            most = start + chance.choice([1, 7, 60])
            answer = yield self._ask("stream.fetch", stream=SOURCE, from_=start, to=most, columns=["body"])
            if not answer.is_ok:
                return False
            offsets = [row.offset for row in read_blob(answer.blob)]
            if not offsets:
                if self.relay.is_closing and start >= self.relay.source_end():
                    return True
                yield self._sleep(chance.choice([1, 20, 100]))
                continue
            end = answer.headers["x-end"]
            said = {"app": GROUP, "epoch": epoch, "partition": 0, "attempt": chance.getrandbits(62)}
            blob = write_blob(("", COPY, b"", b"%d" % offset) for offset in offsets)
            answer = yield self._ask("txn.stage", blob, **said, sequence=0)
            if not answer.is_ok or answer.fields.get("again"):
                return False
            positions = {SOURCE: {GROUP: {"0": end}}}
            attempts = {"0": said["attempt"]}
            answer = yield self._ask("txn.commit", app=GROUP, epoch=epoch, attempts=attempts, offsets=positions)
            if not answer.is_ok or answer.fields.get("again"):
                return False  # another one, or this one before it was answered
            self.world.counts["epochs with positions"] += 1
            start, epoch = end, epoch + 1


class NoJudge:
    """Of requests whose answers are checked by whoever asks."""

    def sent(self, transmission: Transmission) -> None:
        """See Judge."""

    def answered(self, transmission: Transmission) -> None:
        """See Judge."""

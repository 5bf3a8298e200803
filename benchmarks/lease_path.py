"""`python -m benchmarks.lease_path`: what it costs to take a backlog out of a classic queue on lease, in one process.

A queue with its journal and pages on a real disk, without sockets, clients and a loop around it. The backlog is
published first, then claimed batch by batch, read in pieces as `lease.fetch` does, and acknowledged; each phase is
timed apart, with the turns' ends (pages that are stored, segments that are left) counted in and the syncs named apart.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager

import click

import amqp_broker  # noqa: F401  # decides which modules run
from amqp_broker.routing.vhost import VHost
from amqp_broker.turn.sync_job import SyncJob
from benchmarks.brokers import temporary_folder
from benchmarks.machine import is_compiled
from queues.arguments import QueueArguments
from queues.background import Background
from queues.classic import ClassicQueue
from queues.journaled_leases import leases_of
from queues.lease_source import Caller
from queues.leases import LeaseGroup
from queues.message import Address, Message, build_message
from queues.pager import Pager
from queues.ready import Ready
from queues.store import MessageStore
from queues.timers import Timers
from storage.disk import FileDisk
from storage.journal import Journal
from storage.page_store import PageStore

KIB = 1024
MIB = 1024 * KIB
TURN_MESSAGES = 1000
FETCH_MESSAGES = 2000
FETCH_BYTES = 4 * MIB


class Room:
    """One queue and what a node has around it."""

    def __init__(self, folder: str, budget_bytes: int) -> None:
        disk = FileDisk(folder)
        self.pager = Pager(PageStore(disk), budget_bytes, 256 * KIB, 512, MIB)
        self.journal = Journal(disk)
        self.store = MessageStore(self.journal, self.pager, 256 * MIB)
        for _ in self.journal.recover():
            pass
        self.vhost = VHost("/", self.store, 1000)
        self.timers = Timers()
        self.queue = ClassicQueue("backlog", 1, True, QueueArguments(), self.store, self.timers, Background(), None)
        self.spent: dict[str, float] = {}
        self.cpu: dict[str, float] = {}
        self.most_used = 0

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Time what is done inside."""
        began, began_cpu = time.perf_counter(), time.process_time()
        yield
        self.spent[name] = self.spent.get(name, 0.0) + time.perf_counter() - began
        self.cpu[name] = self.cpu.get(name, 0.0) + time.process_time() - began_cpu

    def end_turn(self, name: str) -> None:
        """What a node does at the end of a turn, and the sync that follows."""
        with self.phase(name):
            self.store.end_turn()
            self.store.shorten()
            excess = self.pager.used - self.pager.tight_bytes
            parts: list[Ready | LeaseGroup] = [self.queue.ready, *self.queue.leased()]
            for source in parts:
                if excess > 0:
                    excess -= source.page_out(excess)
        with self.phase("sync"):
            pages = self.store.take_page_sync()
            position = self.journal.position
            batch = self.journal.take_batch()
            job = SyncJob(position, self.journal, batch, pages)
            job.run()
            job.finish()
            self.store.synced(position)
        self.most_used = max(self.most_used, self.pager.used)


def messages_of(body_bytes: int) -> list[Message]:
    """Some different ones, so that they are not all in the processor's nearest cache."""
    address = Address(b"\x00\x07backlog")
    return [
        build_message(address, b"\x10\x00\x02", (b"%08d" % number).ljust(body_bytes, b"."), True, -1, -1, 1)
        for number in range(TURN_MESSAGES)
    ]


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--messages", default=1_000_000, show_default=True, help="Messages of the backlog.")
@click.option("--body", default=200, show_default=True, help="Octets of a body.")
@click.option("--budget", default=256, show_default=True, help="The memory budget, MiB.")
@click.option("--claim", default=10_000, show_default=True, help="Messages of a claim.")
@click.option("--release", "released", is_flag=True, help="Release everything instead of acknowledging it.")
def main(messages: int, body: int, budget: int, claim: int, released: bool) -> None:
    """What it costs to claim, read and acknowledge a backlog."""
    print(f"{'compiled' if is_compiled() else 'plain'} modules, {messages:,} messages, bodies of {body} octets")
    with temporary_folder() as folder:
        room = Room(str(folder), budget * MIB)
        queue = room.queue
        bodies = messages_of(body)
        for _ in range(messages // TURN_MESSAGES):
            with room.phase("publish"):
                for message in bodies:
                    room.vhost.publish(message, [queue], 1)
            room.end_turn("publish")
        report(room, "backlog published", messages, "publish")
        leases, driver = leases_of(queue), Caller("job", f"{1:032x}", "driver")
        leases.open(driver, 1)
        group = leases.groups["job"]
        while queue.message_count():
            with room.phase("claim"):
                leases.claim(driver, group.next, claim, 1 << 40, False, 1)
            room.end_turn("claim")
        report(room, "claimed", messages, "claim")
        position = 0
        while position < group.next:
            with room.phase("read"):
                found = group.read(position, min(group.next, position + FETCH_MESSAGES), FETCH_BYTES)
                position += sum(stretch.messages for stretch in found)
            room.most_used = max(room.most_used, room.pager.used)
        report(room, "read", messages, "read")
        if released:
            with room.phase("release"):
                leases.release(driver, 1)
            room.end_turn("release")
            for now in range(2, messages):
                if not leases.parting:
                    break
                with room.phase("release"):
                    room.timers.run(now)
                room.end_turn("release")
            report(room, "released", messages, "release")
            return
        for upto in range(0, group.next + 1, claim):
            with room.phase("ack"):
                leases.ack(driver, upto, 1)
            room.end_turn("ack")
        report(room, "acknowledged", messages, "ack")


def report(room: Room, what: str, messages: int, phase: str) -> None:
    """One line."""
    seconds = room.spent[phase]
    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // KIB
    print(
        f"{what:20} {messages / seconds:12,.0f} messages/s   {room.cpu[phase] * 1e6 / messages:6.2f} us CPU each   "
        f"syncs {room.spent.pop('sync', 0.0):6.1f} s   in queues at most {room.most_used / MIB:6.0f} MiB   "
        f"resident at most {resident:,} MiB   journal {room.journal.total_bytes / MIB:6.0f} MiB"
    )
    room.most_used = 0


if __name__ == "__main__":
    main()

"""World: a whole run: random events for a simulated node and its clients, and at the end everything drains.

Everything random comes from one Random(seed), so a seed replays a run; `digest` says whether it did.
"""

from __future__ import annotations

import logging
from typing import Any

from amqp_broker.protocol import methods
from tests.simulation.client import Operation, SimulatedClient
from tests.simulation.simulated_disk import UNLIMITED
from tests.simulation.simulated_driver import Crashed, SimulatedDriver
from tests.simulation.state import Violation

_MAX_CLIENTS = 4
_DRAIN_ROUNDS = 3000


class World(SimulatedDriver):
    """One run of a seed."""

    def run(self, steps: int = 400) -> None:
        """The whole run. Raises Violation."""
        logger = logging.getLogger("amqp_broker")
        logger.addHandler(self._defects)
        was_propagating, logger.propagate = logger.propagate, self._trace is not None
        try:
            self._run(steps)
        except (Violation, AssertionError) as error:
            self.note(f"violation: {error}")
            raise Violation(f"seed {self.seed}, turn {self.model.turn}: {error}") from error
        finally:
            logger.removeHandler(self._defects)
            logger.propagate = was_propagating

    def _run(self, steps: int) -> None:
        self._boot()
        self._set_up()
        self._has_faults = True
        crash_share = self.chance.choice([0, 0.003, 0.01])
        for _ in range(steps):
            try:
                if self.chance.random() < crash_share:
                    self.note("power cut")
                    raise Crashed
                self._step()
            except Crashed:
                self._crash()
            self._check_defects()
        self._has_faults = False
        self._empty_disk()
        self._finish()

    def _check_defects(self) -> None:
        if self._defects.records:
            record = self._defects.records[0]
            cause = record.exc_info[1] if record.exc_info else None
            raise Violation(f"the broker logged: {record.getMessage()}: {cause!r}") from cause

    def _step(self) -> None:
        chance = self.chance
        self._set_time(self.now + chance.choice([0, 0, 0, 1, 1, 5, 30]))
        if chance.random() < 0.004:
            jump = chance.choice([500, 5000, 3_600_000])
            self.note(f"the clock jumps by {jump} ms")
            self._set_time(self.now + jump)
        if chance.random() < 0.002:
            self._fill_disk()
        elif self._capacity != UNLIMITED and chance.random() < 0.05:
            self._empty_disk()
        if self._turn_is_open and chance.random() < 0.6:
            self._end_turn()
            return
        if self._deadline is not None and self.now >= self._deadline and chance.random() < 0.7:
            self._tick()
            return
        draw = chance.random()
        if draw < 0.3:
            self._disk_step()
        elif draw < 0.36:
            self._transport_step()
        elif draw < 0.6:
            self._act()
        else:
            self._feed()

    # -- what happens --------------------------------------------------------------------------------------------------

    def _act(self) -> None:
        if len(self.clients) < _MAX_CLIENTS and (not self.clients or self.chance.random() < 0.1):
            self._connect()
            return
        client = self.chance.choice(self.clients)
        if client.is_open and not client.is_closing and len(client.outgoing) < 20_000:
            for _ in range(self.chance.choice([1, 2, 5])):
                self.workload.act(client)

    def _feed(self) -> None:
        ready = [client for client in self.clients if client.outgoing and not client.is_paused]
        if ready:
            client = self.chance.choice(ready)
            whole = len(client.outgoing)
            self._feed_client(client, whole if self.chance.random() < 0.6 else self.chance.randint(1, whole))

    def _transport_step(self) -> None:
        if not self.clients:
            return
        client = self.chance.choice(self.clients)
        draw = self.chance.random()
        if draw < 0.4:
            self.note(f"{client.name} is full")
            self.node.unwritable(client.transport)
        elif draw < 0.9:
            self.note(f"{client.name} is writable")
            self._input(lambda: self.node.writable(client.transport, self.now))
        elif draw < 0.95 and client.is_open and not client.is_closing:
            client.is_closing = True
            client.send(Operation("close_connection", None, {}), 0, methods.ConnectionClose(200, "bye", 0, 0))
        else:
            self._lose(client)

    # -- beginning and end ---------------------------------------------------------------------------------------------

    def _set_up(self) -> None:
        client = self._connect("setup")
        self._settle_down()
        channel = self.workload.open_channel(client)
        self.workload.set_up(client, channel)
        for name in self.specs:
            self.workload.declare_queue(client, channel, name)
        self._settle_down()

    def _settle_down(self) -> None:
        """Feed and sync until nothing moves."""
        for _ in range(_DRAIN_ROUNDS):
            if self._turn_is_open:
                self._end_turn()
            elif self._job is not None:
                if not self._job_has_run:
                    self._set_time(max(self.now, self._job_retry_at))
                    self._run_job(self._job)
                if self._job_has_run:
                    self._bring_job_back(self._job)
            else:
                sending = [client for client in self.clients if client.outgoing and not client.is_paused]
                if not sending:
                    return
                for client in sending:
                    if client in self.clients:
                        self._feed_client(client, len(client.outgoing))
        raise Violation("the node does not come to rest")

    def _finish(self) -> None:
        """Faults are over: everything drains, nothing is lost, everything is given back."""
        for client in list(self.clients):
            self._lose(client)
        self._settle_down()
        if self.chance.random() < 0.5:
            self.note("the last restart")
            self._crash()
            self._settle_down()
        client = self._connect("drain")
        self._settle_down()
        channel = self.workload.open_channel(client)
        for name in list(self.model.live):
            self.workload.consume_queue(client, channel, name, no_ack=False)
        for _ in range(_DRAIN_ROUNDS):
            self._settle_down()
            self._check_defects()
            if channel.unsettled:
                last = max(channel.unsettled)
                self.workload.settle_tag(client, channel, last, True, "ack")
                continue
            if self._is_empty():
                break
            self._set_time(max(self.now + 1, self._deadline or 0))
            self._tick()
        else:
            raise Violation(f"the queues do not drain: {self._lengths()}")
        self._check_rest(client, channel)

    def _lengths(self) -> dict[str, int]:
        vhost = self.node.broker.vhosts["/"]
        lengths = {queue.name: queue.ready.count + queue.unacked for queue in vhost.queues.all_made()}
        lengths["background"] = len(self.node.background.jobs)  # dead letters of queues that are gone, too
        for name, delayed in vhost.delayed.items():
            lengths[f"delayed by {name}"] = len(delayed)
        return {name: length for name, length in lengths.items() if length}

    def _is_empty(self) -> bool:
        return not self._lengths()

    def _check_rest(self, client: SimulatedClient, channel: Any) -> None:
        self._note_paging()
        losses = self.model.final_losses()
        if losses:
            raise Violation("; ".join(losses[:5]))
        self._lose(client)
        for _ in range(200):
            self._settle_down()
            self._set_time(self.now + 100)
            self._tick()
        self._settle_down()
        pager = self.node.store.pager
        if pager.used:
            raise Violation(f"all queues are empty, and {pager.used} octets of RAM are still counted as used")
        groups = self.node.groups.all.values()
        # The last checkpoint of a group names pages, and keeps them until the next one.
        named = [f"queues/{queue_id}/" for group in groups for queue_id in group.machine.queue_ids()]
        pages = [
            path for path in self.disk.files() if path.startswith("queues/") and not path.startswith(tuple(named))
        ]
        if pages:
            raise Violation(f"all queues are empty, and there are page segments: {pages}")
        journal = sum(self.disk.size(path) for path in self.disk.files() if path.startswith("journal/"))
        # The metadata are still there, with what follows their last checkpoint: mostly some KiB, seldom some twenty.
        live = min(max(20_000, self.node.replication.host.live_bytes()), 40_000)
        bound = self.config.journal_limit_bytes + 2 * (self.config.journal_segment_size_bytes + live)
        if journal > bound:
            raise Violation(f"all queues are empty, and the journal has {journal} octets (bound {bound})")

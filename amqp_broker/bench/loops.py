"""The hot loops: one Producer or Consumer per connection, each in a thread of its own and, compiled, without
the lock.

The broker under test shares the machine with its load, so a message may cost next to nothing here: publishes
leave in prebuilt runs, one send each; incoming frames are counted and timestamped where they lie, never
decoded or copied; of a body only the first eight octets are looked at, the rest is skipped as it arrives.

The set-up (handshake, declares, consume) is done before by `link`, which hands over the socket and what it
had read too much. What ends a loop is left in `state`; `closing` holds the broker's close method, for others
to decode.

Invariants:
1. A loop is run by one thread; the others only read its counters, which only grow.
2. A frame is either consumed whole or left in the buffer, except a body frame, whose rest is counted in
   `skip`.
3. Whatever is sent is whole frames; `is_cut` says that a send was given up within one: the stream is of no
   more use.

Source of the frame layouts: AMQP 0-9-1 §4.2.3, §4.2.6.
"""

from __future__ import annotations

import enum
import socket

import cython

from amqp_broker.bench.histogram import Histogram


class State(enum.IntEnum):
    """What a loop is doing, or why it ended."""

    RUNNING = 0
    FINISHED = 1  # the work was done, or it was told to stop
    CLOSED = 2  # the broker closed the channel or the connection: see `closing`
    LOST = 3  # the socket failed or was closed: see `error`
    CONFUSED = 4  # what came was not AMQP, or confirmed what was never sent
    CANCELLED = 5  # the broker cancelled the consumer
    CLOSE_OK = 6  # our own close was answered


if not cython.compiled:  # compiled, all these are in the .pxd
    from amqp_broker.bench.plain_io import (
        END_OF_STREAM,
        monotonic_ns,
        move_octets,
        put_ack,
        put_u64,
        receive_octets,
        send_octets,
        u32,
        u64,
        wait_readable,
    )

    RUNNING, FINISHED, CLOSED, LOST, CONFUSED, CANCELLED, CLOSE_OK = map(int, State)
    CAPACITY = 1 << 18  # octets of receive buffer: two of the largest frames
    ACK_SIZE = 21  # octets of a basic.ack frame
    ACK_ROOM = 1 << 15  # acks are sent at the latest when so many octets are due


def clock() -> int:
    """Nanoseconds of the monotonic clock, which all threads and processes of one machine share."""
    return monotonic_ns()


class Control:
    """What the main thread tells all loops."""

    def __init__(self) -> None:
        self.stop_publishing = False
        self.stop_all = False
        self.is_measuring = False


class Wire:
    """A socket with a receive buffer and an incremental frame scanner.

    The socket is blocking with a receive and a send time-out, at each of which the loops look at `control`.
    `initial` holds octets that were read already; `channel` is the one channel in use.
    """

    def __init__(self, sock: socket.socket, initial: bytes, control: Control, channel: int) -> None:
        self.sock = sock
        self.fd = sock.fileno()
        self.control = control
        self.channel = channel
        self.buffer = bytearray(CAPACITY)
        self.data = self.buffer
        self.buffer[: len(initial)] = initial
        self.start = 0
        self.end = len(initial)
        self.skip = 0
        self.body_left = 0
        self.is_first_body = False
        self.arrived = 0
        self.close_start = 0
        self.close_end = 0
        self.state = RUNNING
        self.error = 0
        self.is_cut = False
        self.is_blocked = False
        self.latency = Histogram()

    @property
    def closing(self) -> bytes:
        """The payload of the method with which the broker ended this connection or channel; empty if it did
        not.
        """
        return bytes(self.buffer[self.close_start : self.close_end])

    def run(self) -> None:
        """Do the work until it is done or `control` says stop; to be called in a thread of its own."""
        self.arrived = clock()
        with cython.nogil:
            self.work()
        if self.state == RUNNING:
            self.state = FINISHED

    def work(self) -> None:
        """The loop itself; this one only listens."""
        self.scan()
        while self.state == RUNNING and not self.control.stop_all:
            self.read(False)

    def read(self, at_once: bool) -> bool:
        """Read what there is and scan it. False: there was nothing (`at_once`, or time-out), or the stream
        ended.
        """
        if self.start:
            rest = self.end - self.start
            if rest:
                move_octets(self.data, self.start, rest)
            self.start = 0
            self.end = rest
        got = receive_octets(self.fd, self.data, self.end, CAPACITY - self.end, at_once)
        if got == 0:
            return False
        if got < 0:
            self.error = 0 if got == END_OF_STREAM else -got
            self.state = LOST
            return False
        self.end += got
        self.arrived = clock()
        self.scan()
        return True

    def send_all(self, data: bytearray, start: int, end: int) -> bool:
        """Send data[start:end], waiting as long as `control` lets it. False: the connection is of no more
        use.
        """
        while start < end:
            sent = send_octets(self.fd, data, start, end)
            if sent > 0:
                start += sent
            elif sent < 0:
                self.is_cut = True
                while self.state == RUNNING and self.read(True):
                    pass  # the broker's reason may still wait to be read
                if self.state == RUNNING or self.state == LOST:
                    self.error = -sent
                    self.state = LOST
                return False
            elif self.control.stop_all:
                self.is_cut = True
                return False
        return True

    def wait(self, until: int) -> None:
        """Until `until` (of `clock`) or until the broker has sent something."""
        left = until - clock()
        if left > 0:
            wait_readable(self.fd, left)

    def scan(self) -> None:
        """Walk over the frames in the buffer: on_method, on_content and `latency` get what they are about."""
        while self.state == RUNNING:
            position = self.start
            ready = self.end - position
            if self.skip:
                if not self.skip_body(ready):
                    return
                continue
            if ready < 8:
                return
            kind = self.data[position]
            length = u32(self.data, position + 3)
            if kind == 3:
                if self.is_first_body and length >= 8:
                    if ready < 15:
                        return
                    if self.control.is_measuring:
                        self.latency.record(self.arrived - u64(self.data, position + 7))
                self.is_first_body = False
                self.body_left -= length
                self.skip = length + 1
                self.start = position + 7
                if self.body_left < 0:
                    self.state = CONFUSED
                continue
            if length <= CAPACITY - 8 and ready < length + 8:
                return
            if length > CAPACITY - 8 or self.data[position + 7 + length] != 0xCE:
                self.state = CONFUSED
                return
            self.start = position + 8 + length
            if kind == 1:
                self.on_method(position + 7, length)
            elif kind == 2:
                self.body_left = u64(self.data, position + 11)
                self.is_first_body = True
                if self.body_left == 0:
                    self.on_content()
            elif kind != 8:
                self.state = CONFUSED

    def skip_body(self, ready: int) -> bool:
        """Pass over what has arrived of a body frame and its end octet. False: there is more to come."""
        if ready < self.skip:
            self.skip -= ready
            self.start = self.end = 0
            return False
        self.start += self.skip
        self.skip = 0
        if self.data[self.start - 1] != 0xCE:
            self.state = CONFUSED
        elif self.body_left == 0:
            self.on_content()
        return True

    def on_method(self, position: int, length: int) -> None:
        """A method whose payload is at `position`. Here: those that may come at any time, on any
        connection.
        """
        method = u32(self.data, position)
        if method == 0x00140028 or method == 0x000A0032:  # channel.close, connection.close
            self.close_start = position
            self.close_end = position + length
            self.state = CLOSED
        elif method == 0x000A0033:  # connection.close-ok
            self.state = CLOSE_OK
        elif method == 0x000A003C:  # connection.blocked
            self.is_blocked = True
        elif method == 0x000A003D:  # connection.unblocked
            self.is_blocked = False
        elif method == 0x003C001E:  # basic.cancel
            self.state = CANCELLED

    def on_content(self) -> None:
        """All octets of a content have arrived."""

    def close(self, frame: bytes, deadline: int) -> None:
        """Send `frame` (connection.close) and discard what comes until the answer, or until `deadline` of
        `clock`.
        """
        if not self.is_cut and self.state not in (CLOSED, LOST, CONFUSED):
            self.state = RUNNING
            self.send_all(bytearray(frame), 0, len(frame))
            while self.state not in (CLOSE_OK, CLOSED, LOST, CONFUSED) and clock() < deadline:
                self.state = RUNNING
                self.read(False)
        self.sock.close()


class Consumer(Wire):
    """Counts deliveries and acknowledges them: `ack_every` 0 is automatic, 1 one by one, more that many with
    one ack.
    """

    def __init__(
        self, sock: socket.socket, initial: bytes, control: Control, channel: int, ack_every: int
    ) -> None:
        Wire.__init__(self, sock, initial, control, channel)
        self.ack_every = ack_every
        self.received = 0
        self.redelivered = 0
        self.unacked = 0
        self.delivery_tag = 0  # of the latest basic.deliver
        self.complete_tag = 0  # of the latest delivery whose content has arrived whole
        self.last_arrival = 0
        self.acks = bytearray(ACK_ROOM + 2 * ACK_SIZE)
        self.out = self.acks
        self.out_length = 0

    def work(self) -> None:
        self.scan()
        while self.state == RUNNING and not self.control.stop_all:
            is_ack_due = self.unacked > 0 or self.out_length > 0
            if not self.read(is_ack_due) and is_ack_due and self.state == RUNNING:
                # Nothing more to read: what is unacknowledged may be all that the prefetch count allows.
                if self.unacked:
                    self.add_ack()
                self.send_acks()

    def on_method(self, position: int, length: int) -> None:
        if u32(self.data, position) == 0x003C003C:  # basic.deliver
            position += 5 + self.data[position + 4]
            self.delivery_tag = u64(self.data, position)
            self.redelivered += self.data[position + 8]
        else:
            Wire.on_method(self, position, length)

    def on_content(self) -> None:
        self.received += 1
        self.last_arrival = self.arrived
        self.complete_tag = self.delivery_tag
        if self.ack_every:
            self.unacked += 1
            if self.unacked >= self.ack_every:
                self.add_ack()
                if self.out_length >= ACK_ROOM:
                    self.send_acks()

    def add_ack(self) -> None:
        """Append a basic.ack up to the latest complete delivery."""
        put_ack(self.out, self.out_length, self.channel, self.complete_tag, self.ack_every > 1)
        self.out_length += ACK_SIZE
        self.unacked = 0

    def send_acks(self) -> None:
        self.send_all(self.out, 0, self.out_length)
        self.out_length = 0


class Producer(Wire):
    """Publishes the messages of a ring, `batch` with one send, over and over.

    `ring` holds messages of `pitch` octets each, with room for a timestamp `stamp_at` octets behind the start
    of each (-1: none). `window`: how many may be unconfirmed (0: no confirms). `quota`: how many to publish
    (0: until told to stop). `interval_ns`: time between two messages (0: as fast as it goes), the first
    `delay_ns` after the start.
    """

    def __init__(
        self,
        sock: socket.socket,
        initial: bytes,
        control: Control,
        channel: int,
        ring: bytearray,
        pitch: int,
        stamp_at: int,
        batch: int,
        window: int,
        quota: int,
        interval_ns: int,
        delay_ns: int,
    ) -> None:
        Wire.__init__(self, sock, initial, control, channel)
        self.ring = ring
        self.out = ring
        self.pitch = pitch
        self.count = len(ring) // pitch
        self.stamp_at = stamp_at
        self.batch = batch
        self.window = window
        self.quota = quota
        self.interval_ns = interval_ns
        self.delay_ns = delay_ns
        self.published = 0
        self.confirmed = 0
        self.nacked = 0
        self.returned = 0
        self.is_finished = False
        self.finished_at = 0
        self.floor = 0  # every publish up to here is settled
        self.sent_mask = (1 << (4 * window).bit_length()) - 1
        self.make_sent_room()

    def make_sent_room(self) -> None:
        """`sent_at`: when each unsettled publish was sent, by its number and `sent_mask`; 0 once it is
        settled.
        """
        if cython.compiled:
            self.sent_room = bytearray(8 * (self.sent_mask + 1))
            room = self.sent_room
            self.sent_at = cython.cast("long long*", room)
        else:
            self.sent_at = [0] * (self.sent_mask + 1)

    def work(self) -> None:
        started = clock() + self.delay_ns
        cursor = 0
        turns = 0
        while self.state == RUNNING and not self.control.stop_publishing:
            count = min(self.batch, self.count - cursor)
            if self.quota:
                count = min(count, self.quota - self.published)
                if count <= 0:
                    break
            now = clock()
            if self.interval_ns:
                due = started + self.published * self.interval_ns
                if now < due:
                    self.wait(due)
                    self.read(True)
                    continue
                count = min(count, (now - due) // self.interval_ns + 1)
            self.publish(cursor, count, now)
            cursor += count
            if cursor == self.count:
                cursor = 0
            turns += 1
            if self.window:
                self.read(True)
                while self.is_window_full() and self.state == RUNNING and not self.control.stop_publishing:
                    self.read(False)
            elif turns & 63 == 0:
                self.read(True)  # returns, connection.blocked, a close
        while self.window and self.floor < self.published and self.state == RUNNING:
            if self.control.stop_all:
                break
            self.read(False)
        self.finished_at = clock()
        self.is_finished = True

    def is_window_full(self) -> bool:
        """No room for another batch: in the window or, where confirms come far out of order, in `sent_at`."""
        if self.published - self.floor + self.batch > self.sent_mask:
            return True
        return self.published - self.confirmed - self.nacked > self.window - self.batch

    def publish(self, first: int, count: int, now: int) -> None:
        """Stamp and send messages first .. first + count - 1 of the ring."""
        if self.stamp_at >= 0:
            position = first * self.pitch + self.stamp_at
            for _ in range(count):
                put_u64(self.out, position, now)
                position += self.pitch
        if self.window:
            for number in range(self.published + 1, self.published + count + 1):
                self.sent_at[number & self.sent_mask] = now
        # Counted first: a confirm may be read while the send still waits.
        self.published += count
        self.send_all(self.out, first * self.pitch, (first + count) * self.pitch)

    def on_method(self, position: int, length: int) -> None:
        method = u32(self.data, position)
        if method == 0x003C0050:  # basic.ack
            self.confirmed += self.settle(u64(self.data, position + 4), self.data[position + 12] & 1)
        elif method == 0x003C0078:  # basic.nack
            self.nacked += self.settle(u64(self.data, position + 4), self.data[position + 12] & 1)
        elif method != 0x003C0032:  # basic.return is counted by its content
            Wire.on_method(self, position, length)

    def on_content(self) -> None:
        self.returned += 1

    def settle(self, tag: int, is_multiple: int) -> int:
        """Take note of a confirm, in whatever order they come; how many publishes it settles for the first
        time.
        """
        if tag == 0 and is_multiple:
            tag = self.published
        if tag > self.published or tag == 0:
            self.state = CONFUSED
            return 0
        if tag <= self.floor:
            return 0
        settled = 0
        number = self.floor + 1 if is_multiple else tag
        while number <= tag:
            sent = self.sent_at[number & self.sent_mask]
            if sent:
                settled += 1
                self.sent_at[number & self.sent_mask] = 0
                if self.control.is_measuring:
                    self.latency.record(self.arrived - sent)
            number += 1
        if is_multiple:
            self.floor = tag
        while self.floor < self.published and self.sent_at[(self.floor + 1) & self.sent_mask] == 0:
            self.floor += 1
        return settled

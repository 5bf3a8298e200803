"""A queue, or several, as a Spark stream: batches are ranges of the queues' lease groups.

The driver claims and acks, and moves nothing but numbers; the tasks fetch. That Spark asks for what comes after `start`
(latestOffset), or for the batch that begins there (partitions), proves that all before it is in its commit log: that is
when it is settled (`ackMode=eager`).

Invariants:
1. `read` depends on its partition and the options alone, and gives the same rows every time, in any process.
2. Nothing at or above an offset that Spark has not been seen to start from is settled.
3. What is claimed ahead of Spark's asking is no more than what it is going to ask for: a driver that comes after this
   one is offered it first.
4. No connection is made before a method of the driver or `read` needs one: readers are pickled.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from spark_connector.decode import Decoder
from spark_connector.errors import DataLoss, OptionError
from spark_connector.fetch import fetch
from spark_connector.lease_group import Claim, LeaseGroup, Tail
from spark_connector.offsets import Offsets, Position, split
from spark_connector.options import Options
from spark_connector.service import Service

log = logging.getLogger("spark_connector")

#: How often the progress report asks how much is waiting.
REPORT_SECONDS = 1.0


class Range(InputPartition):
    """[start, end) of one queue's group: what a task reads."""

    def __init__(self, queue: str, incarnation: str, start: int, end: int) -> None:
        self.queue = queue
        self.incarnation = incarnation
        self.start = start
        self.end = end


class LeaseStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The streaming source of `mode=lease`."""

    def __init__(self, options: Options, schema: StructType) -> None:
        if options.group is None:
            raise OptionError(
                "option 'group' is missing: name the query's lease group, such as .option(\"group\", \"etl\")"
            )
        self._options = options
        self._queues = options.source_queues
        self._decoder = Decoder(schema, options.headers_format)
        self._groups: dict[str, LeaseGroup] = {}
        self._service: Service | None = None
        self._targets: dict[str, int] | None = None
        self._waiting_since: float | None = None
        self._tails: dict[str, Tail] = {}
        self._reported = 0.0
        self._wanted = options.max_messages
        self._full: Offsets | None = None
        self._ahead: Offsets | None = None

    # -- in the driver -------------------------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """The oldest that each group still holds: the same until a batch is done."""
        positions = {}
        for queue in self._queues:
            group = self._group(queue)
            positions[queue] = Position(group.incarnation, group.trimmed)
        return Offsets(positions).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(self._options.max_messages)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """What is there now is what such a query reads."""
        self._targets = {}
        for queue in self._queues:
            self._targets[queue] = self._group(queue).tail().end

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """The end of the next batch: what the groups hold beyond `start`, or else what can be claimed now."""
        at = self._known(Offsets.from_json(start))
        self._ack(at)
        if self._is_too_few(at):
            time.sleep(self._options.poll_timeout)
            return at.to_json()
        self._wanted = limit.max_rows if isinstance(limit, ReadMaxRows) else self._options.max_messages
        end = self._claim(at, at, self._wanted, 0)
        if self._ahead == at and end != at and self._full is None:
            end = self._claim(at, end, self._wanted, 0)  # what has come since it was claimed ahead
        if end == at and self._targets is None:
            end = self._claim(at, at, self._wanted, self._options.poll_timeout)
        if end != at:
            self._waiting_since = None
        return end.to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """How far the queues reach: shown in the query's progress. Asked of the broker once a second at most."""
        if not self._groups:
            return None
        if time.monotonic() - self._reported >= REPORT_SECONDS:
            self._tails = {queue: group.tail() for queue, group in self._groups.items()}
            self._reported = time.monotonic()
        positions = {
            queue: Position(self._groups[queue].incarnation, tail.end) for queue, tail in self._tails.items()
        }
        return Offsets(positions).to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The ranges of a batch, which may be one of an earlier run."""
        first, last = self._known(Offsets.from_json(start)), Offsets.from_json(end)
        self._ack(first)
        ranges: list[InputPartition] = []
        for queue in last:
            at, to = first[queue], last[queue]
            if self._holds(queue, at, to):
                parts = split(at.offset, to.offset, self._options.num_partitions, self._options.max_per_partition)
                ranges += [Range(queue, to.incarnation, low, high) for low, high in parts]
        self._claim_ahead(last)
        return ranges

    def commit(self, end: dict[str, Any]) -> None:
        """All before `end` is done."""
        if self._options.ack_mode == "commit":
            self._settle(Offsets.from_json(end))

    def stop(self) -> None:
        if self._service is not None:
            self._service.close()

    # -- in the tasks --------------------------------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a range."""
        assert isinstance(partition, Range)
        queue, incarnation = partition.queue, partition.incarnation
        return fetch(self._options, self._decoder, queue, incarnation, partition.start, partition.end)

    # ------------------------------------------------------------------------------------------------------------------

    def __getstate__(self) -> Mapping[str, Any]:
        return {**self.__dict__, "_groups": {}, "_service": None}

    def _group(self, queue: str) -> LeaseGroup:
        """The queue's group, opened by this process, which fences whoever had it before."""
        if self._service is None:
            self._service = Service(self._options, is_first=True)
        group = self._groups.get(queue)
        if group is None:
            owner = uuid.uuid4().hex
            group = self._groups[queue] = LeaseGroup(self._service, queue, self._options.group, owner)
        return group

    def _known(self, at: Offsets) -> Offsets:
        """The offsets with queues that are new since then; without what is lost, if that may be."""
        for queue in self._queues:
            group = self._group(queue)
            if queue not in at:
                at = at.with_position(queue, Position(group.incarnation, group.trimmed))
            elif at[queue].incarnation != group.incarnation or not group.trimmed <= at[queue].offset <= group.next:
                self._lost(queue, at[queue], group)
                at = at.with_position(queue, Position(group.incarnation, group.trimmed))
        return at

    def _lost(self, queue: str, at: Position, group: LeaseGroup) -> None:
        what = (
            f"queue '{queue}', group '{self._options.group}': the checkpoint goes on at offset {at.offset} of group "
            f"{at.incarnation}, but the broker has {group.trimmed} to {group.next} of group {group.incarnation}: the "
            "queue or the group was made anew or released, or the checkpoint is an old copy"
        )
        if self._options.fail_on_data_loss:
            raise DataLoss(f"{what}; start with a new checkpointLocation, or set failOnDataLoss=false to go on there")
        log.warning("%s; going on there (failOnDataLoss=false)", what)

    def _holds(self, queue: str, at: Position, to: Position) -> bool:
        """Whether a range of an earlier run is still there. Raises DataLoss, unless that may be."""
        group = self._group(queue)
        if at.incarnation == to.incarnation and to.offset <= group.next:
            return True
        self._lost(queue, to, group)
        return False

    def _ack(self, at: Offsets) -> None:
        if self._options.ack_mode == "eager":
            self._settle(at)

    def _settle(self, at: Offsets) -> None:
        for queue in at:
            group = self._group(queue)
            if group.incarnation == at[queue].incarnation:
                group.ack(at[queue].offset)

    def _is_too_few(self, at: Offsets) -> bool:
        """Whether to wait for a fuller batch. What is held already is read at once: it may be a batch begun before."""
        least = self._options.min_messages
        if not least or self._targets is not None:
            return False
        if any(self._group(queue).next > at[queue].offset for queue in self._queues):
            return False
        if sum(self._group(queue).tail().ready for queue in self._queues) >= least:
            return False
        if self._waiting_since is None:
            self._waiting_since = time.monotonic()
        return time.monotonic() - self._waiting_since < float(self._options.max_trigger_delay)

    def _claim(self, at: Offsets, begun: Offsets, wanted: int, wait: float) -> Offsets:
        """Claims up to `wanted` messages of all queues together behind `at`, an equal share each; of these, those up to
        `begun` are claimed already."""
        claims = self._claims(at, begun, wanted)
        found = LeaseGroup.claim_all(claims, self._octets(), wait)
        end = begun
        for claim, claimed in zip(claims, found, strict=True):
            end = end.moved(claim.group.queue, claimed.end)
        self._full = end if found and all(each.is_full for each in found) else None
        return end

    def _claim_ahead(self, at: Offsets) -> None:
        """Behind a batch that could have been larger is another one: its claim is made while this one is read. Should
        this driver die, the next one is offered it first."""
        if self._full == at and not self._options.min_messages:
            self._ahead = at
            LeaseGroup.claim_ahead(self._claims(at, at, self._wanted), self._octets())

    def _octets(self) -> int:
        return max(int(self._options.max_bytes) // len(self._queues), 1)

    def _claims(self, at: Offsets, begun: Offsets, wanted: int) -> list[Claim]:
        share = -(-wanted // len(self._queues))
        claims = []
        for queue in self._queues:
            end = at[queue].offset + share
            if self._targets is not None:
                end = min(end, self._targets[queue])
            if end > begun[queue].offset:
                claims.append(Claim(self._group(queue), begun[queue].offset, end - begun[queue].offset))
        return claims

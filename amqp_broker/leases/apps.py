"""Apps: the applications whose home is this node: what they stage, commit and abort, and what becomes of it.

    stage, commit, abort -> App -> the journal -> synced -> answered
    commit, synced -> Publication, blob by blob, a little each turn -> a note that it is done, synced -> answered
    start: what a crash has interrupted after the commit point goes on

Invariants:
1. An epoch is committed once: when it, or a later one, was, there is nothing to be staged or committed of it any more.
2. Epochs of one app are published one after the other.
3. The files of a part go when a note that does not have it is synced.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from amqp_broker.leases.app import App, Key, Part
from amqp_broker.leases.app_note import Position
from amqp_broker.leases.errors import BUSY, FENCED, GONE, INVALID, LeaseError
from amqp_broker.leases.publication import Publication
from amqp_broker.leases.queue_leases import Outcome, Then
from amqp_broker.metadata import commands
from queues.wire.reader import Malformed
from storage.errors import CorruptRecord

if TYPE_CHECKING:
    from collections.abc import Callable

    from amqp_broker.leases.service import Leases
    from queues.holder import Holder
    from queues.recovery import RecoveredQueue

log = logging.getLogger("amqp_broker")

#: So many messages are published in one turn; a blob is finished.
TURN_MESSAGES = 4096
#: Parts that one app may have at once.
MAX_PARTS = 10_000
#: So often it is looked for apps that are idle, milliseconds.
_IDLE_LOOK_MS = 3_600_000
_STUCK = "what it has committed cannot be read, so it is not published; see the log, and start with --recover"


class Apps:
    """By virtual host and name."""

    def __init__(self, service: Leases) -> None:
        self._service = service
        self._broker = service.broker
        self._config = service.config
        self._metadata = service.broker.metadata
        self._store = service.store
        self._timers = service.timers
        self._apps: dict[tuple[str, str], App] = {}
        self._publications: dict[App, Publication] = {}
        #: Who waits for what was committed last; there from the commit point until all is published.
        self._waiting: dict[App, list[Then]] = {}
        self._watched: dict[App, int] = {}

    # -- start ---------------------------------------------------------------------------------------------------------

    def recover(self, notes: dict[int, tuple[int, bytes]], now: int) -> list[int]:
        """What the journal says of apps. Returns the ids of the queues that their parts are in. Raises Malformed."""
        service = self._service
        for segment, octets in notes.values():
            app = App.restored(segment, octets, service.store, service.timers, service.background, now)
            self._apps[app.vhost, app.name] = app
        return [part.queue.queue_id for app in self._apps.values() for part in app.all_parts()]

    def restore(self, found: dict[int, RecoveredQueue], now: int) -> None:
        """Give the parts the blobs that were found; what the metadata do not know is dropped."""
        for app in list(self._apps.values()):
            for part in app.all_parts():
                recovered = found.get(part.queue.queue_id)
                if recovered is not None:
                    part.queue.restore(recovered, now)
            record = self._metadata.app(app.vhost, app.name)
            if record is None or record.home != self._broker.own_node:
                self._end(app)
                continue
            self._watch(app)
            if app.committed or app.positions:
                self._waiting[app] = []
                self._publications[app] = Publication(self._service, app)
                self._service.come_back()
        self._timers.at(now + min(_IDLE_LOOK_MS, self._config.txn_app_expires_ms), self._look_for_idle)

    # -- what is asked -------------------------------------------------------------------------------------------------

    def find(self, vhost: str, name: str) -> App | None:
        """The app, if it has ever staged or committed anything here."""
        return self._apps.get((vhost, name))

    def of(self, vhost: str) -> list[App]:
        """The apps of a virtual host, in order of their names."""
        return [app for (owner, _), app in sorted(self._apps.items()) if owner == vhost]

    def holders(self) -> list[Holder]:
        """What can be relieved of RAM."""
        return [part.queue.ready for app in self._apps.values() for part in app.all_parts()]

    def staged_messages(self) -> int:
        """How many messages are staged and not published, as far as they were counted since the start."""
        return sum(max(0, part.messages) for app in self._apps.values() for part in app.all_parts())

    def _open(self, vhost: str, name: str) -> App:
        app = self._apps.get((vhost, name))
        if app is None:
            service = self._service
            if len(self._apps) >= self._config.max_txn_apps:
                limit = self._config.max_txn_apps
                raise LeaseError(INVALID, f"{limit} apps are the limit (max_txn_apps): app '{name}' is refused")
            parts = (service.store, service.timers, service.background)
            app = App(vhost, name, service.random_bytes(16), *parts, service.now)
            self._apps[vhost, name] = app
        return app

    def stage(self, vhost: str, name: str, key: Key, number: int, blob: bytes, messages: int, then: Then) -> None:
        """txn.stage: blob `number` of an attempt. Raises LeaseError."""
        service = self._service
        app = self._open(vhost, name)
        if key[0] <= app.last_epoch:
            service.after_sync(lambda: then({"staged": messages, "again": True}))
            return
        if service.is_short():
            raise LeaseError(BUSY, "txn.stage: the broker is short of memory or disk, and takes no messages now")
        part = app.parts.get(key)
        if part is None and number == 0:
            if len(app.parts) >= MAX_PARTS:
                raise LeaseError(INVALID, f"app '{name}' has {MAX_PARTS} parts staged: commit or abort some")
            part = app.open_part(key, service.now)
            self._watch(app)
        staged = 0 if part is None else part.blobs
        if part is None or number > staged:
            raise LeaseError(
                GONE,
                f"txn.stage: app '{name}', epoch {key[0]}, partition {key[1]}, attempt {key[2]} has blobs 0 to "
                f"{staged - 1}, and {number} does not follow: the others have expired or were aborted, begin again "
                "with another attempt",
            )
        if number == staged:
            app.append(part, blob, messages, service.now)
        elif not _is_same(part, number, blob):
            raise LeaseError(
                FENCED,
                f"txn.stage: app '{name}', epoch {key[0]}, partition {key[1]}: somebody else has staged other messages "
                f"as attempt {key[2]}; an attempt has a number that no other has",
            )
        service.after_sync(lambda: then({"staged": messages}))

    def commit(
        self,
        vhost: str,
        name: str,
        epoch: int,
        attempts: dict[int, int],
        blobs: dict[int, int],
        positions: tuple[Position, ...],
        then: Then,
    ) -> None:
        """txn.commit: publish these attempts, by partition, all or nothing; then groups of readers are at these
        positions. blobs: how many blobs some of them must have. Raises LeaseError."""
        service = self._service
        app = self._open(vhost, name)
        if app in self._waiting:
            # An earlier epoch, or this one asked for again: when it is done there is an answer.
            again = partial(self.commit, vhost, name, epoch, attempts, blobs, positions, then)
            self._waiting[app].append(lambda _: _answered(again, then))
            return
        if app.committed and epoch >= app.committed[0].key[0]:
            raise LeaseError(BUSY, f"txn.commit: app '{name}': {_STUCK}")
        if epoch <= app.last_epoch:
            service.after_sync(lambda: then({"done": True, "again": True}))
            return
        parts = []
        for partition, attempt in attempts.items():
            part = app.parts.get((epoch, partition, attempt))
            wanted = blobs.get(partition)
            if part is None or (wanted is not None and wanted != part.blobs):
                found = "nothing" if part is None else f"{part.blobs} blobs, not {wanted},"
                raise LeaseError(
                    GONE,
                    f"txn.commit: app '{name}', epoch {epoch}: attempt {attempt} at partition {partition} has staged "
                    f"{found}; nothing was published",
                )
            parts.append(part)
        dropped = app.commit(epoch, parts, positions, service.now)
        self._waiting[app] = [then]
        service.after_sync(lambda: self._committed(app, dropped))

    def _committed(self, app: App, dropped: list[Part]) -> None:
        """The commit point is on the disk."""
        self._remove(dropped)
        if not app.is_deleted:
            self._publications[app] = Publication(self._service, app)
            self._service.come_back()

    def abort(self, vhost: str, name: str, epoch: int, then: Then) -> None:
        """txn.abort: what is staged of an epoch is dropped, unless it was committed."""
        app = self.find(vhost, name)
        if app is not None:
            self._drop(app, [part for part in app.parts.values() if part.key[0] == epoch])
        self._service.after_sync(lambda: then({}))

    def _drop(self, app: App, parts: list[Part]) -> None:
        if parts:
            app.drop(parts)
            self._service.after_sync(lambda: self._remove(parts))

    def _remove(self, parts: list[Part]) -> None:
        """No note has these any more."""
        for part in parts:
            part.queue.delete()
            self._store.drop_pages(part.queue.queue_id)

    # -- publishing ----------------------------------------------------------------------------------------------------

    @property
    def is_busy(self) -> bool:
        """Whether `work` has something to do."""
        publications = self._publications  # it is asked in every turn, and mostly there are none
        return bool(publications) and any(not each.is_waiting for each in publications.values())

    def work(self) -> None:
        """Publish some more."""
        left = TURN_MESSAGES
        for app, publication in list(self._publications.items()):
            while left > 0 and app in self._publications and not publication.is_waiting:
                left -= self._step(app, publication)
        if self.is_busy:
            self._service.come_back()

    def _step(self, app: App, publication: Publication) -> int:
        vhost = self._broker.vhosts[app.vhost]
        try:
            count = publication.step(vhost)
        except (CorruptRecord, Malformed, ValueError) as error:
            log.error("app '%s' in vhost '%s': %s: %s", app.name, app.vhost, _STUCK, error)
            del self._publications[app]
            self._tell(app, LeaseError(BUSY, f"txn.commit: app '{app.name}': {_STUCK}"))
            return 1
        if count >= 0:
            return count
        del self._publications[app]
        parts = app.finish()
        self._service.after_sync(lambda: self._finished(app, parts, publication))
        return 1

    def _finished(self, app: App, parts: list[Part], publication: Publication) -> None:
        self._remove(parts)
        self._tell(app, {"done": True, "published": publication.published, "unroutable": publication.unroutable})

    def _tell(self, app: App, outcome: Outcome) -> None:
        for then in self._waiting.pop(app, []):
            then(outcome)

    # -- the end -------------------------------------------------------------------------------------------------------

    def _watch(self, app: App) -> None:
        """What is staged and not touched any more expires."""
        if app in self._watched or not app.parts:
            return
        due = min(part.touched_at for part in app.parts.values()) + self._config.txn_expires_ms
        self._watched[app] = due
        self._timers.at(due, lambda now: self._look(app, now))

    def _look(self, app: App, now: int) -> None:
        del self._watched[app]
        if app.is_deleted:
            return
        oldest = now - self._config.txn_expires_ms
        expired = [part for part in app.parts.values() if part.touched_at <= oldest]
        if expired:
            log.warning("app '%s': %d parts that were staged have expired (txn_expires)", app.name, len(expired))
            self._drop(app, expired)
        self._watch(app)

    def _look_for_idle(self, now: int) -> None:
        """Apps that have not committed anything for very long are not remembered any more."""
        service = self._service
        oldest = now - self._config.txn_app_expires_ms
        home = service.broker.own_node
        for app in self._apps.values():
            if app.called_at <= oldest and not app.all_parts() and not app.positions:
                self._forget_idle(app, home)
        service.timers.at(now + min(_IDLE_LOOK_MS, self._config.txn_app_expires_ms), self._look_for_idle)

    def _forget_idle(self, app: App, home: str) -> None:
        log.info("app '%s' in vhost '%s' has been idle for long, and is forgotten", app.name, app.vhost)
        command = commands.delete_app(app.vhost, app.name, home)
        self._broker.propose(command, lambda changed: self.forget(app.vhost, app.name) if changed else None)

    def forget_vhost(self, vhost: str) -> None:
        """A virtual host is deleted, with all that its apps have staged."""
        for app in self.of(vhost):
            self._end(app)

    def forget(self, vhost: str, name: str) -> None:
        """The metadata do not have an app any more, or have it elsewhere."""
        app = self.find(vhost, name)
        if app is not None:
            self._end(app)

    def _end(self, app: App) -> None:
        del self._apps[app.vhost, app.name]
        self._publications.pop(app, None)
        self._tell(app, LeaseError(GONE, f"app '{app.name}' is no more"))
        app.write_end()
        self._service.after_sync(lambda: self._remove(app.all_parts()))


def staged_messages(app: App) -> int:
    """How many messages an app has staged that are not published. Raises LeaseError."""
    try:
        return sum(part.count() for part in app.all_parts())
    except (CorruptRecord, ValueError) as error:
        raise LeaseError(GONE, f"what app '{app.name}' has staged cannot be read: {error}") from error


def _is_same(part: Part, number: int, blob: bytes) -> bool:
    try:
        return part.blob(number) == blob
    except (CorruptRecord, ValueError) as error:
        raise LeaseError(GONE, f"txn.stage: what was staged cannot be read: {error}") from error


def _answered(attempt: Callable[[], None], then: Then) -> None:
    """What was put off is tried, and answered with its refusal, should it be refused."""
    try:
        attempt()
    except LeaseError as error:
        then(error)

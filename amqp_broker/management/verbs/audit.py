"""AuditVerbs: what requests of `amq.system` leave in the audit log, and the log itself, page by page.

A page of a cluster is made of one of each node, newest first; `next` is by node where its page ends. Who has not
answered in time stands in `stale`, and its lines come with the next page that it answers.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from amqp_broker.audit.actor import actor_of
from amqp_broker.audit.audit_log import DONE, REFUSED
from amqp_broker.audit.files import Found, Place
from amqp_broker.management.access import LOOKING
from amqp_broker.management.refused import FAILED, Refused
from amqp_broker.management.written_json import JsonText, list_of
from amqp_broker.metadata.access import ADMINISTRATOR
from amqp_broker.protocol.json_values import JsonObject, JsonValue
from amqp_broker.settings.log_format import about
from amqp_broker.turn.task import Steps

if TYPE_CHECKING:
    from amqp_broker.audit.audit_log import AuditLog
    from amqp_broker.channel.channel import Channel
    from amqp_broker.management.peer_questions import PeerQuestions
    from amqp_broker.management.request import Request

log = logging.getLogger("amqp_broker.audit")

_DEFAULT_LIMIT: Final = 50
_MOST_LIMIT: Final = 200
#: What says nothing about the change, or must not be read by anybody.
_LEFT_OUT: Final = frozenset({
    "as_user", "as_host", "vhost", "password", "password_hash", "hashing_algorithm", "old_password", "definitions",
})  # fmt: skip
#: In which of its fields a request says what it is about.
_NAMES: Final = ("name", "user", "queue", "node", "connection")
#: What an answer says that belongs to the change.
_OF_ANSWER: Final = ("commands", "closed", "remaining", "dropped_queues", "moves")
_FILTERS: Final = ("user", "what", "vhost", "name", "outcome", "from")


class AuditVerbs:
    """See the module's docstring."""

    def __init__(self, audit: AuditLog, peers: PeerQuestions) -> None:
        self._audit = audit
        self._peers = peers
        self.verbs: dict[str, Callable[[Request], Steps]] = {
            "audit.page": self._page,
        }
        peers.serve({"audit": self._serve})

    def record(self, channel: Channel, verb: str, request: Request, said: JsonObject) -> None:
        """A request was answered."""
        if verb in LOOKING or request.fields.get("dry_run") is True:
            return
        fields, session, asker = request.fields, channel.session, request.asker
        host = fields.get("as_host", "")
        is_told = isinstance(host, str) and ADMINISTRATOR in session.tags()
        peer = channel.connection.peer
        actor = actor_of(session, peer.host, peer.port, user=asker.name, for_host=host if is_told else "")
        name = next((fields[key] for key in _NAMES if isinstance(fields.get(key), str)), "")
        vhost = fields.get("vhost", "")
        vhost = vhost if isinstance(vhost, str) else ""
        is_done = bool(said.get("ok", True))
        shown = about(
            "administration", what=verb, vhost=vhost, name=name, user=actor.user, by=actor.by, peer=actor.host,
            outcome=DONE if is_done else REFUSED,
        )  # fmt: skip
        words = (verb, name, actor.user, actor.host, DONE if is_done else said.get("error", REFUSED))
        log.info("%s %r for user %r from %s: %s", *words, extra=shown)
        if not is_done:
            self._audit.refuse(actor, verb, str(said.get("error", "")), vhost, name)
            return
        details = {key: value for key, value in fields.items() if key not in _LEFT_OUT and value != name}
        details |= {key: said[key] for key in _OF_ANSWER if key in said}
        if "password" in fields or "password_hash" in fields:
            details["password"] = "changed"
        self._audit.record(actor, verb, vhost, name, details)

    # -- pages -----------------------------------------------------------------------------------------------------

    def _page(self, request: Request) -> Steps:
        """Newest first. before: the `next` of the page before this one."""
        own, limit = self._peers.own_node, _limit(request)
        before = request.get("before", None)
        if before is not None and not (isinstance(before, dict) and all(_is_place(each) for each in before.values())):
            raise ValueError("field before has to be the `next` of the page before")
        chosen = request.text("node", "")
        nodes = [name for name in (own, *self._peers.others()) if not chosen or name == chosen]
        if not nodes:
            raise ValueError(f"no member '{chosen}'; there are {', '.join((own, *self._peers.others()))}")
        nodes = [name for name in nodes if before is None or name in before]
        asked = {}
        for name in nodes:
            if name != own:
                fields = {**_filters(request), "limit": limit, "before": (before or {}).get(name)}
                asked[name] = self._peers.ask(name, "audit", fields, request.asker)
        pages: dict[str, tuple[list[tuple[int, JsonValue, str]], JsonValue]] = {}
        if own in nodes:
            rows, end = yield from self._read(request, (before or {}).get(own), limit)
            pages[own] = rows, end
        stale = []
        for name, question in asked.items():
            answer = yield question
            if answer is None:
                stale.append(name)
                continue
            texts = answer.text.split("\n") if answer.text else []
            rows = [(at, place, text) for (at, place), text in zip(answer.fields["rows"], texts, strict=True)]
            pages[name] = rows, answer.fields["next"]
        yield None
        rows, following = _merged(pages, limit)
        yield None
        following |= {name: (before or {}).get(name) for name in stale}
        return {"rows": list_of(rows), "next": following or None, "stale": stale}

    def _serve(self, request: Request) -> Steps:
        rows, end = yield from self._read(request, request.get("before", None), _limit(request))
        said = {"rows": [[at, place] for at, place, _ in rows], "next": end}
        return said, "\n".join(text for _, _, text in rows)

    def _read(self, request: Request, before: JsonValue, limit: int) -> Steps:
        """Its result: lines of this node with their times and places, and from where to go on."""
        wanted = _filters(request)
        times: list[int] = []
        place = Place(*before) if before is not None else None
        work = self._audit.read(place, limit, lambda line: _fits(line, wanted, times))
        found: Found = yield work
        yield None
        if work.error is not None:
            raise Refused(FAILED, f"the audit log cannot be read: {work.error}")
        lines = zip(times, found.lines, strict=True)
        rows = [(at, list(at_place), line.decode("ascii")) for at, (at_place, line) in lines]
        return rows, None if found.next is None else list(found.next)


def _limit(request: Request) -> int:
    return request.number("limit", _DEFAULT_LIMIT, 1, _MOST_LIMIT)


def _filters(request: Request) -> JsonObject:
    found: JsonObject = {key: request.text(key) for key in _FILTERS if request.has(key)}
    for key in ("since", "until"):
        if request.has(key):
            found[key] = request.number(key, None, 0, 1 << 60)
    return found


def _fits(line: bytes, wanted: JsonObject, times: list[int]) -> bool:
    """In the reader's thread: whether a line is wanted, and if so when it was. `what` may be the beginning of one, such
    as `user.`; `from` that of an address."""
    try:
        fields = json.loads(line)
        at = fields["at"]
    except (ValueError, KeyError, TypeError):
        return False  # not one of ours
    if not wanted.get("since", 0) <= at <= wanted.get("until", at):
        return False
    for key in _FILTERS:
        asked, value = wanted.get(key), fields.get(key, "")
        if asked is not None and not (value == asked or (key in ("what", "from") and value.startswith(asked))):
            return False
    times.append(at)
    return True


def _merged(
    pages: dict[str, tuple[list[tuple[int, JsonValue, str]], JsonValue]], limit: int
) -> tuple[list[str], JsonObject]:
    """The newest of all, and by node from where to go on; nodes whose log is at its beginning are left out."""
    rows = sorted(
        ((-at, name, number, place, text) for name, (found, _) in pages.items()
         for number, (at, place, text) in enumerate(found)),
        key=lambda row: row[:3],
    )  # fmt: skip
    taken = rows[:limit]
    following: JsonObject = {}
    for name, (found, end) in pages.items():
        own = [row for row in taken if row[1] == name]
        if len(own) == len(found):
            if end is not None:
                following[name] = end
        else:
            following[name] = own[-1][3] if own else _behind(found[0][1], found[0][2])
    return [JsonText(row[4]) for row in taken], following


def _behind(place: JsonValue, text: str) -> JsonValue:
    """So that this line is the next one."""
    return [place[0], place[1] + len(text) + 1]


def _is_place(value: JsonValue) -> bool:
    return value is None or (
        isinstance(value, list) and len(value) == 2 and all(type(each) is int and each >= 0 for each in value)
    )

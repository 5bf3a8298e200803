"""Moving the messages of a queue, and dead letters back to where they came from: jobs are begun, seen, cancelled."""

from __future__ import annotations

import uuid

import msgspec

from amqp_broker.moving.destinations import Destination, Place, to_first_exchange, to_first_queue, to_place
from amqp_broker.moving.mover import CannotMove, Move
from amqp_broker.moving.survey import PAGE_MESSAGES, Selected, filtered, survey
from amqp_broker.web.access import Access
from amqp_broker.web.answer import Answer, no_content
from amqp_broker.web.asked import Asked
from amqp_broker.web.body import read_body
from amqp_broker.web.endpoint import JOB_OR_PREVIEW, Endpoint
from amqp_broker.web.endpoints.exchange_names import exchange_of
from amqp_broker.web.endpoints.lists import is_there
from amqp_broker.web.endpoints.queues import require
from amqp_broker.web.errors import bad_request, object_not_found
from amqp_broker.web.jobs import Job
from amqp_broker.web.user_sessions import Key

_INTO = {"queue": to_first_queue, "exchange": to_first_exchange}


class ToBody(msgspec.Struct):
    """A queue, or an exchange with a routing key."""

    queue: str | None = None
    exchange: str | None = None
    routing_key: str = ""

    def place(self) -> Place:
        """Raises ApiError."""
        if (self.queue is None) == (self.exchange is None):
            raise bad_request('to is {"queue": NAME}, or {"exchange": NAME, "routing_key": KEY}')
        return Place("", self.queue) if self.queue is not None else Place(
            exchange_of(self.exchange or ""), self.routing_key
        )


def check_pace(limit: int | None, rate: float | None) -> None:
    """Raises ApiError."""
    if (limit is not None and limit < 1) or (rate is not None and rate <= 0):
        raise bad_request("limit is at least 1, rate above 0")


class WhichBody(msgspec.Struct, kw_only=True):
    """What both have: which messages, how many, how fast, and whether it is to be done at all."""

    filter: str = ""
    positions: list[int] | None = None
    limit: int | None = None
    rate: float | None = None
    dry_run: bool = False

    def check(self) -> None:
        """Raises ApiError."""
        check_pace(self.limit, self.rate)
        if self.positions is not None and (self.filter or not 1 <= len(self.positions) <= PAGE_MESSAGES):
            raise bad_request(f"positions are 1 to {PAGE_MESSAGES}, without a filter")


class MoveBody(WhichBody, kw_only=True):
    """To one place."""

    to: ToBody


class ReplayBody(WhichBody, kw_only=True):
    """To where each came from: the queue in which it died first, or the exchange and key that it was published to."""

    into: str = "queue"


def move_messages(asked: Asked) -> Answer:
    body = read_body(asked.body, MoveBody)
    place = body.to.place()
    return _begin(asked, "move", body, to_place(place), place)


def replay_messages(asked: Asked) -> Answer:
    body = read_body(asked.body, ReplayBody)
    if body.into not in _INTO:
        raise bad_request(f"into is one of {', '.join(_INTO)}")
    return _begin(asked, "replay", body, _INTO[body.into])


def require_place(asked: Asked, vhost: str, place: Place) -> None:
    """What all messages are to go to has to be there before anything is begun. Raises ApiError."""
    kind, name = ("exchange", place.exchange) if place.exchange else ("queue", place.routing_key)
    if not is_there(asked, f"{kind}s", vhost=vhost, name=name):
        raise bad_request(f"to: there is no {kind} '{name}' in vhost '{vhost}'; declare it, or name another one")


def _begin(
    asked: Asked, kind: str, body: WhichBody, destination: Destination, place: Place | None = None
) -> Answer:
    """place: the one where all go, if that is one."""
    body.check()
    vhost, queue = asked.name("vhost"), asked.name("queue")
    require(asked, "queues", vhost, queue)
    if place is not None:
        require_place(asked, vhost, place)
    if body.dry_run:
        return Answer(value=survey(asked.verb, vhost, queue, body.filter, destination))
    limit = body.limit
    try:
        wanted = filtered(body.filter)
        if body.positions is not None:
            wanted = Selected(asked.verb, vhost, queue, body.positions)
            limit = len(body.positions)
    except (ValueError, CannotMove) as error:
        raise bad_request(str(error)) from None
    move = Move(uuid.uuid4().hex, queue, destination, wanted, limit, body.rate)
    job = asked.services.jobs.start(kind, Key(asked.user.name, vhost, asked.host), move)
    return Answer(202, job.shown(), {"location": f"/api/v1/jobs/{move.name}"})


def list_jobs(asked: Asked) -> Answer:
    """The own ones, the last first; who administers sees all."""
    return Answer(value=[job.shown() for job in reversed(asked.services.jobs.all()) if _is_shown(asked, job)])


def show_job(asked: Asked) -> Answer:
    return Answer(value=_find(asked).shown())


def end_job(asked: Asked) -> Answer:
    """One that runs ends behind what is on its way; one that has ended is forgotten."""
    asked.services.jobs.remove(_find(asked))
    return no_content()


def _find(asked: Asked) -> Job:
    job = asked.services.jobs.find(asked.name("job"))
    if job is None or not _is_shown(asked, job):
        raise object_not_found()
    return job


def _is_shown(asked: Asked, job: Job) -> bool:
    return job.user == asked.user.name or asked.has(Access.ADMINISTRATOR)


ENDPOINTS = (
    Endpoint("POST", "/v1/queues/{vhost}/{queue}/move", move_messages, body=MoveBody, done=JOB_OR_PREVIEW),
    Endpoint("POST", "/v1/queues/{vhost}/{queue}/replay", replay_messages, body=ReplayBody, done=JOB_OR_PREVIEW),
    Endpoint("GET", "/v1/jobs", list_jobs),
    Endpoint("GET", "/v1/jobs/{job}", show_job),
    Endpoint("DELETE", "/v1/jobs/{job}", end_job),
)

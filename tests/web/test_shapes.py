"""What RabbitMQ 3.10.8 answers, as names and types (shapes/*.json, written by shapes/record.py), is what we answer: or
it is named here, with the reason."""

from __future__ import annotations

import json
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from amqp_broker.testing.embedded import RunningBroker
from tests.web.http_client import Http
from tests.web.shapes.filled import PATHS, ask, filled
from tests.web.shapes.shape import differences, shape_of

#: One broker for all of them.
pytestmark = pytest.mark.xdist_group("web shapes")
FOLDER = Path(__file__).parent / "shapes"

#: What we do not send, or send otherwise: file and dotted path, as patterns.
REASONS = {
    "* *backing_queue_status": "what RabbitMQ 3 has of a queue's inside, and 4 has not",
    "* *recoverable_slaves": "mirrored queues, which RabbitMQ 4 has not",
    "* *single_active_consumer_ctag": "a slip of 3.10's: quorum queues of 4 say single_active_consumer_tag",
    "queue* *open_files": "a group has its files, not a queue",
    "queue* *message_bytes_dlx": "dead letters are counted, their octets are not",
    "queue idle_since": "there is one while nobody uses a queue, and this one is used",
    "*channel* *idle_since": "when a channel was used last is not known",
    "*channel* *message_stats.*": "a channel counts what it published and was given, not how; queues do",
    "overview listeners[[]].socket_opts.*": "options of Erlang's sockets",
    "vhost* *message_stats.confirm*": "confirms and what went nowhere are counted for the node, and for channels",
    "vhost* *message_stats.*_unroutable*": "as above",
    "definitions_vhost *.vhost": "RabbitMQ 4 leaves it out: all are of that one",
    "node* *config_files[[]]": "there may be none",
    "node* *log_files[[]]": "its log is its standard error",
    "node* *enabled_plugins[[]]": "there are no plugins",
    "extensions *": "there are no plugins",
    "parameters *": "what 3.10 lists are policies and limits, which have paths of their own",
    "auth *": "a plugin's",
}


@pytest.fixture(scope="module")
def names(http: Http, broker: RunningBroker) -> Iterator[dict[str, str]]:
    with filled(http, broker.url) as found:
        yield found


@pytest.mark.parametrize("file", PATHS)
def test_an_answer_has_what_rabbitmq_sends(http: Http, names: dict[str, str], file: str) -> None:
    recorded = json.loads((FOLDER / f"{file}.json").read_text(encoding="utf-8"))
    assert recorded["path"] == PATHS[file]
    found = differences(recorded["shape"], shape_of(ask(http, names, PATHS[file])))
    unknown = [(path, how) for path, how in found if not any(fnmatchcase(f"{file} {path}", each) for each in REASONS)]
    assert not unknown, "\n".join(f"{file} {path} {how}" for path, how in unknown)

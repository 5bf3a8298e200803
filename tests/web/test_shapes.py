"""What RabbitMQ 3.10.8 answers, as names and types (shapes/*.json, written by shapes/record.py), is what we answer: or it
is named here, with the reason."""

from __future__ import annotations

import json
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from amqp_broker.testing.embedded import RunningBroker
from tests.web.http_client import Http
from tests.web.shapes.filled import PATHS, ask, filled
from tests.web.shapes.shape import differences, merge, shape_of

#: One broker for all of them.
pytestmark = pytest.mark.xdist_group("web shapes")
FOLDER = Path(__file__).parent / "shapes"

#: What we do not send, or send otherwise: file and dotted path, as patterns.
REASONS = {
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

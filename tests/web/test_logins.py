"""Who asks by name and password: as long as these are right, wherever they are changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from amqp_broker.settings.config import SETTINGS
from amqp_broker.settings.setting import COVERED
from amqp_broker.system_client import SystemClient
from amqp_broker.testing.embedded import RunningBroker
from tests.web.http_client import Http


@pytest.fixture
def node(broker: RunningBroker) -> Iterator[SystemClient]:
    with SystemClient(broker.url) as client:
        yield client


def change_password(node: SystemClient) -> None:
    node.request("user.put", name="u", password="another")


def take_tags(node: SystemClient) -> None:
    node.request("user.put", name="u", tags=[])


def delete(node: SystemClient) -> None:
    node.request("user.delete", name="u")


@pytest.mark.parametrize(("change", "status"), [(change_password, 401), (take_tags, 401), (delete, 401)])
def test_what_was_changed_without_this_process_counts_at_once(
    http: Http, node: SystemClient, change: Callable[[SystemClient], None], status: int
) -> None:
    assert http("PUT", "/users/u", {"password": "right", "tags": "administrator"}).status in (201, 204)
    user = http.as_user("u", "right")
    assert user("PUT", "/vhosts/by-u").status in (201, 204)
    change(node)
    assert user("PUT", "/vhosts/by-u").status == status
    assert user("GET", "/whoami").status == status
    user.close()


def test_who_is_put_without_a_password_has_none(http: Http) -> None:
    http("PUT", "/users/v", {"password": "right", "tags": "administrator"})
    user = http.as_user("v", "right")
    assert user("GET", "/whoami").status == 200
    assert http("PUT", "/users/v", {"tags": "administrator"}).status == 204
    assert user("GET", "/whoami").status == 401
    assert http.get("/users/v")["password_hash"] == ""
    assert http("PUT", "/users/w", {"tags": ""}).status == 201
    user.close()


def test_the_settings_in_force_are_shown_and_secrets_are_covered(http: Http) -> None:
    said = http("GET", "/config/effective")
    lines = dict(line.split(" = ", 1) for line in said.body.decode().splitlines())
    assert (said.status, lines["log_level"], lines["heartbeat"]) == (200, "warning", "1min")
    assert {each.key for each in SETTINGS if not each.is_hidden} == set(lines)
    assert {lines[each.key] for each in SETTINGS if each.is_secret and not each.is_hidden} <= {COVERED, ""}

"""Every endpoint with every tag: who may ask for what, as RabbitMQ's clients expect it."""

from __future__ import annotations

import re

import pytest

from amqp_broker.web.endpoints.all import api_endpoints
from tests.web.http_client import Http

#: One broker for all of them.
pytestmark = pytest.mark.xdist_group("web access")

#: Path, then methods with the least tag: - nobody is asked, m management, p policymaker, o monitoring, a administrator.
TABLE = """
/overview GET:m
/nodes GET:o
/nodes/{node} GET:o
/nodes/{node}/memory GET:o
/nodes/{node}/memory/relative GET:o
/queues GET:m
/queues/detailed GET:m
/queues/{vhost} GET:m
/queues/{vhost}/{queue} GET:m PUT:m DELETE:m
/queues/{vhost}/{queue}/contents DELETE:m
/queues/{vhost}/{queue}/get POST:m
/queues/{vhost}/{queue}/actions POST:a
/v1/queues/{vhost}/{queue}/messages GET:m
/v1/queues/{vhost}/{queue}/messages/{position}/body GET:m
/v1/queues/{vhost}/{queue}/move POST:m
/v1/queues/{vhost}/{queue}/replay POST:m
/v1/queues/{vhost}/{queue}/homes GET:a
/v1/queues/{vhost}/{queue}/rehome POST:a
/v1/homes GET:a
/v1/queue-types GET:m
/v1/workers GET:o
/v1/rebalance/classic-queues POST:a
/v1/streams/{vhost}/{stream} GET:m
/v1/streams/{vhost}/{stream}/offset GET:m
/v1/streams/{vhost}/{stream}/segments GET:m
/v1/streams/{vhost}/{stream}/compact POST:a
/v1/streams/{vhost}/{stream}/trim POST:a
/v1/streams/{vhost}/{stream}/groups/{group} PUT:a DELETE:a
/v1/streams/{vhost}/{stream}/holds/{hold} PUT:m DELETE:m
/v1/streams/{vhost}/{stream}/producers/{producer} GET:m
/v1/streams/{vhost}/{stream}/replay POST:m
/v1/jobs GET:m
/v1/jobs/{job} GET:m DELETE:m
/queues/quorum/{vhost}/{queue}/status GET:m
/queues/quorum/{vhost}/{queue}/replicas/add POST:a
/queues/quorum/{vhost}/{queue}/replicas/delete DELETE:a
/queues/quorum/replicas/on/{node}/grow POST:a
/queues/quorum/replicas/on/{node}/shrink DELETE:a
/exchanges GET:m
/exchanges/{vhost} GET:m
/exchanges/{vhost}/{exchange} GET:m PUT:m DELETE:m
/exchanges/{vhost}/{exchange}/publish POST:m
/bindings GET:m
/bindings/{vhost} GET:m
/queues/{vhost}/{queue}/bindings GET:m
/exchanges/{vhost}/{exchange}/bindings/source GET:m
/exchanges/{vhost}/{exchange}/bindings/destination GET:m
/bindings/{vhost}/e/{exchange}/q/{destination} GET:m POST:m
/bindings/{vhost}/e/{exchange}/q/{destination}/{props} GET:m DELETE:m
/bindings/{vhost}/e/{exchange}/e/{destination} GET:m POST:m
/bindings/{vhost}/e/{exchange}/e/{destination}/{props} GET:m DELETE:m
/connections GET:m
/vhosts/{vhost}/connections GET:m
/connections/username/{user} GET:m DELETE:a
/connections/{connection} GET:m DELETE:m
/connections/{connection}/channels GET:m
/connections/{connection}/sessions GET:m
/channels GET:m
/vhosts/{vhost}/channels GET:m
/channels/{channel} GET:m
/consumers GET:m
/consumers/{vhost} GET:m
/consumers/{vhost}/{connection}/{channel}/{tag} DELETE:a
/vhosts GET:m
/vhosts/{vhost} GET:m PUT:a DELETE:a
/vhosts/{vhost}/permissions GET:a
/vhosts/{vhost}/topic-permissions GET:a
/vhosts/{vhost}/deletion/protection GET:a POST:a DELETE:a
/vhosts/{vhost}/start/{node} POST:a
/users GET:a
/users/without-permissions GET:a
/users/bulk-delete POST:a
/users/{user} GET:a PUT:a DELETE:a
/users/{user}/permissions GET:a
/users/{user}/topic-permissions GET:a
/users/{user}/queues GET:m
/whoami GET:m
/auth/hash_password/{password} GET:a
/permissions GET:a
/permissions/{vhost}/{user} GET:a PUT:a DELETE:a
/topic-permissions GET:a
/topic-permissions/{vhost}/{user} GET:a PUT:a DELETE:a
/topic-permissions/{vhost}/{user}/{exchange} DELETE:a
/policies GET:m
/policies/{vhost} GET:m
/policies/{vhost}/{policy} GET:m PUT:p DELETE:p
/operator-policies GET:m
/operator-policies/{vhost} GET:m
/operator-policies/{vhost}/{policy} GET:m PUT:a DELETE:a
/vhost-limits GET:m
/vhost-limits/{vhost} GET:m
/vhost-limits/{vhost}/{limit} PUT:a DELETE:a
/user-limits GET:m
/user-limits/{user} GET:m
/user-limits/{user}/{limit} PUT:a DELETE:a
/parameters GET:p
/parameters/{component} GET:p
/parameters/{component}/{vhost} GET:p
/parameters/{component}/{vhost}/{parameter} GET:p PUT:p DELETE:p
/global-parameters GET:p
/global-parameters/{parameter} GET:p PUT:a DELETE:a
/cluster-name GET:m PUT:a
/definitions GET:a POST:a
/all-configuration GET:a POST:a
/definitions/{vhost} GET:a POST:a
/health/checks/alarms GET:m
/health/checks/local-alarms GET:m
/health/checks/certificate-expiration/{within}/{unit} GET:m
/health/checks/port-listener/{port} GET:m
/health/checks/protocol-listener/{protocols} GET:m
/health/checks/virtual-hosts GET:m
/health/checks/metadata-store/initialized GET:m
/health/checks/metadata-store/initialized/with-data GET:m
/health/checks/node-is-quorum-critical GET:m
/health/checks/quorum-queues-without-elected-leaders/all-vhosts GET:m
/health/checks/quorum-queues-without-elected-leaders/all-vhosts/pattern/{pattern} GET:m
/health/checks/quorum-queues-without-elected-leaders/vhost/{vhost} GET:m
/health/checks/quorum-queues-without-elected-leaders/vhost/{vhost}/pattern/{pattern} GET:m
/health/checks/is-in-service GET:-
/health/checks/ready-to-serve-clients GET:-
/health/checks/below-node-connection-limit GET:-
/health/checks/reached-target-cluster-size GET:-
/healthchecks/node GET:m
/healthchecks/node/{node} GET:m
/aliveness-test/{vhost} GET:m
/login POST:- DELETE:-
/version GET:-
/auth GET:-
/extensions GET:m
/feature-flags GET:m
/feature-flags/{feature}/enable PUT:a
/deprecated-features GET:m
/deprecated-features/used GET:m
/rebalance/queues POST:a
/reset DELETE:a
/reset/{node} DELETE:a
/auth/attempts/{node} GET:o DELETE:o
/auth/attempts/{node}/source GET:o DELETE:o
/config/effective GET:a
/v1/unroutable GET:m
/v1/traces GET:a POST:a
/v1/traces/{trace} GET:a DELETE:a
/v1/tail GET:a
/v1/quorum-queues GET:m
/v1/quorum-queues/{vhost} GET:m
/v1/quorum-queues/{vhost}/{queue} GET:m
/v1/exchanges/{vhost}/{exchange}/route-test POST:m
/v1/audit GET:a
/v1/policies/preview POST:p
/v1/openapi.json GET:m
/v1/password PUT:v
/v1/definitions/diff POST:a
/v1/nodes/{node}/drain POST:a
/v1/nodes/{node}/revive POST:a
/v1/nodes/{node}/guard GET:o
"""
LEAST = {
    line.split()[0]: dict(each.split(":") for each in line.split()[1:]) for line in TABLE.strip().splitlines()
}
for _path, _methods in LEAST.items():
    if _methods.get("GET") == "m" and "aliveness" not in _path and "/messages" not in _path:
        _methods["GET"] = "v"  # to look is enough
MAY = {
    "-": {"none", "viewer", "management", "policymaker", "monitoring", "administrator"},
    "v": {"viewer", "management", "policymaker", "monitoring", "administrator"},
    "m": {"management", "policymaker", "monitoring", "administrator"},
    "p": {"policymaker", "administrator"},
    "o": {"monitoring", "administrator"},
    "a": {"administrator"},
}
WORDS = {
    "m": "Not management user", "p": "Not policymaker user", "o": "Not monitor user", "a": "Not administrator user",
}  # fmt: skip
#: What would be felt by the other tests, or asks for the world: who may, is let through elsewhere.
LEFT_OUT = {("POST", "/rebalance/queues")}


def test_the_table_has_every_endpoint() -> None:
    there = {(each.method, each.path) for each in api_endpoints().all}
    assert there == {(method, path) for path, methods in LEAST.items() for method in methods}


def path_of(template: str) -> str:
    """With names of things that are not there, but for the virtual host."""
    for name, value in (("{vhost}", "%2F"), ("{port}", "1"), ("{unit}", "x")):
        template = template.replace(name, value)
    return re.sub(r"\{\w+\}", "nothing", template)


def test_who_may_ask_for_what(by_tag: dict[str, Http]) -> None:
    wrong = []
    for template, methods in LEAST.items():
        if "deletion" in template or template == "/vhosts/{vhost}":
            template = template.replace("{vhost}", "nothing")
        for method, least in methods.items():
            for tag, http in by_tag.items():
                if (method, template) in LEFT_OUT and tag in MAY[least]:
                    continue
                # Everybody may know his own limits.
                path = template.replace("{user}", tag) if template.startswith("/user-limits") else template
                said = http(method, path_of(path), raw=b"{}" if method in ("PUT", "POST") else None)
                expected = "Not management user" if tag == "none" else WORDS.get(least, "")
                is_refused = said.status == 401 and said.reason in (*WORDS.values(), "Not management user")
                if is_refused != (tag not in MAY[least]) or (is_refused and said.reason != expected):
                    wrong.append((method, template, tag, said.status, said.body[:100]))
                if said.status >= 500 and said.status != 503:
                    wrong.append((method, template, tag, said.status, said.body[:100]))
    assert not wrong, "\n".join(map(str, wrong))


def test_without_a_login(http: Http) -> None:
    for template, methods in LEAST.items():
        for method, least in methods.items():
            said = http(method, path_of(template), authorization="")
            assert (said.status == 401) is (least != "-"), (method, template, said)
            if said.status == 401:
                assert said.body == b""
                assert said.headers["www-authenticate"] == 'Basic realm="RabbitMQ Management"'


def test_other_methods_are_not_known(http: Http) -> None:
    for template, methods in LEAST.items():
        allowed = {*methods, "OPTIONS"} | ({"HEAD"} if "GET" in methods else set())
        said = http("OPTIONS", path_of(template), authorization="")
        assert said.status == 200
        assert set(said.headers["allow"].split(", ")) == allowed
        said = http("PATCH", path_of(template))
        assert (said.status, said.body) == (405, b"")

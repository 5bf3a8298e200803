"""Each verb with each tag; own virtual hosts and those of others; requests as somebody else."""

from __future__ import annotations

import pytest

from amqp_broker.management.access import LEAST_TAGS, least_tag
from amqp_broker.management.refused import CODES
from amqp_broker.metadata import commands
from amqp_broker.metadata.access import ADMINISTRATOR
from tests.management.users import PASSWORD, USER, TaggedDesk, add_user, log_in
from tests.node.node_driver import NodeDriver, declare
from tests.node.system_service import SystemService

TAGS = ("nothing", "viewer", "management", "policymaker", "monitoring", "administrator")
#: By the least tag of a verb: whose tags are as good.
AS_GOOD = {
    None: TAGS,
    "viewer": TAGS[1:],
    "management": TAGS[2:],
    "policymaker": ("policymaker", "administrator"),
    "monitoring": ("monitoring", "administrator"),
    "administrator": ("administrator",),
}


@pytest.fixture(scope="module")
def driver() -> NodeDriver:
    driver = NodeDriver()
    driver.node.broker.propose(commands.put_vhost("theirs"))
    for tag in TAGS:
        add_user(driver, tag, *([] if tag == "nothing" else [tag]))
    service = SystemService(driver)
    service.client.send(1, declare("here"))
    driver.settle()
    return driver


@pytest.fixture(scope="module")
def service(driver: NodeDriver) -> TaggedDesk:
    return TaggedDesk(driver)


def verbs() -> list[str]:
    return list(NodeDriver().node.system._verbs)


def test_every_verb_of_the_table_is_there() -> None:
    assert set(LEAST_TAGS) <= set(verbs())


@pytest.mark.parametrize("verb", verbs())
@pytest.mark.parametrize("tag", TAGS)
def test_a_verb_is_for_whoever_has_the_tag(service: TaggedDesk, verb: str, tag: str) -> None:
    if verb in ("cluster.rebalance", "node.drain") and tag == "administrator":
        return
    # No fields: who is let through is told what is missing, or answered.
    answer = service.ask_as(tag, verb)
    may = tag in AS_GOOD[least_tag(verb)]
    assert (answer.get("code") != "not_authorised") is may, answer
    assert answer["ok"] or answer["code"] in CODES
    if not may:
        assert answer["reason"].startswith("Not ")
        assert tag in answer["error"]


def test_only_administrators_ask_as_somebody_else(driver: NodeDriver) -> None:
    for tag in ("management", "policymaker", "monitoring"):
        client = log_in(driver, tag)
        assert "connection.open-ok" in client.names()
        asked = SystemService(driver, client)
        assert asked.ask("whoami")["name"] == tag
        assert asked.ask("whoami", as_user=USER)["code"] == "not_authorised"
        driver.lose(client)


def test_there_is_no_asking_as_nobody(service: TaggedDesk) -> None:
    answer = service.ask_as("who", "whoami")
    assert (answer["code"], answer["kind"]) == ("not_found", "user")


def test_own_virtual_hosts_are_shown_and_all_to_those_who_monitor(service: TaggedDesk) -> None:
    def shown(tag: str) -> list[str]:
        return [row[0] for row in service.ask_as(tag, "objects.page", kind="vhosts", columns=["name"])["rows"]]

    assert shown("management") == shown("policymaker") == ["/"]
    assert shown("monitoring") == shown("administrator") == ["/", "theirs"]
    assert service.ask_as("management", "objects.page", kind="queues", vhost="theirs")["code"] == "not_authorised"
    assert service.ask_as("monitoring", "objects.page", kind="queues", vhost="theirs")["ok"]
    assert service.ask_as("management", "object", kind="vhosts", name="theirs")["code"] == "not_found"
    assert service.ask_as("management", "objects.page", kind="users")["code"] == "not_authorised"
    assert service.ask_as("administrator", "objects.page", kind="queues", vhost="nowhere")["code"] == "not_found"


def test_policymakers_make_policies_at_home(service: TaggedDesk) -> None:
    policy = {"name": "p", "pattern": "^x", "definition": {"max-length": 9}}
    assert service.ask_as("policymaker", "policy.put", vhost="/", **policy)["ok"]
    assert service.ask_as("policymaker", "policy.put", vhost="theirs", **policy)["code"] == "not_authorised"
    assert service.ask_as("policymaker", "operator_policy.put", vhost="/", **policy)["code"] == "not_authorised"
    assert service.ask_as("policymaker", "policy.delete", vhost="/", name="p")["ok"]


def test_connections_of_others_are_for_those_who_monitor(driver: NodeDriver, service: TaggedDesk) -> None:
    client = log_in(driver, "nothing")
    name = str(client.connection.peer)

    def shown(tag: str) -> list[str]:
        return [row[0] for row in service.ask_as(tag, "objects.page", kind="connections", columns=["user"])["rows"]]

    assert shown("management") == []
    assert set(shown("monitoring")) == {"nothing", USER}
    assert service.ask_as("monitoring", "connection.close", name=name)["code"] == "not_authorised"
    assert service.ask_as("management", "connection.close", name=name)["code"] == "not_found"
    assert service.ask_as("administrator", "connection.close", name=name, reason="enough")["closed"] == 1
    (closed,) = [event.method for event in client.take() if event.method.name == "connection.close"]
    assert (closed.reply_code, closed.reply_text) == (320, "CONNECTION_FORCED - enough")
    own = log_in(driver, "management")
    assert service.ask_as("management", "connection.close", user="management")["closed"] == 1
    assert "connection.close" in own.names()


def test_refusals_have_their_code(service: TaggedDesk) -> None:
    ask = service.service.ask
    assert ask("vhost.delete", name="nowhere")["code"] == "not_found"
    assert ask("user.delete", name=5)["code"] == "bad_request"
    assert ask("nonsense")["code"] == "bad_request"
    assert ask("user.put", name="amq.management")["code"] == "bad_request"
    users = {"users": [{"name": "amq.x", "password_hash": "", "tags": []}]}
    assert "reserved prefix" in ask("definitions.import", definitions=users)["error"]
    assert ADMINISTRATOR in service.ask_as("management", "vhost.delete", name="/")["error"]


def test_a_password_hash_is_read_as_in_definitions(driver: NodeDriver, service: TaggedDesk) -> None:
    (row,) = service.service.ask("objects.page", kind="users", columns=["password_hash", "name"], limit=1)["rows"]
    assert service.service.ask("user.put", name="hashed", password_hash=row[0], tags="")["ok"]
    assert service.service.ask("user.put", name="x", password_hash="no", tags="")["code"] == "bad_request"
    permission = {"configure": "", "write": "", "read": ""}
    assert service.service.ask("permission.put", user="hashed", vhost="/", **permission)["ok"]
    assert "connection.open-ok" in log_in(driver, "hashed", PASSWORD).names()


def test_parameters_are_kept_for_others(service: TaggedDesk) -> None:
    fields = {"vhost": "/", "component": "c", "name": "p"}
    assert service.ask_as("policymaker", "parameter.put", **fields, value={"a": 1})["ok"]
    assert service.ask_as("policymaker", "parameter.put", **{**fields, "vhost": "theirs"}, value=1)["ok"] is False
    (row,) = service.ask_as("policymaker", "objects.page", kind="parameters")["rows"]
    assert row == ["/", "c", "p", {"a": 1}]
    assert service.ask_as("policymaker", "parameter.delete", **fields)["ok"]
    assert service.ask_as("policymaker", "parameter.delete", **fields)["code"] == "not_found"
    assert service.service.ask("global_parameter.put", name="cluster_name", value="shop")["ok"]
    rows = dict(service.ask_as("policymaker", "objects.page", kind="global_parameters")["rows"])
    assert (rows.keys(), rows["cluster_name"]) == ({"cluster_name", "internal_cluster_id"}, "shop")
    assert service.service.ask("global_parameter.delete", name="cluster_name")["ok"]
    assert service.service.ask("global_parameter.delete", name="cluster_name")["code"] == "not_found"


def test_what_describes_a_virtual_host_is_changed_field_by_field(driver: NodeDriver, service: TaggedDesk) -> None:
    described = {"description": "d", "tags": "a,b", "default_queue_type": "quorum", "tracing": True}
    assert service.service.ask("vhost.create", name="described", **described)["ok"]
    assert service.service.ask("vhost.create", name="described", description="e")["ok"]
    known = driver.node.broker.metadata.vhost("described")
    assert known is not None
    assert (known.description, known.tags, known.default_queue_type, known.tracing) == ("e", ("a", "b"), "quorum", True)
    assert service.service.ask("vhost.create", name="x", default_queue_type="what")["code"] == "bad_request"

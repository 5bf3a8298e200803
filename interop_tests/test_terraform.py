"""Terraform with its provider for RabbitMQ (cyrilgdn/rabbitmq), both as they are: the resources of clients/terraform
are made, read, changed, imported and destroyed. `make interop` builds the provider, and Terraform where there is none.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import amqp_broker
from interop_tests.http_api import HttpApi, has
from interop_tests.tools import CLIENTS, tool

#: One broker, and one virtual host in it.
pytestmark = pytest.mark.xdist_group("terraform")
TIMEOUT_S = 300
VHOST = "tf%2Fshop"
CHANGE = "-var=change=true"
#: What `plan -detailed-exitcode` ends with.
NO_CHANGES, CHANGES = 0, 2
#: What is there after an apply: path -> a part of the answer, at first and with the change.
APPLIED: dict[str, tuple[Any, Any]] = {
    f"/vhosts/{VHOST}": ({"name": "tf/shop"},) * 2,
    "/users/tf-clerk": ({"tags": ["management", "policymaker"]}, {"tags": ["monitoring"]}),
    "/users/tf-nobody": ({"tags": []},) * 2,
    f"/permissions/{VHOST}/guest": ({"configure": ".*", "write": ".*", "read": ".*"},) * 2,
    f"/permissions/{VHOST}/tf-clerk": ({"configure": "", "write": ".*", "read": "^orders$"}, {"write": "^new"}),
    f"/topic-permissions/{VHOST}/tf-clerk": (
        [{"exchange": "amq.topic", "write": "^w", "read": "^r"}, {"exchange": "shop", "write": ".*", "read": ".*"}],
        [{"exchange": "amq.topic", "write": "^new", "read": "^r"}, {"exchange": "shop"}],
    ),
    f"/exchanges/{VHOST}/shop": ({"type": "topic", "arguments": {"alternate-exchange": "amq.fanout"}},) * 2,
    f"/queues/{VHOST}/orders%2Fof%20the%20day": (
        {"type": "quorum", "arguments": {"x-max-length": 10}}, {"type": "quorum", "arguments": {"x-max-length": 20}},
    ),
    f"/queues/{VHOST}/plain": ({"type": "classic", "policy": "short", "operator_policy": "cap"},) * 2,
    f"/bindings/{VHOST}/e/shop/q/plain": ([{"routing_key": "a.#"}], [{"routing_key": "b.*"}]),
    f"/bindings/{VHOST}/e/amq.headers/e/shop": ([{"arguments": {"x-match": "all", "n": 1}}],) * 2,
    f"/policies/{VHOST}/short": (
        {"pattern": "^plain", "priority": 3, "apply-to": "queues", "definition": {"max-length": 5}},
        {"definition": {"max-length": 7, "overflow": "drop-head"}},
    ),
    f"/operator-policies/{VHOST}/cap": (
        {"pattern": "^plain", "definition": {"max-length": 100, "message-ttl": 60000}},
        {"definition": {"max-length": 200, "message-ttl": 60000}},
    ),
}  # fmt: skip


class Terraform:
    """In a folder of its own, with the provider as it was built here: none is asked for at a registry."""

    def __init__(self, source: str, folder: Path, api: HttpApi) -> None:
        self._program = str(tool("terraform"))
        provider = tool("terraform-provider-rabbitmq")
        shutil.copytree(CLIENTS / "terraform" / source, folder, dirs_exist_ok=True)
        configuration = folder / "terraform.rc"
        overrides = f'dev_overrides {{ "cyrilgdn/rabbitmq" = "{provider.parent}" }}'
        configuration.write_text(f"provider_installation {{\n  {overrides}\n}}\n")
        self.folder = folder
        self._environment = {
            "PATH": os.environ["PATH"], "HOME": str(folder), "CHECKPOINT_DISABLE": "1", "TF_IN_AUTOMATION": "1",
            "TF_CLI_CONFIG_FILE": str(configuration), "RABBITMQ_ENDPOINT": api.url,
            "RABBITMQ_USERNAME": "guest", "RABBITMQ_PASSWORD": "guest",
        }  # fmt: skip

    def ended(self, command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self._program, command, *arguments],
            cwd=self.folder, env=self._environment, capture_output=True, text=True, timeout=TIMEOUT_S,
        )  # fmt: skip

    def __call__(self, command: str, *arguments: str) -> str:
        done = self.ended(command, *arguments)
        assert done.returncode == 0, (command, arguments, done.stdout, done.stderr)
        return done.stdout

    def apply(self, *arguments: str) -> None:
        self("apply", "-auto-approve", "-no-color", *arguments)

    def changes(self, *arguments: str) -> set[str]:
        """Addresses of the resources that a plan would change, by a plan of their present state."""
        done = self.ended("plan", "-detailed-exitcode", "-out=planned", "-no-color", *arguments)
        assert done.returncode in (NO_CHANGES, CHANGES), (done.stdout, done.stderr)
        planned = json.loads(self("show", "-json", "planned"))["resource_changes"]
        changed = {each["address"] for each in planned if each["change"]["actions"] not in (["no-op"], ["read"])}
        assert bool(changed) == (done.returncode == CHANGES)
        return changed

    def ids(self) -> dict[str, str]:
        """Address of each resource that it looks after -> the id by which the provider knows it."""
        resources = json.loads(self("show", "-json"))["values"]["root_module"]["resources"]
        return {each["address"]: each["values"]["id"] for each in resources if each["mode"] == "managed"}


@pytest.fixture(scope="module")
def api() -> Iterator[HttpApi]:
    with amqp_broker.running(management=True) as running:
        yield HttpApi(running.management_url)


@pytest.fixture
def terraform(api: HttpApi, tmp_path: Path) -> Iterator[Terraform]:
    """What is made is destroyed."""
    made = Terraform("resources", tmp_path, api)
    made.apply()
    yield made
    made("destroy", "-auto-approve")
    for path in APPLIED:
        assert api(path) in (None, []), path


def assert_applied(api: HttpApi, is_changed: bool) -> None:
    for path, expected in APPLIED.items():
        found = api(path)
        assert has(found, expected[is_changed]), (path, found)


def test_what_is_applied_is_there_and_stays_as_it_is(terraform: Terraform, api: HttpApi) -> None:
    assert_applied(api, is_changed=False)
    assert terraform.changes() == set()
    (read,) = json.loads(terraform("output", "-json")).values()
    assert has(read["value"], {"tags": ["management", "policymaker"], "vhost": "tf/shop"})
    assert has(read["value"]["settings"], [{"type": "topic", "durable": True}])


def test_it_is_changed(terraform: Terraform, api: HttpApi) -> None:
    assert HttpApi(api.url, "tf-clerk", "first")("/whoami")["name"] == "tf-clerk"
    assert terraform.changes(CHANGE) == {
        "rabbitmq_binding.plain", "rabbitmq_operator_policy.cap", "rabbitmq_permissions.clerk", "rabbitmq_policy.short",
        "rabbitmq_queue.orders", "rabbitmq_topic_permissions.clerk", "rabbitmq_user.clerk",
    }  # fmt: skip
    terraform.apply(CHANGE)
    assert_applied(api, is_changed=True)
    assert terraform.changes(CHANGE) == set()
    assert HttpApi(api.url, "tf-clerk", "second")("/whoami")["name"] == "tf-clerk"


def test_what_somebody_else_has_changed_is_seen_and_set_right(terraform: Terraform, api: HttpApi) -> None:
    api(f"/queues/{VHOST}/plain", "DELETE")
    api(f"/policies/{VHOST}/short", "DELETE")
    api(f"/permissions/{VHOST}/tf-clerk", "PUT", {"configure": "x", "write": "", "read": ""})
    api("/users/tf-nobody", "PUT", {"password": "p", "tags": "monitoring"})
    assert terraform.changes() == {
        "rabbitmq_queue.plain", "rabbitmq_binding.plain", "rabbitmq_policy.short", "rabbitmq_permissions.clerk",
        "rabbitmq_user.nobody",
    }  # fmt: skip
    terraform.apply()
    assert_applied(api, is_changed=False)


def test_what_went_with_its_virtual_host_comes_back(terraform: Terraform, api: HttpApi) -> None:
    api(f"/vhosts/{VHOST}", "DELETE")
    assert terraform.changes() == terraform.ids().keys() - {"rabbitmq_user.clerk", "rabbitmq_user.nobody"}
    terraform.apply()
    assert_applied(api, is_changed=False)


def test_it_is_imported(terraform: Terraform, api: HttpApi) -> None:
    """By its id alone, into a state that knows nothing: what the API says of it is all that is to be said."""
    ids = terraform.ids()
    state = terraform.folder / "terraform.tfstate"
    known = state.rename(terraform.folder / "known.tfstate")
    for address, own in ids.items():
        terraform("import", address, own)
    assert terraform.ids() == ids
    # A password is not read, and of a binding the provider reads arguments_json as arguments.
    assert terraform.changes() == {"rabbitmq_user.clerk", "rabbitmq_user.nobody", "rabbitmq_binding.headers"}
    shutil.copy(known, state)


def test_plugins_are_refused_with_the_way_out(api: HttpApi, tmp_path: Path) -> None:
    done = Terraform("refused", tmp_path, api).ended("apply", "-auto-approve", "-no-color")
    said = " ".join((done.stdout + done.stderr).replace("│", " ").split())
    assert done.returncode != 0
    for component in ("shovel", "federation-upstream"):
        assert f"component {component} not found" in said, said
    assert "amqp-broker queue move" in said
    assert api("/parameters") == []


def test_every_resource_is_used(api: HttpApi, tmp_path: Path) -> None:
    schemas = json.loads(Terraform("resources", tmp_path, api)("providers", "schema", "-json"))
    (provider,) = schemas["provider_schemas"].values()
    written = "".join(path.read_text() for path in sorted((CLIENTS / "terraform").glob("*/main.tf")))
    for kind, key in (("resource", "resource_schemas"), ("data", "data_source_schemas")):
        assert {name for name in provider[key] if f'{kind} "{name}"' not in written} == set()

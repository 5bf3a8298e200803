"""rabbitmqadmin of RabbitMQ 4, a program in Rust whose answers are typed: every command that its help names, however
deep. `make interop` builds it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import amqp_broker
from amqp_broker.client import Connection
from amqp_broker.protocol import methods as m
from interop_tests.admin_program import AdminProgram, Case, Checks, assert_says, checked_by
from interop_tests.http_api import HttpApi, has
from interop_tests.tls_proxy import tls_proxy
from interop_tests.tools import tool

pytestmark = pytest.mark.xdist_group("rabbitmqadmin 4")
PUT, POST = "PUT", "POST"
QUEUE = {"durable": True}
STREAM = {"durable": True, "arguments": {"x-queue-type": "stream"}}
TOPIC = {"durable": True, "type": "topic"}
USER = {"password": "p", "tags": ""}
POLICY = {"pattern": "^cut", "definition": {"max-length": 5}, "apply-to": "queues"}
TWO_KEYS = {"pattern": "^none", "definition": {"max-length": 5, "message-ttl": 60}, "apply-to": "queues"}
ALL = {"configure": ".*", "write": ".*", "read": ".*"}
#: It comes with definitions only: what it would be a setting of is a plugin elsewhere.
SHOVEL = {"vhost": "/", "component": "shovel", "name": "kept", "value": {"src-queue": "kept"}}
UPSTREAM = {"vhost": "/", "component": "federation-upstream", "name": "kept", "value": {"uri": "amqp://there"}}
CHECKS: Checks = {}


@pytest.fixture(scope="module")
def admin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AdminProgram]:
    """With a queue of three messages, another with a consumer, and one thing of each kind that can be listed."""
    program = tool("rabbitmqadmin-4")
    with amqp_broker.running(management=True) as running, Connection.open(running.url) as connection:
        channel = connection.channel()
        for queue in ("kept", "consumed"):
            channel.call(m.QueueDeclare(queue=queue, durable=True))
        channel.confirm_select()
        for _ in range(3):
            channel.publish("", "kept", b"a task", {"delivery_mode": 2})
        channel.wait_for_confirms()
        channel.consume("consumed", prefetch_count=7)
        port = str(urlsplit(running.management_url).port)
        command = [str(program), "--host", "127.0.0.1", "--port", port, "--table-style", "markdown"]
        made = AdminProgram(command, running, tmp_path_factory.mktemp("rabbitmqadmin"))
        api = made.api
        for path, body in (
            ("/vhosts/other", {"description": "another"}), ("/permissions/other/guest", ALL), ("/users/kept", USER),
            ("/exchanges/%2F/shop", TOPIC), ("/policies/%2F/cut", POLICY), ("/operator-policies/%2F/cap", POLICY),
            ("/vhost-limits/%2F/max-queues", {"value": 1000}), ("/user-limits/kept/max-channels", {"value": 70}),
            ("/queues/other/elsewhere", QUEUE), ("/queues/%2F/log", STREAM),
            ("/global-parameters/kept", {"value": {"n": 1}}),
        ):  # fmt: skip
            api(path, PUT, body)
        api("/bindings/%2F/e/shop/q/kept", POST, {"routing_key": "a.#"})
        api("/definitions", POST, {"parameters": [SHOVEL, UPSTREAM]})
        made.values["held"] = next(each["name"] for each in api("/channels") if each["user"] == "guest")[: -len(" (1)")]
        yield made


def each_of(commands: str, case: Callable[[str], Case]) -> None:
    """The same for all of these commands, but for a name of its own: several words for one thing."""
    for number, command in enumerate(commands.split(", ")):
        made = case(f"{command.replace(' ', '-')}-{number}")
        CHECKS[command] = made._replace(words=f"{command} {made.words}").check


def shows(commands: str, arguments: str, *says: str) -> None:
    each_of(commands, lambda _: Case(arguments, says=says))


def refused(commands: Sequence[str], arguments: str, *says: str) -> None:
    """Refused, with our words for what is done instead."""
    for command in commands:

        @checked_by(CHECKS, command)
        def it_is_refused(admin: AdminProgram, words: str = f"{command} {arguments}") -> None:
            admin.refused(words, *says)


def publish(queue: str) -> tuple[str, str, Any]:
    body = {"routing_key": queue, "properties": {}, "payload": "a body", "payload_encoding": "string"}
    return (POST, "/exchanges/%2F/amq.default/publish", body)


# What is shown.
shows("auth_attempts stats", "--node $node", "| http |", "| amqp |")
shows("bindings list, list bindings", "", "| / | shop | kept | queue | a.# | | a.%23 |")
shows("channels list, list channels", "", "| 1 | $held (1) | / | running | 1 |")
shows("connections list, list connections", "", "| $held | $node | running | AMQP 0-9-1 | guest |")
shows(
    "connections list_of_user, list user_connections, users connections", "--username guest",
    "| $held | $node | guest | / |",
)  # fmt: skip
shows("list consumers", "", "| / | consumed | amq.ctag-", "| true | 7 | true | false |")
shows("exchanges list, list exchanges", "", "| shop | / | topic | true | false |")
shows("queues list, list queues", "", "| kept | / | classic | true | false |", "| log | / | stream |")
shows("queues show", "--name kept", "| kept | / | classic | true | false | false | | $node | running |")
shows("streams list", "", "| log | / | stream |")
shows("streams show", "--name log", '| log | / | stream | true | false | false | x-queue-type: "stream" | $node |')
shows("users list, list users", "", "| guest | administrator |", "| kept | |")
shows("vhosts list, list vhosts", "", "| other | | another | classic | false |")
shows("permissions list, list permissions, users permissions", "", "| guest | other | .* | .* | .* |")
shows("policies list, list policies", "", "| cut | / | ^cut | queues | 0 | max-length: 5 |")
shows("policies list_in", "--apply-to queues", "| cut | / | ^cut | queues | 0 | max-length: 5 |")
shows("policies list_matching_object", "--name cut.short --type queues", "| cut | / | ^cut | queues |")
shows("operator_policies list, list operator_policies", "", "| cap | / | ^cut | queues | 0 | max-length: 5 |")
shows("operator_policies list_in", "--apply-to queues", "| cap | / | ^cut | queues | 0 | max-length: 5 |")
shows("operator_policies list_matching_object", "--name cut.short --type queues", "| cap | / | ^cut | queues |")
shows("list vhost_limits, vhost_limits list", "", "| / | max-queues: 1000 |")
shows("list user_limits, user_limits list, users limits", "", "| kept | max-channels: 70 |")
shows("parameters list_all", "", '| kept | / | shovel | src-queue: "kept" |', "| kept | / | federation-upstream |")
shows("parameters list, list parameters", "--component shovel", '| kept | / | shovel | src-queue: "kept" |')
shows("parameters list_in", "--component shovel", '| kept | / | shovel | src-queue: "kept" |')
shows("global_parameters list", "", '| kept | {"n":1} |')
shows("nodes list, list nodes", "", "| $node |", "| name | uptime |")
shows(
    "nodes memory_breakdown_in_bytes, show memory_breakdown_in_bytes", "--node $node",
    "| Total (RSS) |", "| Quorum queue replica processes |", "| Other (used by the runtime) |",
)  # fmt: skip
shows("nodes memory_breakdown_in_percent, show memory_breakdown_in_percent", "--node $node", "| total | 100% |")
shows("show overview", "", "| RabbitMQ version | 4.", "| Product name | amqp-broker |", "| Messages (total) |")
shows("show churn", "", "| Queues and streams created |")
shows("show endpoint", "", "Using endpoint: http://127.0.0.1:")
shows("feature_flags list, list feature_flags", "", "| khepri_db | enabled |", "| stream_queue | enabled |")
shows("shell completions", "--shell bash", "_rabbitmqadmin() {")
shows("federation list_all_upstreams", "", "| kept | / | amqp://there |")
shows("health_check local_alarms, health_check cluster_wide_alarms", "", "health check passed")
shows("health_check node_is_quorum_critical", "", "health check passed")
shows("health_check port_listener", "--port $port", "health check passed")
shows("health_check protocol_listener", "--protocol amqp", "health check passed")

# What is made.
each_of("queues declare, declare queue", lambda name: Case(
    f"""--name {name} --type quorum --arguments '{{"x-max-length": 5}}'""",
    then={f"/queues/%2F/{name}": {"type": "quorum", "durable": True, "arguments": {"x-max-length": 5}}},
))  # fmt: skip
each_of("streams declare, declare stream", lambda name: Case(
    f"--name {name} --expiration 8h --max-length-bytes 5000000 --stream-max-segment-size-bytes 500000",
    then={f"/queues/%2F/{name}": {"type": "stream", "arguments": {
        "x-max-age": "8h", "x-max-length-bytes": 5_000_000, "x-stream-max-segment-size-bytes": 500_000,
    }}},
))  # fmt: skip
each_of("exchanges declare, declare exchange", lambda name: Case(
    f"--name {name} --type headers --durable false --auto-delete true",
    then={f"/exchanges/%2F/{name}": {"type": "headers", "durable": False, "auto_delete": True}},
))  # fmt: skip
each_of("bindings declare, exchanges bind, declare binding", lambda name: Case(
    f"""--source shop --destination-type exchange --destination amq.fanout --routing-key {name}
        --arguments '{{"n": 1}}'""",
    then={"/bindings/%2F/e/shop/e/amq.fanout": [{"routing_key": name, "arguments": {"n": 1}}]},
))  # fmt: skip
each_of("users declare, declare user", lambda name: Case(
    f"--name {name} --password secret --tags monitoring,policymaker",
    then={f"/users/{name}": {"tags": ["monitoring", "policymaker"]}},
))  # fmt: skip
each_of("vhosts declare, declare vhost", lambda name: Case(
    f"--name {name} --default-queue-type quorum --description 'for a test' --tracing",
    then={f"/vhosts/{name}": {"default_queue_type": "quorum", "description": "for a test", "tracing": True}},
))  # fmt: skip
each_of("permissions declare, declare permissions", lambda name: Case(
    f"--username {name} --configure '^c' --read '.*' --write '^w'", ((PUT, f"/users/{name}", USER),),
    then={f"/permissions/%2F/{name}": {"configure": "^c", "write": "^w", "read": ".*"}},
))  # fmt: skip


def can_be_changed(kind: str, one: str, path: str) -> None:
    """What policies of both kinds can."""
    each_of(f"{kind} declare, declare {one}", lambda name: Case(
        f"""--name {name} --pattern ^none --apply-to queues --priority 3 --definition '{{"max-length": 9}}'""",
        then={f"/{path}/%2F/{name}": {
            "pattern": "^none", "definition": {"max-length": 9}, "priority": 3, "apply-to": "queues",
        }},
    ))  # fmt: skip
    each_of(f"{kind} patch", lambda name: Case(
        f"""--name {name} --definition '{{"max-length": 7, "expires": 90000}}'""",
        ((PUT, f"/{path}/%2F/{name}", TWO_KEYS),),
        then={f"/{path}/%2F/{name}": {"definition": {"max-length": 7, "message-ttl": 60, "expires": 90000}}},
    ))  # fmt: skip
    each_of(f"{kind} update_definition", lambda name: Case(
        f"--name {name} --definition-key max-length --new-value 8", ((PUT, f"/{path}/%2F/{name}", TWO_KEYS),),
        then={f"/{path}/%2F/{name}": {"definition": {"max-length": 8, "message-ttl": 60}}},
    ))  # fmt: skip
    each_of(f"{kind} delete_definition_keys", lambda name: Case(
        f"--name {name} --definition-keys message-ttl", ((PUT, f"/{path}/%2F/{name}", TWO_KEYS),),
        then={f"/{path}/%2F/{name}": {"definition": {"max-length": 5}}},
    ))  # fmt: skip
    each_of(f"{kind} update_definitions_of_all_in", lambda name: Case(
        f"--vhost {name} --definition-key message-ttl --new-value 8",
        ((PUT, f"/vhosts/{name}", {}), (PUT, f"/{path}/{name}/a", TWO_KEYS), (PUT, f"/{path}/{name}/b", TWO_KEYS)),
        then={f"/{path}/{name}/{each}": {"definition": {"max-length": 5, "message-ttl": 8}} for each in "ab"},
    ))  # fmt: skip
    each_of(f"{kind} delete_definition_keys_from_all_in", lambda name: Case(
        f"--vhost {name} --definition-keys message-ttl",
        ((PUT, f"/vhosts/{name}", {}), (PUT, f"/{path}/{name}/a", TWO_KEYS), (PUT, f"/{path}/{name}/b", TWO_KEYS)),
        then={f"/{path}/{name}/{each}": {"definition": {"max-length": 5}} for each in "ab"},
    ))  # fmt: skip


can_be_changed("policies", "policy", "policies")
can_be_changed("operator_policies", "operator_policy", "operator-policies")
EVERYWHERE = {**TWO_KEYS, "definition": {"max-length": 5, "expires": 60}}
each_of("policies update_definitions_of_all", lambda name: Case(
    "--definition-key expires --new-value 8",
    ((PUT, f"/policies/%2F/{name}", EVERYWHERE), (PUT, f"/policies/other/{name}", EVERYWHERE)),
    then={f"/policies/{vhost}/{name}": {"definition": {"expires": 8}} for vhost in ("%2F", "other")},
))  # fmt: skip
each_of("policies delete_definition_keys_from_all", lambda name: Case(
    "--definition-keys expires",
    ((PUT, f"/policies/%2F/{name}", EVERYWHERE), (PUT, f"/policies/other/{name}", EVERYWHERE)),
    then={f"/policies/{vhost}/{name}": {"definition": {"max-length": 5}} for vhost in ("%2F", "other")},
))  # fmt: skip
each_of("policies declare_override", lambda name: Case(
    f"""--name {name} --override-name {name}-more --definition '{{"expires": 90000}}'""",
    ((PUT, f"/policies/%2F/{name}", TWO_KEYS | {"priority": 4}),),
    then={f"/policies/%2F/{name}-more": {
        "pattern": "^none", "definition": {"max-length": 5, "message-ttl": 60, "expires": 90000},
    }},
))  # fmt: skip
each_of("policies declare_blanket", lambda name: Case(
    f"""--vhost other --name {name} --apply-to queues --definition '{{"max-length": 90}}'""",
    then={f"/policies/other/{name}": {"pattern": ".*", "definition": {"max-length": 90}, "apply-to": "queues"}},
))  # fmt: skip
CONFLICTING: tuple[tuple[str, str, Any], ...] = (
    (PUT, "/vhosts/at-odds", {}), (PUT, "/policies/at-odds/first", POLICY), (PUT, "/policies/at-odds/second", POLICY),
)  # fmt: skip
each_of("policies list_conflicting", lambda _: Case(
    "", CONFLICTING, says=("| first | at-odds |", "| second | at-odds |")
))  # fmt: skip
each_of("policies list_conflicting_in", lambda _: Case(
    "--vhost at-odds", CONFLICTING, says=("| first | at-odds |", "| second | at-odds |")
))  # fmt: skip
each_of("vhost_limits declare, declare vhost_limit", lambda name: Case(
    f"--vhost {name} --name max-connections --value 12", ((PUT, f"/vhosts/{name}", {}),),
    then={f"/vhost-limits/{name}": [{"value": {"max-connections": 12}}]},
))  # fmt: skip
each_of("user_limits declare, declare user_limit", lambda name: Case(
    f"--username {name} --name max-connections --value 12", ((PUT, f"/users/{name}", USER),),
    then={f"/user-limits/{name}": [{"value": {"max-connections": 12}}]},
))  # fmt: skip
each_of("global_parameters set", lambda name: Case(
    f"""--name {name} --value '{{"a": {{"b": [1]}}}}'""",
    then={f"/global-parameters/{name}": {"value": {"a": {"b": [1]}}}},
))  # fmt: skip
each_of("vhosts enable_deletion_protection", lambda name: Case(
    f"--name {name}", ((PUT, f"/vhosts/{name}", {}),), then={f"/vhosts/{name}": {"protected_from_deletion": True}}
))  # fmt: skip
each_of("vhosts disable_deletion_protection", lambda name: Case(
    f"--name {name}", ((PUT, f"/vhosts/{name}", {}), (POST, f"/vhosts/{name}/deletion/protection", None)),
    then={f"/vhosts/{name}": {"protected_from_deletion": False}},
))  # fmt: skip
# There is nothing to switch.
ENABLED = {"/feature-flags": [{"name": "khepri_db", "state": "enabled"}]}
each_of("feature_flags enable", lambda _: Case("--name khepri_db", then=ENABLED))
each_of("feature_flags enable_all", lambda _: Case("", then=ENABLED))

# What is removed.
each_of("queues delete, delete queue", lambda name: Case(
    f"--name {name}", ((PUT, f"/queues/%2F/{name}", QUEUE),), then={f"/queues/%2F/{name}": None}
))  # fmt: skip
each_of("streams delete, delete stream", lambda name: Case(
    f"--name {name}", ((PUT, f"/queues/%2F/{name}", STREAM),), then={f"/queues/%2F/{name}": None}
))  # fmt: skip
each_of("exchanges delete, delete exchange", lambda name: Case(
    f"--name {name}", ((PUT, f"/exchanges/%2F/{name}", TOPIC),), then={f"/exchanges/%2F/{name}": None}
))  # fmt: skip
each_of("bindings delete, exchanges unbind, delete binding", lambda name: Case(
    f"--source shop --destination-type queue --destination consumed --routing-key {name}",
    ((POST, "/bindings/%2F/e/shop/q/consumed", {"routing_key": name}),),
    then={"/bindings/%2F/e/shop/q/consumed": []},
))  # fmt: skip
each_of("users delete, delete user", lambda name: Case(
    f"--name {name}", ((PUT, f"/users/{name}", USER),), then={f"/users/{name}": None}
))  # fmt: skip
each_of("vhosts delete, delete vhost", lambda name: Case(
    f"--name {name}", ((PUT, f"/vhosts/{name}", {}),), then={f"/vhosts/{name}": None}
))  # fmt: skip
each_of("permissions delete, delete permissions", lambda name: Case(
    f"--username {name}", ((PUT, f"/users/{name}", USER), (PUT, f"/permissions/%2F/{name}", ALL)),
    then={f"/permissions/%2F/{name}": None},
))  # fmt: skip
each_of("policies delete, delete policy", lambda name: Case(
    f"--name {name}", ((PUT, f"/policies/%2F/{name}", TWO_KEYS),), then={f"/policies/%2F/{name}": None}
))  # fmt: skip
each_of("operator_policies delete, delete operator_policy", lambda name: Case(
    f"--name {name}", ((PUT, f"/operator-policies/%2F/{name}", TWO_KEYS),),
    then={f"/operator-policies/%2F/{name}": None},
))  # fmt: skip
each_of("vhost_limits delete, delete vhost_limit", lambda name: Case(
    f"--vhost {name} --name max-queues",
    ((PUT, f"/vhosts/{name}", {}), (PUT, f"/vhost-limits/{name}/max-queues", {"value": 3})),
    then={f"/vhost-limits/{name}": []},
))  # fmt: skip
each_of("user_limits delete, delete user_limit", lambda name: Case(
    f"--username {name} --name max-channels",
    ((PUT, f"/users/{name}", USER), (PUT, f"/user-limits/{name}/max-channels", {"value": 3})),
    then={f"/user-limits/{name}": []},
))  # fmt: skip
each_of("parameters clear, delete parameter", lambda name: Case(
    f"--component shovel --name {name}", ((POST, "/definitions", {"parameters": [{**SHOVEL, "name": name}]}),),
    then={f"/parameters/shovel/%2F/{name}": None},
))  # fmt: skip
each_of("shovels delete, delete shovel", lambda name: Case(
    f"--name {name}", ((POST, "/definitions", {"parameters": [{**SHOVEL, "name": name}]}),),
    then={f"/parameters/shovel/%2F/{name}": None},
))  # fmt: skip
each_of("federation delete_upstream", lambda name: Case(
    f"--name {name}", ((POST, "/definitions", {"parameters": [{**UPSTREAM, "name": name}]}),),
    then={f"/parameters/federation-upstream/%2F/{name}": None},
))  # fmt: skip
each_of("global_parameters clear", lambda name: Case(
    f"--name {name}", ((PUT, f"/global-parameters/{name}", {"value": {}}),), then={f"/global-parameters/{name}": None}
))  # fmt: skip
each_of("queues purge, purge queue", lambda name: Case(
    f"--name {name}", ((PUT, f"/queues/%2F/{name}", QUEUE), publish(name)),
    then={f"/queues/%2F/{name}": {"messages": 0}},
))  # fmt: skip
each_of("queues delete_multiple", lambda name: Case(
    f"--name-pattern ^{name} --approve",
    ((PUT, f"/queues/%2F/{name}.1", QUEUE), (PUT, f"/queues/%2F/{name}.2", QUEUE)),
    then={f"/queues/%2F/{name}.1": None, f"/queues/%2F/{name}.2": None, "/queues/%2F/kept": {"name": "kept"}},
))  # fmt: skip
each_of("vhosts delete_multiple", lambda name: Case(
    f"--name-pattern ^{name} --approve", ((PUT, f"/vhosts/{name}.1", {}), (PUT, f"/vhosts/{name}.2", {})),
    then={f"/vhosts/{name}.1": None, f"/vhosts/{name}.2": None, "/vhosts/other": {"name": "other"}},
))  # fmt: skip

# What there is not: plugins, and RabbitMQ's commercial edition.
MOVED = "amqp-broker queue move"
refused(
    ["parameters set", "declare parameter"], "--component shovel --name x --value '{}'",
    "component shovel not found", MOVED,
)  # fmt: skip
URIS = "--name x --source-uri amqp://a --destination-uri amqp://b"
refused(["shovels declare_amqp091"], f"{URIS} --source-queue a --destination-queue b", "component shovel", MOVED)
refused(["shovels declare_amqp10"], f"{URIS} --source-address a --destination-address b", "component shovel", MOVED)
refused(
    [f"federation declare_upstream{rest}" for rest in ("", "_for_exchanges", "_for_queues")],
    "--name x --uri amqp://there", "component federation-upstream not found", "amqp-broker cluster", MOVED,
)  # fmt: skip
refused(["shovels list", "shovels list_all", "federation list_all_links"], "", "404 Not Found")
refused(
    ["tanzu wsr status", "tanzu sds disable_cluster_wide", "tanzu sds enable_cluster_wide"], "", "404 Not Found"
)  # fmt: skip
refused(
    [f"tanzu sds {verb}_on_node" for verb in ("status", "enable", "disable")], "--node $node", "404 Not Found"
)  # fmt: skip
# Its help knows this one, the program does not.
refused(["health_check deprecated_features_in_use"], "", "unknown command")



def nothing_in_the_table(commands: str, arguments: str, heading: str) -> None:
    """Its heading and no row."""
    for command in commands.split(", "):

        @checked_by(CHECKS, command)
        def it_has_no_row(admin: AdminProgram, words: str = f"{command} {arguments}") -> None:
            lines = admin(words).splitlines()
            assert len(lines) == 2, lines
            assert heading in lines[0]


nothing_in_the_table(
    "deprecated_features list, deprecated_features list_used, list deprecated_features, "
    "list deprecated_features_in_use", "", "| name | description | deprecation_phase |",
)  # fmt: skip
nothing_in_the_table("plugins list_all", "", "| node | name | state |")
nothing_in_the_table("plugins list_on_node", "--node $node", "| node | name | state |")


#: A shovel, and an upstream.
VERIFIED = {
    "src-protocol": "amqp091", "src-uri": "amqps://a", "src-queue": "a", "uri": "amqps://a",
    "dest-protocol": "amqp091", "dest-uri": "amqps://b", "dest-queue": "b",
}  # fmt: skip


def verification_of_peers(kind: str, parameter: dict[str, Any], rest: str) -> None:
    """It rewrites the parameters that there are, which nothing runs here: a PUT that is refused."""
    files = "".join(
        f" --node-local-{each}-path /pem"
        for each in ("ca-certificate-bundle", "client-certificate-file", "client-private-key-file")
    )
    for verb, arguments in (("disable", ""), ("enable", files)):
        command = f"{kind} {verb}_tls_peer_verification_for_all_{rest}"

        @checked_by(CHECKS, command)
        def it_is_refused(admin: AdminProgram, words: str = command + arguments) -> None:
            admin.api("/definitions", POST, {"parameters": [{**parameter, "name": "verified", "value": VERIFIED}]})
            try:
                admin.refused(words, f"component {parameter['component']} not found", MOVED)
            finally:
                admin.api(f"/parameters/{parameter['component']}/%2F/verified", "DELETE")

verification_of_peers("federation", UPSTREAM, "upstreams")
verification_of_peers("shovels", SHOVEL, "source_uris")
verification_of_peers("shovels", SHOVEL, "destination_uris")


for rebalance in ("queues rebalance", "rebalance queues"):

    @checked_by(CHECKS, rebalance)
    def it_leaves_leaders_where_they_can_only_be(admin: AdminProgram, command: str = rebalance) -> None:
        admin.api("/queues/%2F/balanced", PUT, {"durable": True, "arguments": {"x-queue-type": "quorum"}})
        admin(command)
        assert admin.api("/queues/%2F/balanced")["leader"] == admin.values["node"]


for connection in ("close connection", "connections close"):

    @checked_by(CHECKS, connection)
    def it_closes_a_connection(admin: AdminProgram, command: str = connection) -> None:
        with admin.closing_one_of(command.replace(" ", "-")):
            admin(f"{command} --name '$connection'")


for connections in ("close user_connections", "connections close_of_user"):

    @checked_by(CHECKS, connections)
    def it_closes_those_of_a_user(admin: AdminProgram, command: str = connections) -> None:
        with admin.closing_one_of(user := command.replace(" ", "-")):
            admin(f"{command} --username {user}")


@checked_by(CHECKS, "publish message")
def it_publishes(admin: AdminProgram) -> None:
    admin.api("/queues/%2F/fed", PUT, QUEUE)
    admin.api("/bindings/%2F/e/shop/q/fed", POST, {"routing_key": "fed.*"})
    properties = """--properties '{"delivery_mode": 2, "headers": {"n": 1}}'"""
    said = admin(f"publish message --exchange shop --routing-key fed.me --payload hello {properties}")
    assert_says(said, "published and routed")
    assert_says(admin("publish message --routing-key nobody"), "NOT routed")
    asked = {"count": 3, "ackmode": "ack_requeue_false", "encoding": "auto"}
    (message,) = admin.api("/queues/%2F/fed/get", POST, asked)
    assert has(message, {"payload": "hello", "properties": {"delivery_mode": 2, "headers": {"n": 1}}})


@checked_by(CHECKS, "get messages")
def it_gets(admin: AdminProgram) -> None:
    admin.api("/queues/%2F/read", PUT, QUEUE)
    for _ in range(2):
        admin.api(*publish("read")[1::-1], publish("read")[2])
    said = re.sub(" +", " ", admin("get messages --queue read --ack-mode ack_requeue_true"))
    assert_says(said, "| 6 | false | | read | 1 | | a body | string |")
    assert admin("get messages --queue read --count 5").count("a body") == 2
    assert admin("get messages --queue read").count("a body") == 0


@checked_by(CHECKS, "passwords salt_and_hash")
def its_hash_is_a_password(admin: AdminProgram) -> None:
    (hashed,) = re.findall(r"password hash +\W +(\S+)", admin("passwords salt_and_hash secret"))
    admin(f"users declare --name hashed --password-hash {hashed} --tags management")
    assert HttpApi(admin.api.url, "hashed", "secret")("/whoami")["name"] == "hashed"


for export in ("definitions export", "export definitions"):

    @checked_by(CHECKS, export)
    def it_exports(admin: AdminProgram, command: str = export) -> None:
        admin(f"{command} --file $folder/all.json")
        exported = json.loads((admin.folder / "all.json").read_text())
        assert has(exported, {"users": [{"name": "guest"}], "queues": [{"name": "elsewhere", "vhost": "other"}]})
        changed = json.loads(admin(f"{command} --stdout --transformations exclude_users"))
        assert not changed["users"]


@checked_by(CHECKS, "definitions export_from_vhost")
def it_exports_a_virtual_host(admin: AdminProgram) -> None:
    exported = json.loads(admin("--vhost other definitions export_from_vhost --stdout"))
    assert has(exported["queues"], [{"name": "elsewhere", "type": "classic"}])
    assert "kept" not in {each["name"] for each in exported["queues"]}


for command_of_import, vhost in (
    ("definitions import", "/"), ("import definitions", "/"), ("definitions import_into_vhost", "other"),
):  # fmt: skip

    @checked_by(CHECKS, command_of_import)
    def it_imports(admin: AdminProgram, command: str = command_of_import, vhost: str = vhost) -> None:
        name = command.replace(" ", "-")
        queue: dict[str, Any] = {"name": name, "durable": True, "auto_delete": False, "arguments": {}}
        if vhost == "/":
            queue["vhost"] = vhost
        (admin.folder / "in.json").write_text(json.dumps({"queues": [queue]}))
        admin(f"--vhost {vhost} {command} --file $folder/in.json")
        assert has(admin.api(f"/queues/{vhost.replace('/', '%2F')}/{name}"), {"durable": True})


LOCAL_FILE = "config_file"


@checked_by(CHECKS, f"{LOCAL_FILE} add_node")
def a_node_of_its_file_is_ours(admin: AdminProgram) -> None:
    (admin.folder / ".rabbitmqadmin.conf").unlink(missing_ok=True)
    port = urlsplit(admin.api.url).port
    login = f"--host 127.0.0.1 --port {port} --username guest --password guest"
    admin(f"{LOCAL_FILE} add_node --node ours {login} --vhost other --create-file-if-missing")
    assert_says(re.sub(" +", " ", admin("--node ours queues list")), "| elsewhere | other | classic |")


for local, words in {
    "show": ("", r"ours .* 127\.0\.0\.1 .* guest .* \*\*"),
    "show_path": ("", r"\.rabbitmqadmin\.conf"),
    "update_node": ("--node ours --vhost /", ""),
    "delete_node": ("--node ours", ""),
}.items():

    @checked_by(CHECKS, f"{LOCAL_FILE} {local}")
    def its_file(admin: AdminProgram, command: str = local, words: tuple[str, str] = words) -> None:
        CHECKS[f"{LOCAL_FILE} add_node"](admin)
        said = admin(f"{LOCAL_FILE} {command} {words[0]}")
        assert re.search(words[1], said), said
        file = (admin.folder / ".rabbitmqadmin.conf").read_text()
        assert ("[ours]" in file) is (command != "delete_node")
        assert ('host = "/"' in file) is (command == "update_node")


@pytest.mark.parametrize("command", CHECKS)
def test_command(admin: AdminProgram, command: str) -> None:
    CHECKS[command](admin)


def commands_below(admin: AdminProgram, words: str) -> list[str]:
    """What its help names that has nothing below it."""
    section = re.search(r"^Commands:\n(.*?)(?:\n\n|\Z)", admin(f"{words} --help"), re.S | re.M)
    if section is None:
        return [words]
    named = [f"{words} {each}".strip() for each in re.findall(r"^  (\w\S*)", section[1], re.M) if each != "help"]
    with ThreadPoolExecutor(4) as threads:
        return [leaf for leaves in threads.map(lambda each: commands_below(admin, each), named) for leaf in leaves]


def test_every_command_is_checked(admin: AdminProgram) -> None:
    named = commands_below(admin, "")
    assert len(named) == len(set(named))
    assert set(named) - set(CHECKS) == set(), "commands of this version that no test has"
    assert set(CHECKS) - set(named) == set(), "commands that this version has not"


def test_pages(admin: AdminProgram) -> None:
    for number in range(5):
        admin.api(f"/queues/other/page-{number}", PUT, QUEUE)
        admin.api(f"/users/page-{number}", PUT, USER)
    for kind in ("queues", "users", "exchanges", "connections", "channels"):
        whole, first, second = (
            admin(f"list {kind} {page}").splitlines()[2:]
            for page in ("--page 1 --page-size 500", "--page 1 --page-size 1", "--page 2 --page-size 1")
        )
        assert len(whole) > len(first), kind
        assert first != second, kind


def test_over_tls(admin: AdminProgram, tmp_path: Path) -> None:
    with tls_proxy(admin.api.url, tmp_path) as (port, authority):
        options = ["--use-tls", "--tls-ca-cert-file", str(authority), "-H", "localhost", "-P", str(port)]
        over_tls = AdminProgram([str(tool("rabbitmqadmin-4")), *options], admin.broker, tmp_path)
        assert_says(over_tls("--vhost other list queues"), "elsewhere")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("-u guest -p wrong list queues", "Not_Authorized"),
        ("exchanges delete --name amq.direct", "Access refused"),
        ("queues delete --name none", "404 Not Found"),
        ("queues declare --name kept --type quorum --durable true", "inequivalent arg 'x-queue-type'"),
        ("exchanges declare --name odd --type none", "invalid exchange type 'none'"),
        ("policies declare --name odd --pattern ( --apply-to all --definition '{}'", "Validation failed"),
        ("--vhost none queues declare --name q", "404 Not Found"),
        ("health_check port_listener --port 1", "No active listener"),
    ],
)
def test_refusal(admin: AdminProgram, words: str, says: str) -> None:
    admin.refused(words, says)

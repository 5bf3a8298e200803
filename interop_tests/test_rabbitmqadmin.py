"""rabbitmqadmin of RabbitMQ 3, a Python script of Debian's rabbitmq-server: every command that its help names."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import amqp_broker
from amqp_broker.client import Connection
from amqp_broker.protocol import methods as m
from interop_tests.admin_program import AdminProgram, Case, Checks, assert_says, checked_by
from interop_tests.http_api import has
from interop_tests.tls_proxy import tls_proxy
from interop_tests.tools import tool

pytestmark = pytest.mark.xdist_group("rabbitmqadmin")
TIMEOUT_S = 60
PUT = "PUT"
QUEUE = {"durable": True}
TOPIC = {"durable": True, "type": "topic"}
POLICY = {"pattern": "^cut", "definition": {"max-length": 5}, "apply-to": "queues"}
#: It comes with definitions only: what it would be a setting of is a plugin elsewhere.
PARAMETER = {"vhost": "/", "component": "shovel", "name": "kept", "value": {"src-queue": "kept"}}
ALL = {"configure": ".*", "write": ".*", "read": ".*"}


def program() -> str:
    """The script that is installed; else the one of `make interop`."""
    for found in filter(None, (shutil.which("rabbitmqadmin"), shutil.which("rabbitmqadmin", path="/usr/bin"))):
        said = subprocess.run([found, "--version"], capture_output=True, text=True, timeout=TIMEOUT_S).stdout
        if said.startswith("rabbitmqadmin 3."):  # that of RabbitMQ 4 may have the name as well
            return found
    return str(tool("rabbitmqadmin-3"))


@pytest.fixture(scope="module")
def admin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AdminProgram]:
    """With a queue of three messages, another with a consumer, and one thing of each kind that can be listed."""
    found = program()
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
        made = AdminProgram([found, "-H", "127.0.0.1", "-P", port], running, tmp_path_factory.mktemp("rabbitmqadmin"))
        api = made.api
        for path, body in (
            ("/vhosts/other", {}), ("/vhosts/quiet", {}), ("/permissions/other/guest", ALL),
            ("/queues/quiet/elsewhere", QUEUE),
            ("/exchanges/%2F/shop", TOPIC), ("/policies/%2F/cut", POLICY), ("/operator-policies/%2F/cap", POLICY),
            ("/vhost-limits/%2F/max-queues", {"value": 1000}),
        ):  # fmt: skip
            api(path, PUT, body)
        api("/bindings/%2F/e/shop/q/kept", "POST", {"routing_key": "a.#"})
        api("/definitions", "POST", {"parameters": [PARAMETER]})
        made.values["held"] = next(each["name"] for each in api("/channels") if each["user"] == "guest")[: -len(" (1)")]
        yield made


#: What comes of a line of `list`, with tabs between its columns; of kinds without columns of their own these are asked.
LISTED = {
    "list connections": ("", "$held\tguest\t1"),
    "list channels": ("", "$held (1)\tguest"),
    "list consumers": ("queue.name channel_details.user prefetch_count", "consumed\tguest\t7"),
    "list exchanges": ("", "shop\ttopic"),
    "list queues": ("", "kept\t3"),
    "list bindings": ("", "shop\tkept\ta.#"),
    "list users": ("name tags", "guest\tadministrator"),
    "list vhosts": ("", "other\t0"),
    "list permissions": ("user vhost configure write read", "guest\tother\t.*\t.*\t.*"),
    "list nodes": ("name type running", "$node\tdisc\tTrue"),
    "list parameters": ("component vhost name value", 'shovel\t/\tkept\t{"src-queue": "kept"}'),
    "list policies": ("name pattern apply-to definition", 'cut\t^cut\tqueues\t{"max-length": 5}'),
    "list operator_policies": ("name pattern apply-to definition", 'cap\t^cut\tqueues\t{"max-length": 5}'),
    "list vhost_limits": ("vhost value", '/\t{"max-queues": 1000}'),
    "show overview": ("object_totals.exchanges node", "\t$node"),
}
LISTS = {
    command: Case(f"-f tsv {command} {columns}", says=(line,)).check for command, (columns, line) in LISTED.items()
}

MADE = {
    "declare exchange": Case(
        """declare exchange name=made type=headers durable=false arguments='{"alternate-exchange": "shop"}'""",
        says=("exchange declared",),
        then={"/exchanges/%2F/made": {
            "type": "headers", "durable": False, "internal": False, "arguments": {"alternate-exchange": "shop"},
        }},
    ),
    "declare queue": Case(
        """declare queue name=made queue_type=quorum arguments='{"x-max-length": 5}' node=$node""",
        says=("queue declared",),
        then={"/queues/%2F/made": {
            "type": "quorum", "durable": True, "arguments": {"x-max-length": 5, "x-queue-type": "quorum"},
        }},
    ),
    "declare binding": Case(
        """declare binding source=shop destination=amq.fanout destination_type=exchange routing_key=k
           arguments='{"n": 1}'""",
        says=("binding declared",),
        then={"/bindings/%2F/e/shop/e/amq.fanout": [{"routing_key": "k", "arguments": {"n": 1}}]},
    ),
    "declare vhost": Case(
        "declare vhost name=made/vhost tracing=true", then={"/vhosts/made%2Fvhost": {"tracing": True}}
    ),
    "declare user": Case(
        "declare user name=made password=secret tags=management,policymaker",
        then={"/users/made": {"tags": ["management", "policymaker"]}},
    ),
    "declare permission": Case(
        "declare permission vhost=other user=allowed configure= write=^w read=.*",
        before=((PUT, "/users/allowed", {"password": "p", "tags": ""}),),
        then={"/permissions/other/allowed": {"configure": "", "write": "^w", "read": ".*"}},
    ),
    "declare policy": Case(
        """declare policy name=made pattern=^x definition='{"max-length": 9}' priority=3 apply-to=classic_queues""",
        then={"/policies/%2F/made": {
            "pattern": "^x", "definition": {"max-length": 9}, "priority": 3, "apply-to": "classic_queues",
        }},
    ),
    "declare operator_policy": Case(
        """declare operator_policy name=made pattern=^x definition='{"expires": 90000}' apply-to=queues""",
        then={"/operator-policies/%2F/made": {"pattern": "^x", "definition": {"expires": 90000}, "priority": 0}},
    ),
    "declare vhost_limit": Case(
        "declare vhost_limit vhost=other name=max-connections value=12",
        then={"/vhost-limits/other": [{"value": {"max-connections": 12}}]},
    ),
}  # fmt: skip

REMOVED = {
    "delete exchange": Case(
        "delete exchange name=gone", ((PUT, "/exchanges/%2F/gone", TOPIC),), then={"/exchanges/%2F/gone": None}
    ),
    "delete queue": Case(
        "delete queue name=gone", ((PUT, "/queues/%2F/gone", QUEUE),), then={"/queues/%2F/gone": None}
    ),
    "delete binding": Case(
        "delete binding source=shop destination_type=queue destination=consumed properties_key=gone.%23",
        (("POST", "/bindings/%2F/e/shop/q/consumed", {"routing_key": "gone.#"}),),
        then={"/bindings/%2F/e/shop/q/consumed": []},
    ),
    "delete vhost": Case("delete vhost name=gone", ((PUT, "/vhosts/gone", {}),), then={"/vhosts/gone": None}),
    "delete user": Case(
        "delete user name=gone", ((PUT, "/users/gone", {"password": "p", "tags": ""}),), then={"/users/gone": None}
    ),
    "delete permission": Case(
        "delete permission vhost=other user=barred",
        ((PUT, "/users/barred", {"password": "p", "tags": ""}), (PUT, "/permissions/other/barred", ALL)),
        then={"/permissions/other/barred": None},
    ),
    "delete parameter": Case(
        "delete parameter component=shovel name=gone",
        (("POST", "/definitions", {"parameters": [{**PARAMETER, "name": "gone"}]}),),
        then={"/parameters/shovel/%2F/gone": None},
    ),
    "delete policy": Case(
        "delete policy name=gone", ((PUT, "/policies/%2F/gone", POLICY),), then={"/policies/%2F/gone": None}
    ),
    "delete operator_policy": Case(
        "delete operator_policy name=gone",
        ((PUT, "/operator-policies/%2F/gone", POLICY),),
        then={"/operator-policies/%2F/gone": None},
    ),
    "delete vhost_limit": Case(
        "delete vhost_limit vhost=gone-limit name=max-queues",
        ((PUT, "/vhosts/gone-limit", {}), (PUT, "/vhost-limits/gone-limit/max-queues", {"value": 3})),
        then={"/vhost-limits/gone-limit": []},
    ),
    "purge queue": Case(
        "purge queue name=full",
        (
            (PUT, "/queues/%2F/full", QUEUE),
            ("POST", "/exchanges/%2F/amq.default/publish",
             {"routing_key": "full", "properties": {}, "payload": "x", "payload_encoding": "string"}),
        ),
        says=("queue purged",),
        then={"/queues/%2F/full": {"messages": 0}},
    ),
}  # fmt: skip

CHECKS: Checks = {**LISTS, **{command: case.check for command, case in (MADE | REMOVED).items()}}


@checked_by(CHECKS, "declare parameter")
def it_says_what_is_done_instead(admin: AdminProgram) -> None:
    for component in ("shovel", "federation-upstream"):
        words = f"""declare parameter component={component} name=made value='{{"src-queue": "kept"}}'"""
        admin.refused(words, f"component {component} not found", "amqp-broker queue move")


@checked_by(CHECKS, "close connection")
def it_closes_a_connection(admin: AdminProgram) -> None:
    with admin.closing_one_of("closed"):
        assert_says(admin("close connection name='$connection'"), "connection closed")


@checked_by(CHECKS, "publish")
def it_publishes(admin: AdminProgram) -> None:
    admin.api("/queues/%2F/fed", PUT, QUEUE)
    admin.api("/bindings/%2F/e/shop/q/fed", "POST", {"routing_key": "fed.*"})
    properties = """properties='{"delivery_mode": 2, "headers": {"n": 1}}'"""
    assert_says(admin(f"publish exchange=shop routing_key=fed.me payload=hello {properties}"), "Message published\n")
    assert_says(admin("publish routing_key=fed", stdin="from a pipe: ü"), "Message published\n")
    assert_says(admin("publish routing_key=nobody payload=x"), "published but NOT routed")
    asked = {"count": 3, "ackmode": "ack_requeue_false", "encoding": "auto"}
    first, second = admin.api("/queues/%2F/fed/get", "POST", asked)
    assert has(first, {"payload": "hello", "properties": {"delivery_mode": 2, "headers": {"n": 1}}})
    assert (second["payload"], second["routing_key"]) == ("from a pipe: ü", "fed")


@checked_by(CHECKS, "get")
def it_gets(admin: AdminProgram) -> None:
    admin.api("/queues/%2F/read", PUT, QUEUE)
    admin("publish routing_key=read payload=first")
    admin("publish routing_key=read payload=second")
    (message,) = json.loads(admin("-f raw_json get queue=read"))
    assert has(message, {"payload": "first", "message_count": 1, "redelivered": False, "routing_key": "read"})
    admin("-f raw_json get queue=read payload_file=$folder/payload ackmode=ack_requeue_false")
    assert (admin.folder / "payload").read_text() == "first"
    rest = json.loads(admin("-f raw_json get queue=read count=5 ackmode=reject_requeue_false encoding=base64"))
    assert [(each["payload"], each["payload_encoding"]) for each in rest] == [("c2Vjb25k", "base64")]
    assert admin("get queue=read") == "No items\n"


@checked_by(CHECKS, "export")
def it_exports(admin: AdminProgram) -> None:
    admin("export $folder/all.json")
    admin("-V quiet export $folder/quiet.json")
    exported = json.loads((admin.folder / "all.json").read_text())
    assert has(exported, {"users": [{"name": "guest"}], "queues": [{"name": "kept", "vhost": "/"}]})
    exported = json.loads((admin.folder / "quiet.json").read_text())
    assert [each["name"] for each in exported["queues"]] == ["elsewhere"]


@checked_by(CHECKS, "import")
def it_imports(admin: AdminProgram) -> None:
    for vhost, option in (("/", ""), ("other", "-V other ")):
        name = f"imported-{len(option)}"
        queue = {"name": name, "durable": True, "auto_delete": False, "arguments": {}}
        (admin.folder / "in.json").write_text(json.dumps({"queues": [queue | ({} if option else {"vhost": vhost})]}))
        assert_says(admin(f"{option}import $folder/in.json"), "Uploaded definitions")
        assert has(admin.api(f"/queues/{vhost.replace('/', '%2F')}"), [{"name": name, "durable": True}])


@pytest.mark.parametrize("command", CHECKS)
def test_command(admin: AdminProgram, command: str) -> None:
    CHECKS[command](admin)


def test_every_command_is_checked(admin: AdminProgram) -> None:
    usage = admin("help subcommands").partition("where subcommand is one of")[2]
    named = re.findall(r"^  ((?:list|show|declare|delete|close|purge) \w+|export|import|publish|get) ", usage, re.M)
    assert set(named) == set(CHECKS)


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("tsv", "name\tmessages\nconsumed\t0\nkept\t3\n"),
        ("table", "|   name   | messages |\n"),
        ("long", "    name: kept\nmessages: 3\n"),
        ("kvp", 'name="kept" messages="3"\n'),
        ("bash", "consumed kept\n"),
        ("pretty_json", '    "messages": 3,\n'),
        ("raw_json", '"name":"kept"'),
    ],
)
def test_format(admin: AdminProgram, output: str, expected: str) -> None:
    for queue in admin.api("/queues/%2F"):
        if queue["name"] not in ("kept", "consumed"):
            admin.api(f"/queues/%2F/{queue['name']}", "DELETE")
    assert_says(admin(f"-f {output} -V / list queues"), expected)


@pytest.mark.parametrize("kind", sorted(each.partition(" ")[2] for each in LISTED))
def test_all_of_its_columns_can_be_printed(admin: AdminProgram, kind: str) -> None:
    """However deep; in a format that can print null: its tables cannot, RabbitMQ's null neither."""
    verb = "show" if kind == "overview" else "list"
    assert '="' in admin(f"-f kvp -d 9 {verb} {kind}")


def test_virtual_hosts_and_order(admin: AdminProgram) -> None:
    assert admin("-q -f tsv -V quiet list queues name") == "elsewhere\n"
    ordered = "-q -f tsv -V / -S {} list exchanges name type"
    lines = admin(ordered.format("type")).splitlines()
    assert len(lines) > 5
    types = [line.partition("\t")[2] for line in lines]
    assert types == sorted(types)
    reverse = [line.partition("\t")[2] for line in admin(ordered.format("type -R")).splitlines()]
    assert reverse == sorted(types, reverse=True)


def test_a_configuration_file_and_a_base_uri(admin: AdminProgram) -> None:
    url = urlsplit(admin.api.url)
    file = admin.folder / "conf"
    file.write_text(f"[there]\nhostname = {url.hostname}\nport = {url.port}\nvhost = quiet\n")
    for options in (["-c", str(file), "-N", "there"], ["-U", f"http://guest:guest@{url.netloc}", "-V", "quiet"]):
        command = [program(), *options, "-q", "-f", "tsv", "list", "queues", "name"]
        assert subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S).stdout == "elsewhere\n"


def test_over_tls(admin: AdminProgram, tmp_path: Path) -> None:
    with tls_proxy(admin.api.url, tmp_path) as (port, authority):
        words = f"-H localhost -P {port} --ssl --ssl-ca-cert-file {authority} -q -f tsv -V quiet"
        assert admin(f"{words} list queues name") == "elsewhere\n"
        admin(f"{words} declare exchange name=over-tls type=topic")
    assert has(admin.api("/exchanges/quiet/over-tls"), {"type": "topic"})


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("-p wrong list queues", "Access refused: /api/queues"),
        ("delete exchange name=amq.direct", "Access refused: /api/exchanges/%2F/amq.direct"),
        ("delete queue name=none", "Not found: /api/queues/%2F/none"),
        ("purge queue name=none", "Not found: /api/queues/%2F/none"),
        ("-V none declare queue name=q", "Not found: /api/queues/none/q"),
        ("declare queue name=kept durable=false", "inequivalent arg 'durable' for queue 'kept' in vhost '/'"),
        ("declare exchange name=odd type=none", "invalid exchange type 'none'"),
        ("declare policy name=odd pattern=( definition={}", "Validation failed"),
    ],
)
def test_refusal(admin: AdminProgram, words: str, says: str) -> None:
    admin.refused(words, says)

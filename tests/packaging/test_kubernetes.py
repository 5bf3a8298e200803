"""The manifests for Kubernetes: what they say fits the command, its settings and its ports, and the nodes of the
StatefulSet, run here with their arguments, variables, probes and drain, are a cluster."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import click
import pytest
import yaml

from amqp_broker.cli.main import command
from amqp_broker.settings.config import SETTINGS, Config
from amqp_broker.settings.sources import OTHER_VARIABLES, PREFIX
from amqp_broker.version import __version__
from amqp_broker.web.process.probes import PROBES
from tests.packaging.building import ROOT
from tests.web.http_client import Http

Object = dict[str, Any]

FOLDER = ROOT / "packaging" / "kubernetes"
CONTAINER = ROOT / "packaging" / "container"
#: What is still to be done after a drain; the unit for systemd allows as much for all of it.
AFTER_THE_DRAIN_S = 60
SECRET = {"user": "admin", "password": "0123456789abcdef", "cluster-secret": "a" * 64}
NODES = "amqp-broker-nodes"


def manifests() -> list[Object]:
    names = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())["resources"]
    texts = [(FOLDER / name).read_text() for name in [*names, "service-monitor.yaml"]]
    return [each for text in texts for each in yaml.safe_load_all(text)]


def of_kind(kind: str, name: str = "amqp-broker") -> Object:
    (found,) = [each for each in manifests() if each["kind"] == kind and each["metadata"]["name"] == name]
    return found


SET = of_kind("StatefulSet")
POD = SET["spec"]["template"]["spec"]
(BROKER,) = POD["containers"]
PROBED = ("startupProbe", "readinessProbe", "livenessProbe")
LABELS = SET["spec"]["template"]["metadata"]["labels"]
PORTS = {each["name"]: each["containerPort"] for each in BROKER["ports"]}
PRE_STOP: list[str] = BROKER["lifecycle"]["preStop"]["exec"]["command"]


def parsed(arguments: list[str]) -> click.Context:
    """Arguments of amqp-broker as the command takes them. Raises UsageError for what it does not know."""
    context = command.make_context("amqp-broker", list(arguments))
    found: click.Command = command
    rest = arguments
    while isinstance(found, click.Group):
        _, inner, rest = found.resolve_command(context, rest)
        assert inner is not None
        found = inner
    return found.make_context(arguments[0], list(rest))


def test_every_file_is_among_the_resources() -> None:
    named = {*yaml.safe_load((FOLDER / "kustomization.yaml").read_text())["resources"], "kustomization.yaml"}
    assert {path.name for path in FOLDER.iterdir()} == {*named, "service-monitor.yaml"}


def test_the_image_is_of_this_version() -> None:
    (image,) = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())["images"]
    assert image == {"name": BROKER["image"], "newTag": __version__}


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl here")
def test_kubectl_puts_them_together() -> None:
    done = subprocess.run(["kubectl", "kustomize", FOLDER], capture_output=True, text=True, check=True)
    made = {(each["kind"], each["metadata"]["name"]): each for each in yaml.safe_load_all(done.stdout)}
    wanted = {(each["kind"], each["metadata"]["name"]) for each in manifests() if each["kind"] != "ServiceMonitor"}
    assert set(made) == wanted
    (container,) = made["StatefulSet", "amqp-broker"]["spec"]["template"]["spec"]["containers"]
    assert container["image"] == f"amqp-broker:{__version__}"


def test_its_arguments_are_those_of_the_command() -> None:
    assert parsed(BROKER["args"]).info_name == "serve"
    given = {name for name, value in parsed(BROKER["args"]).params.items() if value}
    assert given == {"node_name", "cluster_listen", "cluster", "cluster_secret_file"}
    for name, *arguments in (PRE_STOP, BROKER["livenessProbe"]["exec"]["command"]):
        assert name == "amqp-broker"
        parsed(arguments)
    with pytest.raises(click.UsageError):
        parsed([*BROKER["args"], "--no-such-flag=1"])


def test_its_variables_are_known() -> None:
    known = {f"{PREFIX}{each.key.upper()}" for each in SETTINGS} | {*OTHER_VARIABLES, "POD_NAME"}
    assert {each["name"] for each in BROKER["env"]} <= known
    assert POD["enableServiceLinks"] is False, "a Service of our name would bring variables with our prefix"


def test_its_ports_are_those_of_the_settings() -> None:
    config = Config()
    (cluster,) = re.findall(r"--cluster-listen=\S+:(\d+)", " ".join(BROKER["args"]))
    ports = {
        "amqp": config.listen[0].port,
        "management": config.management_listen[0].port,
        "metrics": config.prometheus_listen[0].port,
        "cluster": int(cluster),
    }
    assert ports == PORTS
    for service in [each for each in manifests() if each["kind"] == "Service"]:
        for port in service["spec"]["ports"]:
            assert PORTS[port["targetPort"]] == port["port"], service
        assert service["spec"]["selector"].items() <= LABELS.items()
    (policy,) = [each for each in manifests() if each["kind"] == "NetworkPolicy"]
    assert {port["port"] for rule in policy["spec"]["ingress"] for port in rule["ports"]} == set(PORTS)


def test_members_find_each_other_before_they_are_ready() -> None:
    headless = of_kind("Service", NODES)["spec"]
    assert (SET["spec"]["serviceName"], headless["clusterIP"]) == (NODES, "None")
    assert headless["publishNotReadyAddresses"] is True
    assert SET["spec"]["podManagementPolicy"] == "Parallel"
    (members,) = [each.partition("=")[2] for each in BROKER["args"] if each.startswith("--cluster=")]
    names = [f"{SET['metadata']['name']}-{number}" for number in range(SET["spec"]["replicas"])]
    assert members.split(",") == [f"{name}={name}.{NODES}:{PORTS['cluster']}" for name in names]


def test_there_is_time_for_the_drain() -> None:
    wait_s = float(parsed(PRE_STOP[1:]).params["wait_s"])
    config = Config()
    assert wait_s >= config.max_connections / config.drain_pace, "all its connections, at the pace they are closed"
    assert POD["terminationGracePeriodSeconds"] >= wait_s + AFTER_THE_DRAIN_S
    assert of_kind("PodDisruptionBudget")["spec"]["maxUnavailable"] == 1


def test_only_the_broker_itself_decides_about_its_life() -> None:
    for name in ("startupProbe", "readinessProbe"):
        assert BROKER[name]["httpGet"]["path"] in PROBES
        assert BROKER[name]["httpGet"]["port"] == "metrics", "where no login is asked for"
    assert "httpGet" not in BROKER["livenessProbe"], "these are answered by the management process"
    assert BROKER["livenessProbe"]["exec"]["command"][1:] == ["health", "--check", "alive"]


def test_nothing_is_allowed_that_is_not_needed() -> None:
    """What the restricted level of Kubernetes asks for, and a file system that nobody writes to."""
    pod, container = POD["securityContext"], BROKER["securityContext"]
    (user,) = re.findall(r"^USER (\d+):\d+$", (CONTAINER / "Containerfile").read_text(), re.MULTILINE)
    assert pod["runAsNonRoot"] is True
    assert pod["runAsUser"] == pod["runAsGroup"] == pod["fsGroup"] == int(user)
    assert pod["seccompProfile"]["type"] == "RuntimeDefault"
    assert container["allowPrivilegeEscalation"] is False
    assert container["capabilities"] == {"drop": ["ALL"]}
    assert container["readOnlyRootFilesystem"] is True
    assert POD["automountServiceAccountToken"] is False
    assert {"memory"} == set(BROKER["resources"]["limits"])


def test_what_is_written_is_on_the_volume() -> None:
    mounts = {each["name"]: each["mountPath"] for each in BROKER["volumeMounts"]}
    (claim,) = SET["spec"]["volumeClaimTemplates"]
    (volume,) = re.findall(r"^VOLUME (\S+)$", (CONTAINER / "Containerfile").read_text(), re.MULTILINE)
    assert mounts[claim["metadata"]["name"]] == volume
    assert set(mounts) == {claim["metadata"]["name"], *(each["name"] for each in POD["volumes"])}
    (secret,) = [each["secret"] for each in POD["volumes"] if "secret" in each]
    (file,) = [each.partition("=")[2] for each in BROKER["args"] if each.startswith("--cluster-secret-file=")]
    assert file == f"{mounts['secret']}/{secret['items'][0]['path']}"
    asked = {each["valueFrom"]["secretKeyRef"]["key"] for each in BROKER["env"] if "secretKeyRef" in str(each)}
    assert {*asked, secret["items"][0]["key"]} == set(SECRET)


def test_metrics_are_fetched_where_they_are() -> None:
    monitor = of_kind("ServiceMonitor")["spec"]
    labels = of_kind("Service", NODES)["metadata"]["labels"]
    assert monitor["selector"]["matchLabels"].items() <= labels.items()
    ports = {each["name"] for each in of_kind("Service", NODES)["spec"]["ports"]}
    assert {each["port"] for each in monitor["endpoints"]} <= ports


class Pod:
    """A pod of the StatefulSet, as far as a process can be one: addresses of this machine in place of names, free ports
    in place of the container's, a folder in place of its volume."""

    def __init__(self, number: int, folder: Path, cluster_ports: list[int]) -> None:
        self.name = f"{SET['metadata']['name']}-{number}"
        self._folder = folder / self.name
        self._folder.mkdir()
        self._cluster_ports = cluster_ports
        text = re.sub(r"0\.0\.0\.0:\d+", "127.0.0.1:0", (CONTAINER / "amqp-broker.toml").read_text())
        (self._folder / "amqp-broker.toml").write_text(text.replace("/var/lib/amqp-broker", str(self._folder)))
        (self._folder / "cluster.secret").write_text(SECRET["cluster-secret"])
        (self._folder / "cluster.secret").chmod(0o600)
        self.ports: dict[str, int] = {}
        self._number = number
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        arguments = [self._here(self._expanded(each)) for each in BROKER["args"]]
        # So that it ends with the tests, too, however they end.
        command = [sys.executable, "-P", "-m", "amqp_broker", *arguments, "--exit-with-parent"]
        self.process = subprocess.Popen(
            command, env=self._variables(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def wait_until_ready(self) -> None:
        assert self.process is not None
        assert self.process.stdout is not None
        ready, management = self.process.stdout.readline(), self.process.stdout.readline()
        self.ports = {"amqp": _port(ready), "management": _port(management)}
        http = Http(f"http://127.0.0.1:{self.ports['management']}/").as_user(SECRET["user"], SECRET["password"])
        (metrics,) = [
            each["port"] for each in http.get("/overview")["listeners"]
            if each["protocol"] == "http/prometheus" and each["node"] == self.name
        ]  # fmt: skip
        http.close()
        self.ports["metrics"] = metrics

    def run(self, *arguments: str) -> str:
        """A command in the container."""
        command = [sys.executable, "-P", "-m", "amqp_broker", *arguments]
        done = subprocess.run(command, env=self._variables(), capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, (arguments, done.stdout, done.stderr)
        return done.stdout

    def probe(self, name: str) -> int:
        """0: it is passed."""
        if "exec" in BROKER[name]:
            self.run(*BROKER[name]["exec"]["command"][1:])
            return 0
        asked = BROKER[name]["httpGet"]
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.ports[asked['port']]}{asked['path']}"):
                return 0
        except HTTPError as error:
            return error.code

    def stop(self) -> int:
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        with self.process:
            return self.process.wait(AFTER_THE_DRAIN_S)

    def _variables(self) -> dict[str, str]:
        variables: dict[str, str] = {"POD_NAME": self.name}
        for each in BROKER["env"]:
            if "value" in each:
                value = re.sub(r"\$\((\w+)\)", lambda found: variables[found[1]], each["value"])
                variables[each["name"]] = value.replace(f":{PORTS['amqp']}", f":{self.ports.get('amqp', 1)}")
            elif "secretKeyRef" in each["valueFrom"]:
                variables[each["name"]] = SECRET[each["valueFrom"]["secretKeyRef"]["key"]]
        variables["AMQP_BROKER_CONFIG"] = str(self._folder / "amqp-broker.toml")
        outside = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
        plain = {name: os.environ[name] for name in ("AMQP_BROKER_PLAIN",) if name in os.environ}
        return {**outside, **plain, **variables, "PYTHONPATH": str(ROOT)}

    def _expanded(self, text: str) -> str:
        return text.replace("$(POD_NAME)", self.name)

    def _here(self, text: str) -> str:
        text = text.replace(f"--cluster-listen=0.0.0.0:{PORTS['cluster']}", f"--cluster-listen=0.0.0.0:{self._own}")
        for number, port in enumerate(self._cluster_ports):
            text = text.replace(f"-{number}.{NODES}:{PORTS['cluster']}", f"-{number}.{NODES}:{port}")
        text = re.sub(rf"=[\w-]+\.{NODES}:", "=127.0.0.1:", text)
        return text.replace("/etc/amqp-broker/secret", str(self._folder))

    @property
    def _own(self) -> int:
        return self._cluster_ports[self._number]


def _port(line: str) -> int:
    found = re.search(r":(\d+)/?\n$", line)
    assert found is not None, line
    return int(found[1])


@pytest.fixture
def pods(tmp_path: Path) -> Iterator[list[Pod]]:
    with ExitStack() as held:
        reserved = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(SET["spec"]["replicas"])]
        ports = [each.getsockname()[1] for each in reserved]
    made = [Pod(number, tmp_path, ports) for number in range(len(ports))]
    try:
        yield made
    finally:
        for pod in made:
            if pod.process is not None and pod.process.poll() is None:
                pod.process.kill()
                pod.process.wait()


def test_the_nodes_of_the_set_are_a_cluster(pods: list[Pod]) -> None:
    for pod in pods:
        pod.start()
    for pod in pods:
        pod.wait_until_ready()
    assert [pod.probe(name) for pod in pods for name in PROBED] == [0] * len(PROBED) * len(pods)
    first, *others = pods
    # A rolling update of one of them.
    assert "can be stopped" in first.run(*PRE_STOP[1:])
    assert [first.probe(name) for name in PROBED] == [0, 503, 0]
    assert first.stop() == 0
    assert [pod.probe("readinessProbe") for pod in others] == [0, 0]
    first.start()
    first.wait_until_ready()
    assert [first.probe(name) for name in PROBED] == [0, 0, 0]
    status = json.loads(first.run("cluster", "status", "--json"))
    assert [member["node"] for member in status["members"]] == [pod.name for pod in pods]
    assert [pod.stop() for pod in pods] == [0, 0, 0]

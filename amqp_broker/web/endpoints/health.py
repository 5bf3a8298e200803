"""Health checks: 200 with `status` ok, or 503 with what is wrong."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime

from amqp_broker.protocol.json_values import JsonObject, JsonValue
from amqp_broker.web.access import Access
from amqp_broker.web.answer import Answer
from amqp_broker.web.asked import Asked
from amqp_broker.web.endpoint import Endpoint
from amqp_broker.web.endpoints.overview import listeners
from amqp_broker.web.errors import bad_request, object_not_found, unhealthy
from amqp_broker.web.listing import safe_pattern

_OK = {"status": "ok"}
_PROTOCOLS = {"amqp091": "amqp", "amqp": "amqp", "amqp10": "amqp", "amqps": "amqp/ssl", "https": "https"}
_DAY_S = 86400
_UNITS = {"days": _DAY_S, "weeks": 7 * _DAY_S, "months": 365 * _DAY_S // 12, "years": 365 * _DAY_S}
#: Of a listener: its own certificates, and those it trusts.
_FILES = ("certfile", "cacertfile")
_HIGHEST_PORT = 65535


def _health(asked: Asked) -> JsonObject:
    return asked.services.node.request("health")


def check_alarms(asked: Asked) -> Answer:
    return _no_alarms(_health(asked).get("alarms", ()), "There are alarms in effect in the cluster")


def check_local_alarms(asked: Asked) -> Answer:
    return _no_alarms(_health(asked).get("local_alarms", ()), "There are alarms in effect on the node")


def _no_alarms(alarms: JsonValue, reason: str) -> Answer:
    if alarms:
        raise unhealthy(reason, alarms=list(alarms))
    return Answer(value=_OK)


def check_port(asked: Asked) -> Answer:
    text = asked.name("port")
    if not re.fullmatch(r"[0-9]{1,5}", text) or not 1 <= int(text) <= _HIGHEST_PORT:
        raise bad_request(f"a port is a number from 1 to {_HIGHEST_PORT}, not '{text}'")
    port = int(text)
    ports = sorted({each["port"] for each in listeners(asked)})
    if port not in ports:
        raise unhealthy("No active listener", missing=port, ports=ports)
    return Answer(value={**_OK, "port": port})


def check_protocols(asked: Asked) -> Answer:
    wanted = [_PROTOCOLS.get(each, each) for each in asked.name("protocols").split(",") if each]
    known = sorted({each["protocol"] for each in listeners(asked)})
    missing = [each for each in wanted if each not in known]
    if missing:
        raise unhealthy("No active listener", missing=missing, protocols=known)
    return Answer(value={**_OK, "protocols": wanted})


def check_certificates(asked: Asked) -> Answer:
    """Of this node's listeners: what they show, and whom they trust."""
    unit, within = asked.name("unit").lower(), asked.name("within")
    if unit not in _UNITS or not re.fullmatch(r"[0-9]{1,5}", within):
        raise bad_request(f"write a number and one of {', '.join(_UNITS)}, not '{within}' and '{unit}'")
    latest = (time.time() + int(within) * _UNITS[unit]) * 1000
    rows = [_ending(each, latest) for each in _health(asked)["certificates"]]
    if expired := [row for row in rows if any(row[f"{name}_expires_on"] for name in _FILES)]:
        raise unhealthy("Certificates expiring", expired=expired)
    return Answer(value=_OK)


def _ending(listener: JsonObject, latest: float) -> JsonObject:
    """A listener, with when those of its certificates end that end before."""
    shown = {name: listener[name] for name in ("node", "protocol", "interface", "port", *_FILES)}
    ends = {name: sorted(at for at in listener[f"{name}_ends_at"] if at < latest) for name in _FILES}
    return {**shown, **{f"{name}_expires_on": [_written(at) for at in ends[name]] for name in _FILES}}


def _written(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def check_critical(asked: Asked) -> Answer:
    health = _health(asked)
    queues = health.get("quorum_critical") or ()
    if queues:
        reason = "There are quorum queues that would lose their quorum if the target node is shut down"
        raise unhealthy(reason, queues=[_critical(each) for each in queues])
    return Answer(value={**_OK, "reason": "single node cluster"} if health.get("is_alone") else _OK)


def _critical(queue: JsonValue) -> JsonValue:
    if not isinstance(queue, dict):
        return queue
    name, vhost = queue.get("name", ""), queue.get("virtual_host", queue.get("vhost", ""))
    readable = f"queue '{name}' in vhost '{vhost}'"
    return {"name": name, "readable_name": readable, "virtual_host": vhost, "type": "rabbit_quorum_queue"}


#: Columns of queues.
_OF_LEADERS = ("name", "vhost", "type", "members", "leader")


def check_leaders(asked: Asked) -> Answer:
    pattern = safe_pattern(asked.names.get("pattern", ".*"))
    rows = asked.services.objects.read("queues", None, asked.names.get("vhost"), _OF_LEADERS).rows
    without = [
        {"name": row["name"], "virtual_host": row["vhost"], "type": row.get("type")}
        for row in rows
        if row.get("members") and not row.get("leader") and pattern.search(row["name"])
    ]
    if without:
        raise unhealthy("detected quorum queues without an elected leader", queues=without)
    return Answer(value=_OK)


def check_in_service(asked: Asked) -> Answer:
    """Asked by those without a login, so it says no more than it has to."""
    health = _health(asked)
    if health.get("is_draining"):
        raise unhealthy("this node is being drained")
    if not health.get("ready", True):
        raise unhealthy("this node is not ready")
    return Answer(value=_OK)


def check_ready_for_clients(asked: Asked) -> Answer:
    check_in_service(asked)
    return Answer(value=_OK)


def check_connection_limit(asked: Asked) -> Answer:
    if not _health(asked).get("below_connection_limit", True):
        raise unhealthy("node connection limit is reached")
    return Answer(value=_OK)


def check_answers(asked: Asked) -> Answer:
    """What holds whenever the node answers."""
    _health(asked)
    return Answer(value=_OK)


def check_node(asked: Asked) -> Answer:
    if "node" in asked.names and asked.names["node"] not in asked.services.node.request("node")["members"]:
        raise object_not_found()
    return check_answers(asked)


_BASE = "/health/checks"
_LEADERS = f"{_BASE}/quorum-queues-without-elected-leaders"
ENDPOINTS = (
    Endpoint("GET", f"{_BASE}/alarms", check_alarms),
    Endpoint("GET", f"{_BASE}/local-alarms", check_local_alarms),
    Endpoint("GET", f"{_BASE}/certificate-expiration/{{within}}/{{unit}}", check_certificates),
    Endpoint("GET", f"{_BASE}/port-listener/{{port}}", check_port),
    Endpoint("GET", f"{_BASE}/protocol-listener/{{protocols}}", check_protocols),
    Endpoint("GET", f"{_BASE}/virtual-hosts", check_answers),
    Endpoint("GET", f"{_BASE}/metadata-store/initialized", check_answers),
    Endpoint("GET", f"{_BASE}/metadata-store/initialized/with-data", check_answers),
    Endpoint("GET", f"{_BASE}/node-is-quorum-critical", check_critical),
    Endpoint("GET", f"{_LEADERS}/all-vhosts", check_leaders),
    Endpoint("GET", f"{_LEADERS}/all-vhosts/pattern/{{pattern}}", check_leaders),
    Endpoint("GET", f"{_LEADERS}/vhost/{{vhost}}", check_leaders),
    Endpoint("GET", f"{_LEADERS}/vhost/{{vhost}}/pattern/{{pattern}}", check_leaders),
    Endpoint("GET", f"{_BASE}/is-in-service", check_in_service, Access.NOBODY_ASKED),
    Endpoint("GET", f"{_BASE}/ready-to-serve-clients", check_ready_for_clients, Access.NOBODY_ASKED),
    Endpoint("GET", f"{_BASE}/below-node-connection-limit", check_connection_limit, Access.NOBODY_ASKED),
    Endpoint("GET", f"{_BASE}/reached-target-cluster-size", check_answers, Access.NOBODY_ASKED),
    Endpoint("GET", "/healthchecks/node", check_node),
    Endpoint("GET", "/healthchecks/node/{node}", check_node),
)

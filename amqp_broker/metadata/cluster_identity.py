"""Which cluster this is, wherever it is said: to clients, over HTTP, in metrics and in definitions.

Its name is a global parameter, as RabbitMQ has it, and the setting cluster_name until somebody gives it another. Its
id stays, whatever the name: whoever populates the first data folder makes it, in a cluster whoever leads when all
members are there, and no definitions bring it elsewhere.
"""

from __future__ import annotations

import base64
import reprlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from amqp_broker.metadata.metadata import Metadata
    from amqp_broker.settings.config import Config

#: The global parameters.
CLUSTER_NAME: Final = "cluster_name"
CLUSTER_ID: Final = "internal_cluster_id"
#: Global parameters whose names begin so belong to their cluster: definitions leave them out.
INTERNAL: Final = "internal"
_ID_PREFIX: Final = "rabbitmq-cluster-id-"
_ID_BYTES: Final = 16
_MOST_NAME_BYTES: Final = 255


def new_cluster_id(random_bytes: Callable[[int], bytes]) -> str:
    """In RabbitMQ's form."""
    return _ID_PREFIX + base64.urlsafe_b64encode(random_bytes(_ID_BYTES)).rstrip(b"=").decode()


def cluster_name(metadata: Metadata, config: Config) -> str:
    """What all nodes of the cluster say."""
    name = _text(metadata, CLUSTER_NAME)
    return name if _is_name(name) else config.cluster_name  # a version before has checked nothing


def cluster_id(metadata: Metadata) -> str:
    """What never changes; "" until whoever leads has made it."""
    return _text(metadata, CLUSTER_ID)


def check_cluster_name(value: object) -> None:
    """Raises ValueError."""
    if not _is_name(value):
        raise ValueError(
            f"the name of a cluster is a text of 1 to {_MOST_NAME_BYTES} octets of UTF-8, not {reprlib.repr(value)}"
        )


def _is_name(value: object) -> bool:
    """Clients are told it before anything else, in a frame of 4,096 octets, and have to be able to read it."""
    try:
        return isinstance(value, str) and 0 < len(value.encode()) <= _MOST_NAME_BYTES
    except UnicodeEncodeError:
        return False


def _text(metadata: Metadata, name: str) -> str:
    parameter = metadata.global_parameter(name)
    return parameter.value if parameter is not None and isinstance(parameter.value, str) else ""

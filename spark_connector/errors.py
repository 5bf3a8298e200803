"""What can go wrong for a user of the connector: one class a kind, and every text says what to do."""

from __future__ import annotations


class ConnectorError(Exception):
    """Anything that keeps a query from going on."""


class OptionError(ConnectorError):
    """An option is unknown, missing, or has a value that it cannot have. The text names it."""


class BrokerUnavailable(ConnectorError):
    """No broker answered for as long as `brokerRetryTimeout` (at the start, `connectTimeout`) allows."""


class Refused(ConnectorError):
    """The broker has refused a request for good. `code` is its word for it, such as not-found."""

    def __init__(self, text: str, code: str) -> None:
        super().__init__(text)
        self.code = code


class DataLoss(ConnectorError):
    """What a checkpoint speaks of is no longer at the broker."""


class SchemaError(ConnectorError):
    """A column that the connector does not know, or that has another type."""


class PublishFailed(ConnectorError):
    """A message of a batch was not taken by the broker."""


class MalformedBlob(ConnectorError):
    """Octets that are no blob of messages."""

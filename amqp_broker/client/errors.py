"""What can go wrong for a client. `reply_code` and `reply_text` are the broker's, or 0 and our own."""

from __future__ import annotations


class ClientError(Exception):
    """Anything that kept the client from doing what it was asked."""

    def __init__(self, text: str, reply_code: int = 0, reply_text: str = "") -> None:
        super().__init__(f"{text}: {reply_code} {reply_text}" if reply_code else text)
        self.reply_code = reply_code
        self.reply_text = reply_text or text


class ConnectFailed(ClientError):
    """There is no connection: nobody listens, TLS failed, or login or virtual host were refused."""


class ConnectionClosed(ClientError):
    """The connection is closed: by the broker with a reply code, by a lost transport, or by us before."""


class ChannelClosed(ClientError):
    """The channel is closed: by the broker with a reply code, or by us before."""


class ClientTimeout(ClientError, TimeoutError):
    """Something took longer than its timeout."""


class ConsumerCancelled(ClientError):
    """The broker has ended a consumer, usually because its queue was deleted."""


class Unroutable(ClientError):
    """A mandatory message reached no queue."""

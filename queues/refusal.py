"""QueueRefusal: why a queue does not do what a client asks of it."""

from __future__ import annotations

#: AMQP's reply codes (AMQP 0-9-1 §1.1): somebody else uses it alone; it is not there.
ACCESS_REFUSED = 403
NOT_FOUND = 404


class QueueRefusal(Exception):
    """reply_code and text: what the client is told; its channel is closed."""

    def __init__(self, reply_code: int, text: str) -> None:
        super().__init__(text)
        self.reply_code = reply_code
        self.text = text

"""Refused: why a request of `amq.system` is not carried out, with a code for programs."""

from __future__ import annotations

from typing import Final

from amqp_broker.protocol.json_values import JsonValue

NOT_FOUND: Final = "not_found"
NOT_AUTHORISED: Final = "not_authorised"
BAD_REQUEST: Final = "bad_request"
PRECONDITION: Final = "precondition"
FAILED: Final = "failed"
CODES: Final = (NOT_FOUND, NOT_AUTHORISED, BAD_REQUEST, PRECONDITION, FAILED)


class Refused(ValueError):
    """code: one of CODES. more: what else the answer says. A ValueError without a code is a bad request."""

    def __init__(self, code: str, text: str, **more: JsonValue) -> None:
        super().__init__(text)
        self.code = code
        self.more = more


def not_found(kind: str, name: str, vhost: str | None = None) -> Refused:
    """There is no such thing."""
    where = "" if vhost is None else f" in vhost '{vhost}'"
    return Refused(NOT_FOUND, f"no {kind} '{name}'{where}", kind=kind)


def precondition(text: str) -> Refused:
    """It makes sense, and cannot be done as things are."""
    return Refused(PRECONDITION, text)

"""What the API refuses with: status and body, as RabbitMQ's clients know them.

Invariant: every refusal is an ApiError made here, so that one table says what there is.
"""

from __future__ import annotations

from collections.abc import Mapping

from amqp_broker.client.errors import ClientError
from amqp_broker.protocol.json_values import JsonObject, JsonValue
from amqp_broker.system_client import SystemRequestError

ACCESS_REFUSED = "Access refused."
VHOST_REFUSED = "User not authorised to access virtual host"
#: What AMQP's reply codes are in HTTP: only 404 and 403 have a word of their own.
_NOT_FOUND, _ACCESS_REFUSED, NOT_ALLOWED = 404, 403, 530


class ApiError(Exception):
    """An answer that is no success. Without `error` it has no body."""

    def __init__(
        self, status: int, error: str | None = None, reason: JsonValue = None, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(f"{status} {error}: {reason}")
        self.status = status
        self.body: JsonObject | None = None if error is None else {"error": error, "reason": reason}
        self.headers = dict(headers or {})


def bad_request(reason: JsonValue) -> ApiError:
    return ApiError(400, "bad_request", reason)


def object_not_found() -> ApiError:
    return ApiError(404, "Object Not Found", "Not Found")


def kind_not_found(kind: str) -> ApiError:
    """For what is done to an object, and where it is to be made: `kind` is queue, exchange or vhost."""
    return ApiError(404, "not_found", f"{kind}_not_found")


def precondition_failed(reason: str) -> ApiError:
    return ApiError(412, "precondition_failed", reason)


def not_authorised(reason: str) -> ApiError:
    """Who asks is known, and may not."""
    return ApiError(401, "not_authorised", reason, {"www-authenticate": 'Basic realm="RabbitMQ Management"'})


def no_credentials() -> ApiError:
    return ApiError(401, headers={"www-authenticate": 'Basic realm="RabbitMQ Management"'})


def login_failed() -> ApiError:
    headers = {"www-authenticate": 'Basic realm="RabbitMQ Management"'}
    return ApiError(401, "not_authorized", "Not_Authorized", headers)


def method_not_allowed(allowed: str) -> ApiError:
    return ApiError(405, headers={"allow": allowed})


def too_large(limit_bytes: int) -> ApiError:
    return ApiError(413, "payload_too_large", f"a body here has at most {limit_bytes} octets")


def node_gone(reason: str) -> ApiError:
    """The node is not there, or did not answer in time; whoever asks may ask again."""
    return ApiError(503, "service_unavailable", reason, {"retry-after": "1"})


def unhealthy(reason: str, **more: JsonValue) -> ApiError:
    """A health check that fails."""
    failure = ApiError(503, "failed", reason)
    failure.body = {"status": "failed", "reason": reason, **more}
    return failure


def of_refused_verb(error: SystemRequestError) -> ApiError:
    """What the node's refusal of a verb is over HTTP."""
    match error.code:
        case "not_found":
            return object_not_found()
        case "not_authorised":
            return not_authorised(str(error.answer.get("reason", error.text)))
        case _:
            return bad_request(error.text)


def of_amqp(error: ClientError) -> ApiError:
    """What the broker's refusal of an AMQP method is over HTTP: never 409, whatever the matter."""
    if error.reply_code == _NOT_FOUND:
        return object_not_found()
    if error.reply_code == _ACCESS_REFUSED:
        return not_authorised(ACCESS_REFUSED)
    if error.reply_code == NOT_ALLOWED:
        return not_authorised(VHOST_REFUSED)
    if error.reply_code:
        return bad_request(error.reply_text)
    return node_gone(str(error))

"""Bodies of requests as they arrive, bounded in size and time."""

from __future__ import annotations

import asyncio

from starlette.requests import ClientDisconnect, Request

from amqp_broker.web.errors import ApiError, bad_request, too_large


async def receive(request: Request, limit_bytes: int, timeout_s: float) -> bytes:
    """The whole body.

    Raises ApiError: 413 above the limit, at once where the length is announced; 408 where it takes longer than
    `timeout_s`; 400 where the client ends within it.
    """
    announced = request.headers.get("content-length", "")
    if announced.isdigit() and int(announced) > limit_bytes:
        raise too_large(limit_bytes)
    body = bytearray()
    try:
        async with asyncio.timeout(timeout_s):
            async for chunk in request.stream():
                body += chunk
                if len(body) > limit_bytes:
                    raise too_large(limit_bytes)
    except TimeoutError:
        raise ApiError(408, "request_timeout", f"the body was not there in {timeout_s:.0f} s") from None
    except ClientDisconnect:
        raise bad_request("the body ended early") from None
    return bytes(body)

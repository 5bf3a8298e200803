"""What a raw client receives: frames, methods and messages, and the error for everything that nobody
expected.

It must not know sockets, tests or brokers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.conformance import wire_codec as codec

ANSWER_TIMEOUT_S = 60.0


class Unexpected(AssertionError):
    """The broker did not answer as expected; the text says what came instead."""


class Frame(NamedTuple):
    kind: int
    channel: int
    payload: bytes


class Method:
    """A received method; its arguments are attributes."""

    def __init__(self, name: str, channel: int, arguments: dict[str, Any]) -> None:
        self.name = name
        self.channel = channel
        self.arguments = arguments

    def __getattr__(self, name: str) -> Any:
        try:
            return self.arguments[name]
        except KeyError:
            raise AttributeError(f"{self.name} has no argument {name}: {self.arguments}") from None

    def __repr__(self) -> str:
        arguments = ", ".join(f"{key}={value!r}" for key, value in self.arguments.items())
        return f"{self.name}({arguments})"


class Message:
    """A received content: the method that announced it, its property section, its body and the sizes of its
    body frames.
    """

    def __init__(self, method: Method, section: bytes, body: bytes, frame_sizes: list[int]) -> None:
        self.method = method
        self.section = section
        self.body = body
        self.frame_sizes = frame_sizes

    def __getattr__(self, name: str) -> Any:
        return getattr(self.method, name)

    @property
    def properties(self) -> dict[str, Any]:
        return codec.decode_properties(self.section)

    @property
    def headers(self) -> dict[str, Any]:
        headers = self.properties.get("headers", {})
        assert isinstance(headers, dict)
        return headers

    @property
    def typed_headers(self) -> dict[str, codec.Typed]:
        headers = codec.decode_properties(self.section, typed=True).get("headers", {})
        assert isinstance(headers, dict)
        return headers

    def __repr__(self) -> str:
        return f"{self.method!r} with {self.body[:40]!r}"


def check_close(close: Method, code: int, text: str | None, by: str | None) -> None:
    if close.reply_code != code or (text is not None and close.reply_text != text):
        raise Unexpected(f"a close with {code} {text!r} was expected; the broker sent {close!r}")
    if by is not None:
        blamed = codec.NAMES.get((close.class_id, close.method_id))
        if blamed != by:
            raise Unexpected(f"a close that blames {by} was expected; the broker blames {blamed}: {close!r}")

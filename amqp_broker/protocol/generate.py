"""Writes methods.py from the grammar: `python -m amqp_broker.protocol.generate`.

A test fails while the two differ. It runs when the protocol is developed, never in a broker or a client.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from amqp_broker.protocol.grammar import METHODS, Bits, MethodGrammar

TARGET: Final = Path(__file__).with_name("methods.py")
LINE_LENGTH: Final = 110
DEFAULTS: Final = {
    "ShortString": '""',
    "LongString": 'b""',
    "FieldTable": "EMPTY_TABLE",
    "Bit": "False",
}

HEAD: Final = '''"""One class per method of AMQP, with the arguments in the specification's order.

Written by generate.py from grammar.py: change the grammar and run `python -m amqp_broker.protocol.generate`.
Strings are str (UTF-8 with surrogateescape), long strings bytes, tables Table. What is not given is zero,
empty or false.
"""

from __future__ import annotations

from typing import Final

from amqp_broker.protocol import constants as c
from amqp_broker.protocol import method_codec
from amqp_broker.protocol.method_codec import (
    EMPTY_TABLE,
    Bit,
    FieldTable,
    Long,
    LongLong,
    LongString,
    Octet,
    Short,
    ShortString,
)
from amqp_broker.protocol.method_codec import Method as Method
'''

FOOT: Final = '''

METHODS: Final[dict[tuple[int, int], type[Method]]] = {
    method.ids: method for method in Method.__subclasses__()
}
"""Every method by (class id, method id)."""
METHODS_BY_NAME: Final[dict[str, type[Method]]] = {method.name: method for method in METHODS.values()}
_METHODS_BY_INDEX: Final = {method.index: method for method in METHODS.values()}


def decode_method(payload: bytes) -> Method:
    """The method in a method frame's payload; MethodDecodeError (with the cause) or UnknownMethod."""
    return method_codec.decode(_METHODS_BY_INDEX, payload)


def encode_method(method: Method) -> bytes:
    """The payload of a method frame; EncodeError names the argument that the wire cannot carry."""
    return method_codec.encode(method)
'''


def class_name(name: str) -> str:
    """queue.declare-ok -> QueueDeclareOk"""
    return "".join(word.capitalize() for word in name.replace(".", "-").split("-"))


def method_source(method: MethodGrammar) -> str:
    """The class of one method."""
    constant = method.name.upper().replace(".", "_").replace("-", "_")
    parts = ["Method", f'name="{method.name}"', f"index=c.{constant}"]
    if method.replies:
        names = ", ".join(f'"{reply}"' for reply in method.replies)
        parts.append(f"replies=({names},)" if len(method.replies) == 1 else f"replies=({names})")
    if method.has_content:
        parts.append("has_content=True")
    head = f"class {class_name(method.name)}({', '.join(parts)}):"
    if len(head) > LINE_LENGTH:
        inner = f"    {', '.join(parts)}\n"
        if len(inner) > LINE_LENGTH:
            inner = "".join(f"    {part},\n" for part in parts)
        head = f"class {class_name(method.name)}(\n{inner}):"
    body = []
    for argument in method.arguments:
        is_bits = isinstance(argument.subcon, Bits)
        domain = "Bit" if is_bits else argument.docs
        fields: tuple[str, ...] = argument.subcon.names if is_bits else (argument.name,)
        body += [f"    {field}: {domain} = {DEFAULTS.get(domain, '0')}" for field in fields]
    return "\n".join([head, *(body or ['    """No arguments."""'])])


def methods_source() -> str:
    """The text of methods.py."""
    return HEAD + "".join(f"\n\n{method_source(method)}\n" for method in METHODS) + FOOT


if __name__ == "__main__":
    TARGET.write_text(methods_source(), encoding="utf-8")
    sys.stdout.write(f"wrote {len(METHODS)} methods to {TARGET}\n")

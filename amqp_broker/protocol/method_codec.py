"""Method frames' payloads: octets to Method objects and back, by a plan made of each class's fields.

methods.py declares the classes; this module knows none of them. A field's annotation is its domain (AMQP
0-9-1 §4.2.5), and the plan joins what lies together: integers become one struct, consecutive bits one octet.
It stands in for the grammar, which is some thirty times slower, and is held equal to it by tests; and for
`dataclasses`, which would need 70 milliseconds of every importing process to make the 66 classes.

Invariants:
1. A Method is immutable, compares by class and values, and has no attributes but its fields.
2. Nothing but MalformedInput leaves a decoder, nothing but EncodeError an encoder.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, NoReturn, Self, TypeAlias, dataclass_transform

from amqp_broker.protocol.constants import MAX_SHORT_STRING
from amqp_broker.protocol.errors import EncodeError, FieldError, MethodDecodeError, UnknownMethod
from amqp_broker.protocol.fields import Table, decode_table, encode_table

Argument: TypeAlias = Any  # declared: of the class that its domain says
Octet: TypeAlias = int
Short: TypeAlias = int
Long: TypeAlias = int
LongLong: TypeAlias = int
Bit: TypeAlias = bool
ShortString: TypeAlias = str
LongString: TypeAlias = bytes
FieldTable: TypeAlias = Table

EMPTY_TABLE: Final = Table()
_INTEGERS: Final = {"Octet": "B", "Short": "H", "Long": "I", "LongLong": "Q"}
_U32: Final = struct.Struct(">I")

# The steps of a plan, each with a detail: the struct of consecutive integers, or the masks of consecutive
# bits.
_FIXED, _BITS, _SHORT_STRING, _LONG_STRING, _TABLE = range(5)
_STRINGS: Final = {"ShortString": _SHORT_STRING, "LongString": _LONG_STRING, "FieldTable": _TABLE}
Plan: TypeAlias = tuple[tuple[int, Argument], ...]


def make_plan(domains: Sequence[str]) -> Plan:
    """The steps that decode and encode fields of these domains, in order."""
    steps: list[tuple[int, Argument]] = []
    position = 0
    while position < len(domains):
        start = position
        if domains[start] in _STRINGS:
            position += 1
            steps.append((_STRINGS[domains[start]], None))
        elif domains[start] == "Bit":
            while position < len(domains) and domains[position] == "Bit":
                position += 1
            steps.append((_BITS, tuple(1 << bit for bit in range(position - start))))
        else:
            while position < len(domains) and domains[position] in _INTEGERS:
                position += 1
            steps.append(
                (
                    _FIXED,
                    struct.Struct(">" + "".join(_INTEGERS[domain] for domain in domains[start:position])),
                )
            )
    return tuple(steps)


@dataclass_transform(frozen_default=True)
class MethodType(type):
    """Makes a method's class of its annotated fields, as a frozen dataclass with slots would be made."""

    def __new__(
        mcs,
        class_name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Argument],
        name: str = "",
        index: int = 0,
        replies: tuple[str, ...] = (),
        has_content: bool = False,
    ) -> MethodType:
        if not bases:
            return super().__new__(mcs, class_name, bases, namespace)
        domains: dict[str, str] = namespace.get("__annotations__", {})
        fields = tuple(domains)
        defaults = tuple(namespace.pop(field) for field in fields)
        made = super().__new__(
            mcs, class_name, bases, {**namespace, "__slots__": fields, "__match_args__": fields}
        )
        attributes = {
            "name": name,
            "index": index,
            "ids": (index >> 16, index & 0xFFFF),
            "replies": replies,
            "has_content": has_content,
            "fields": fields,
            "defaults": defaults,
            "plan": make_plan(list(domains.values())),
            "setters": tuple(getattr(made, field).__set__ for field in fields),
        }
        for attribute, value in attributes.items():
            setattr(made, attribute, value)
        return made


class Method(metaclass=MethodType):
    """A method with its arguments: the class tells of the method, an instance of one use of it.

    `name` is the specification's ("queue.declare"), `ids` are (class id, method id), `index` is both in one
    integer, `replies` names the methods that may answer it, `has_content` says that a content header follows.
    """

    __slots__ = ()
    name: ClassVar[str]
    index: ClassVar[int]
    ids: ClassVar[tuple[int, int]]
    replies: ClassVar[tuple[str, ...]]
    has_content: ClassVar[bool]
    fields: ClassVar[tuple[str, ...]]
    defaults: ClassVar[tuple[Argument, ...]]
    plan: ClassVar[Plan]
    setters: ClassVar[tuple[Argument, ...]]

    def __init__(self, *values: Argument, **named: Argument) -> None:
        fields = self.fields
        if len(values) > len(fields):
            raise TypeError(
                f"{type(self).__name__} has {len(fields)} fields but {len(values)} values were given"
            )
        given = len(values)
        for setter, value in zip(self.setters, values, strict=False):
            setter(self, value)
        for position in range(given, len(fields)):
            self.setters[position](self, named.pop(fields[position], self.defaults[position]))
        if named:
            problem = (
                "was given twice"
                if next(iter(named)) in fields
                else f"is none of its fields {', '.join(fields)}"
            )
            raise TypeError(f"{type(self).__name__}: {next(iter(named))!r} {problem}")

    def values(self) -> tuple[Argument, ...]:
        """The field values in the order of the specification."""
        return tuple([getattr(self, field) for field in self.fields])

    def replace(self, **changes: Argument) -> Self:
        """The same method with some fields changed."""
        return type(self)(**{**dict(zip(self.fields, self.values(), strict=True)), **changes})

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a method cannot be changed ({self.name}, field {name!r}): use replace()")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a method cannot be changed ({self.name}, field {name!r}): use replace()")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and isinstance(other, Method) and self.values() == other.values()

    def __hash__(self) -> int:
        return hash((self.index, self.values()))

    def __repr__(self) -> str:
        pairs = zip(self.fields, self.values(), strict=True)
        return f"{type(self).__name__}({', '.join(f'{field}={value!r}' for field, value in pairs)})"

    def __reduce__(self) -> tuple[type[Self], tuple[Argument, ...]]:
        return type(self), self.values()


def decode(methods: Mapping[int, type[Method]], payload: bytes) -> Method:
    """The method in a method frame's payload, among `methods` by index; MethodDecodeError, UnknownMethod."""
    if len(payload) < 4:
        raise MethodDecodeError(
            0, 0, f"method frame with a payload of {len(payload)} octets: class and method id need 4"
        )
    index: int = _U32.unpack_from(payload)[0]
    declared = methods.get(index)
    if declared is None:
        class_id = index >> 16
        known = next(
            (method.name.partition(".")[0] for key, method in methods.items() if key >> 16 == class_id), None
        )
        raise UnknownMethod(class_id, index & 0xFFFF, known)
    values: list[Argument] = []
    try:
        end = _decode_arguments(declared.plan, payload, values)
    except (IndexError, struct.error):
        raise _malformed(
            declared, f"the payload of {len(payload)} octets ends inside {_field(declared, values)}"
        ) from None
    except FieldError as error:
        raise _malformed(declared, f"{_field(declared, values)}: {error}") from error
    if end != len(payload):
        raise _malformed(declared, f"{len(payload) - end} octets follow the last argument")
    method = declared.__new__(declared)
    for setter, value in zip(declared.setters, values, strict=True):
        setter(method, value)
    return method


def _decode_arguments(plan: Plan, payload: bytes, values: list[Argument]) -> int:
    """Appends the arguments that follow the four octets of the ids to `values`; returns where they end."""
    position = 4
    size = len(payload)
    for step, detail in plan:
        if step == _SHORT_STRING:
            start = position + 1
            position = start + payload[position]
            if position > size:
                raise IndexError
            values.append(payload[start:position].decode("utf-8", "surrogateescape"))
        elif step == _FIXED:
            values += detail.unpack_from(payload, position)
            position += detail.size
        elif step == _BITS:
            octet = payload[position]
            for mask in detail:
                values.append(octet & mask != 0)
            position += 1
        else:
            start = position + 4
            position = start + _U32.unpack_from(payload, position)[0]
            if position > size:
                raise IndexError
            octets = payload[start:position]
            if step == _LONG_STRING:
                values.append(octets)
            else:
                values.append(decode_table(octets) if octets else EMPTY_TABLE)
    return position


def _field(declared: type[Method], values: list[Argument]) -> str:
    """The name of the argument that comes after these values."""
    return f"argument '{declared.fields[len(values)]}'"


def _malformed(declared: type[Method], cause: str) -> MethodDecodeError:
    class_id, method_id = declared.ids
    return MethodDecodeError(class_id, method_id, f"malformed arguments of {declared.name}: {cause}")


def encode(method: Method) -> bytes:
    """The payload of a method frame; EncodeError names the argument that the wire cannot carry."""
    out = bytearray(_U32.pack(method.index))
    values = method.values()
    position = 0
    for step, detail in method.plan:
        value = values[position]
        try:
            if step == _SHORT_STRING:
                octets = value.encode("utf-8", "surrogateescape")
                if len(octets) > MAX_SHORT_STRING:
                    raise ValueError(
                        f"a short string carries at most {MAX_SHORT_STRING} octets, not {len(octets)}"
                    )
                out.append(len(octets))
                out += octets
                position += 1
            elif step == _FIXED:
                count = len(detail.format) - 1
                out += detail.pack(*values[position : position + count])
                position += count
            elif step == _BITS:
                count = len(detail)
                out.append(
                    sum(
                        mask
                        for mask, bit in zip(detail, values[position : position + count], strict=True)
                        if bit
                    )
                )
                position += count
            else:
                octets = encode_table(value) if step == _TABLE else bytes(value)
                out += _U32.pack(len(octets))
                out += octets
                position += 1
        except (ValueError, TypeError, AttributeError, struct.error) as error:
            field = method.fields[position]
            raise EncodeError(f"{method.name}: argument '{field}' cannot carry {value!r}: {error}") from None
    return bytes(out)

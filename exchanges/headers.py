"""Headers exchange (AMQP 0-9-1 §3.1.3.4): bindings are conditions on a message's headers.

`x-match` of the binding says how its fields combine: `all` (also when absent), `any`, and `all-with-x`,
`any-with-x`, which look at fields whose names start with x- as well (`x-match` itself is never one). A field
without a value asks for the header's presence only; other values are compared as bindings.comparable says.

Instead of trying every binding, a message looks up each of its headers in an index from (header, value) to
rules. The routing key means nothing.

Invariants:
1. An `any` rule stands in the index under each of its fields: being found is matching.
2. An `all` rule stands under one field, the rarest when it was bound; the rest is verified when it is found.
   One without fields stands in `_always`.
3. No empty table stays in the index.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from exchanges.bindings import Binding, Destination, Identity, comparable
from exchanges.exchange import Exchange, MessageFacts

_MODES = ("all", "any", "all-with-x", "any-with-x")
Fields = tuple[tuple[str, Hashable], ...]  # pairs of a header's name and its comparable value

# Stands for a field without a value; `comparable` returns no such tuple.
_PRESENT = ("present",)


class Rule:
    """One binding, parsed: `indexed` are the fields it stands under, `rest` those to verify when found."""

    __slots__ = ("destination", "indexed", "rest")

    def __init__(self, destination: Destination, indexed: Fields, rest: Fields) -> None:
        self.destination = destination
        self.indexed = indexed
        self.rest = rest


class HeadersExchange(Exchange):
    """`examined` counts the rules that all matches together have looked at."""

    type_name = "headers"

    def __init__(self, arguments: Mapping[str, object]) -> None:
        super().__init__(arguments)
        self.routes_by_headers = True
        self.reads_every_key = False
        self._rules: dict[tuple[Destination, Identity], Rule] = {}
        self._index: dict[str, dict[Hashable, dict[Rule, None]]] = {}
        self._always: dict[Rule, None] = {}
        self.examined = 0

    @property
    def index_size(self) -> int:
        """How many (header, value) pairs the index holds."""
        return sum(map(len, self._index.values()))

    def check_binding(self, binding_key: str, arguments: Mapping[str, object]) -> None:
        mode = arguments.get("x-match", "all")
        if not isinstance(mode, str):
            raise ValueError(
                f"Invalid x-match field type {type(mode).__name__} (value {mode!r}); expected longstr"
            )
        if mode not in _MODES:
            raise ValueError(
                f"Invalid x-match field value {mode!r}; expected all, any, all-with-x, or any-with-x"
            )
        for key in arguments:
            comparable(arguments[key])

    def matches(self, routing_key: str, facts: MessageFacts | None) -> list[Destination]:
        found: dict[Destination, None] = {}
        for rule in self._always:
            found[rule.destination] = None
        if facts is not None and self._index:
            headers = facts.headers
            if len(headers) <= len(self._index):
                for key in headers:
                    if key in self._index:
                        self._find(self._index[key], headers[key], headers, found)
            else:
                for key in self._index:
                    if key in headers:
                        self._find(self._index[key], headers[key], headers, found)
        return list(found)

    def _find(
        self,
        by_value: dict[Hashable, dict[Rule, None]],
        value: object,
        headers: Mapping[str, object],
        found: dict[Destination, None],
    ) -> None:
        """Add to `found` where the rules lead that stand under one header of the message and hold."""
        rules = by_value.get(value if type(value) is str else comparable(value))
        if rules is not None:
            self._verify(rules, headers, found)
        rules = by_value.get(_PRESENT)
        if rules is not None:
            self._verify(rules, headers, found)

    def _verify(
        self, rules: dict[Rule, None], headers: Mapping[str, object], found: dict[Destination, None]
    ) -> None:
        """Add to `found` where those of the rules lead whose other fields hold too."""
        self.examined += len(rules)
        for rule in rules:
            for key, wanted in rule.rest:
                if key not in headers:
                    break
                if wanted is not _PRESENT and comparable(headers[key]) != wanted:
                    break
            else:
                found[rule.destination] = None

    def _link(self, binding: Binding, key: Identity) -> None:
        mode = binding.arguments.get("x-match", "all")
        with_x = mode in ("all-with-x", "any-with-x")
        fields = tuple(
            (name, _PRESENT if binding.arguments[name] is None else comparable(binding.arguments[name]))
            for name in sorted(binding.arguments)
            if name != "x-match" and (with_x or not name.startswith("x-"))
        )
        if mode in ("any", "any-with-x") or not fields:
            rule = Rule(binding.destination, fields, ())
        else:
            rarest = min(fields, key=self._commonness)
            rule = Rule(
                binding.destination, (rarest,), tuple(field for field in fields if field is not rarest)
            )
        self._rules[binding.destination, key] = rule
        if not fields and mode in ("all", "all-with-x"):
            self._always[rule] = None
        for name, wanted in rule.indexed:
            self._index.setdefault(name, {}).setdefault(wanted, {})[rule] = None

    def _commonness(self, field: tuple[str, Hashable]) -> tuple[bool, int]:
        """Least for the field to index: a value before mere presence, then the one with fewer rules."""
        name, wanted = field
        return wanted is _PRESENT, len(self._index.get(name, {}).get(wanted, ()))

    def _unlink(self, binding: Binding, key: Identity) -> None:
        rule = self._rules.pop((binding.destination, key))
        self._always.pop(rule, None)
        for name, wanted in rule.indexed:
            by_value = self._index[name]
            rules = by_value[wanted]
            del rules[rule]
            if not rules:
                del by_value[wanted]
                if not by_value:
                    del self._index[name]

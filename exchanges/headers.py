"""Headers exchange (AMQP 0-9-1 §3.1.3.4): bindings are conditions on a message's headers.

`x-match` of the binding says how its fields combine: `all` (also when absent), `any`, and `all-with-x`,
`any-with-x`, which look at fields whose names start with x- as well (`x-match` itself is never one). A field
without a value asks for the header's presence only; other values are compared as bindings.comparable says.

Instead of trying every binding, a message looks up each of its headers: `any` rules in an index from (header, value)
to rules, `all` rules in a tree whose every step is a header with a value. Where bindings ask for the same names, what a
match costs goes by these names and by what matches, not by the number of bindings. Where each asks for some of many
names with few values, as of twenty booleans, it is a share of their number, and never more than a few times it. The
routing key means nothing.

Invariants:
1. Bindings with the same fields and the same way to combine them share a rule.
2. An `any` rule stands in the index under each of its fields: being found is matching.
3. An `all` rule stands at one place of the tree. The fields on the way there (`path`) and those to be verified there
   (`rest`) are all its fields, each once.
4. At most `_MOST_WAITING` rules wait at a place to be verified, none at the root, and any number `_MOST_STEPS` from
   there. One more, and each goes a step further, one after the other: by a name by which others go there already, if it
   has one, else by a value sooner than by a mere presence; and of these by the field by which the fewest go.
5. No empty table, and no place without rules but the root, stays in index and tree.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from exchanges.bindings import Binding, Destination, Identity, comparable
from exchanges.exchange import Exchange, MessageFacts

_MODES = ("all", "any", "all-with-x", "any-with-x")
Field = tuple[str, Hashable]  # a header's name and its comparable value
Fields = tuple[Field, ...]

# Stands for a field without a value; `comparable` returns no such tuple.
_PRESENT = ("present",)
#: So few rules are verified one by one sooner than a place is made for each.
_MOST_WAITING = 8
#: To bind costs by the number of fields, times this: it is enough for fields that people write.
_MOST_STEPS = 32
# What counts more than any number of rules, when a rule looks for its next step.
_MERE_PRESENCE = 1 << 60
_NEW_NAME = 1 << 61


class Rule:
    """What some bindings ask for. destinations: where they lead, each with the number of bindings. path: the fields
    under which the rule is found; of an `any` rule, all. rest: those to verify when it is found."""

    __slots__ = ("destinations", "path", "rest")

    def __init__(self, path: Fields, rest: Fields) -> None:
        self.destinations: dict[Destination, int] = {}
        self.path = path
        self.rest = rest


class Place:
    """Of `all` rules with some fields in common. complete: the one that has no others. waiting: those to be verified.
    None where none does. steps: the places behind, by name and value of a header; then none waits. count: the rules
    here and behind."""

    __slots__ = ("complete", "count", "steps", "waiting")

    def __init__(self) -> None:
        self.complete: Rule | None = None
        self.waiting: list[Rule] | None = None
        self.steps: dict[str, dict[Hashable, Place]] | None = None
        self.count = 0


class HeadersExchange(Exchange):
    """`examined` counts the places and rules that all matches together have looked at."""

    type_name = "headers"

    def __init__(self, arguments: Mapping[str, object]) -> None:
        super().__init__(arguments)
        self.routes_by_headers = True
        self.reads_every_key = False
        self._rules: dict[tuple[bool, Fields], Rule] = {}
        self._any: dict[str, dict[Hashable, dict[Rule, None]]] = {}
        self._all = Place()
        self._all.steps = {}
        self.examined = 0

    @property
    def index_size(self) -> int:
        """How many pairs of (header, value) lead to a rule or to a place of the tree."""
        size = sum(map(len, self._any.values()))
        places = [self._all]
        for place in places:
            for by_value in (place.steps or {}).values():
                places.extend(by_value.values())
        return size + len(places) - 1

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
        if self._all.complete is not None:
            self._reach(self._all.complete, found)
        if facts is not None and (self._any or self._all.steps):
            headers = facts.headers
            if headers:
                if self._any:
                    self._match_any(headers, found)
                if self._all.steps:
                    self._match_all(headers, found)
        return list(found)

    def _match_any(self, headers: Mapping[str, object], found: dict[Destination, None]) -> None:
        """Add to `found` where the `any` rules lead that hold."""
        index = self._any
        for name in headers if len(headers) <= len(index) else index:
            if name in index and name in headers:
                by_value = index[name]
                value = headers[name]
                for wanted in (value if type(value) is str else comparable(value), _PRESENT):
                    rules = by_value.get(wanted)
                    if rules is not None:
                        self.examined += len(rules)
                        for rule in rules:
                            self._reach(rule, found)

    def _match_all(self, headers: Mapping[str, object], found: dict[Destination, None]) -> None:
        """Add to `found` where the `all` rules lead that hold: from place to place, by what the message has."""
        places = [self._all]
        for place in places:
            if place.waiting is not None:
                self.examined += len(place.waiting)
                for rule in place.waiting:
                    if _holds(rule.rest, headers):
                        self._reach(rule, found)
            steps = place.steps
            if steps is None:
                continue
            for name in headers if len(headers) <= len(steps) else steps:
                if name in steps and name in headers:
                    by_value = steps[name]
                    value = headers[name]
                    for wanted in (value if type(value) is str else comparable(value), _PRESENT):
                        following = by_value.get(wanted)
                        if following is not None:
                            self.examined += 1
                            if following.complete is not None:
                                self._reach(following.complete, found)
                            places.append(following)

    def _reach(self, rule: Rule, found: dict[Destination, None]) -> None:
        for destination in rule.destinations:
            found[destination] = None

    def _link(self, binding: Binding, key: Identity) -> None:
        is_any, fields = _read(binding.arguments)
        rule = self._rules.get((is_any, fields))
        if rule is None:
            rule = self._rules[is_any, fields] = Rule(fields if is_any else (), () if is_any else fields)
            if is_any:
                for name, wanted in fields:
                    self._any.setdefault(name, {}).setdefault(wanted, {})[rule] = None
            else:
                _enter(self._all, rule)
        rule.destinations[binding.destination] = rule.destinations.get(binding.destination, 0) + 1

    def _unlink(self, binding: Binding, key: Identity) -> None:
        is_any, fields = _read(binding.arguments)
        rule = self._rules[is_any, fields]
        if rule.destinations[binding.destination] > 1:
            rule.destinations[binding.destination] -= 1
            return
        del rule.destinations[binding.destination]
        if rule.destinations:
            return
        del self._rules[is_any, fields]
        if not is_any:
            _leave(self._all, rule)
            return
        for name, wanted in fields:
            by_value = self._any[name]
            rules = by_value[wanted]
            del rules[rule]
            if not rules:
                del by_value[wanted]
                if not by_value:
                    del self._any[name]


def _read(arguments: Mapping[str, object]) -> tuple[bool, Fields]:
    """What a binding asks for: whether any of the fields is enough, and the fields."""
    mode = arguments.get("x-match", "all")
    with_x = mode in ("all-with-x", "any-with-x")
    fields = tuple(
        (name, _PRESENT if arguments[name] is None else comparable(arguments[name]))
        for name in sorted(arguments)
        if name != "x-match" and (with_x or not name.startswith("x-"))
    )
    return mode in ("any", "any-with-x"), fields


def _holds(fields: Fields, headers: Mapping[str, object]) -> bool:
    for name, wanted in fields:
        if name not in headers or (wanted is not _PRESENT and comparable(headers[name]) != wanted):
            return False
    return True


def _enter(root: Place, rule: Rule) -> None:
    """Put an `all` rule into the tree."""
    root.count += 1
    entering = [(root, rule)]
    while entering:
        place, rule = entering.pop()
        if not rule.rest:
            place.complete = rule
        elif place.steps is not None:
            entering.append((_next_place(place.steps, rule), rule))
        elif place.waiting is None:
            place.waiting = [rule]
        elif len(place.waiting) < _MOST_WAITING or len(rule.path) >= _MOST_STEPS:
            place.waiting.append(rule)
        else:
            moving, place.waiting, place.steps = [*place.waiting, rule], None, {}
            # Each finds counted where those before it go.
            for each in moving:
                entering.append((_next_place(place.steps, each), each))


def _next_place(steps: dict[str, dict[Hashable, Place]], rule: Rule) -> Place:
    """The place to which a rule goes, as the fourth invariant has it; it is counted there."""
    taken: Field = rule.rest[0]
    fewest = -1
    for field in rule.rest:
        by_value = steps.get(field[0])
        following = None if by_value is None else by_value.get(field[1])
        count = 0 if following is None else following.count
        count += (by_value is None) * _NEW_NAME + (field[1] is _PRESENT) * _MERE_PRESENCE
        if fewest < 0 or count < fewest:
            taken, fewest = field, count
    rule.path = (*rule.path, taken)
    rule.rest = tuple(field for field in rule.rest if field is not taken)
    by_value = steps.setdefault(taken[0], {})
    following = by_value.get(taken[1])
    if following is None:
        following = by_value[taken[1]] = Place()
    following.count += 1
    return following


def _leave(root: Place, rule: Rule) -> None:
    """Take an `all` rule out of the tree, with the places that were there for it alone."""
    place = root
    place.count -= 1
    for name, wanted in rule.path:
        steps = place.steps
        assert steps is not None  # the rule went that way
        following = steps[name][wanted]
        following.count -= 1
        if not following.count:
            del steps[name][wanted]
            if not steps[name]:
                del steps[name]
                if not steps and place is not root:
                    place.steps = None
            return
        place = following
    if not rule.rest:
        place.complete = None
    elif place.waiting is not None:
        place.waiting.remove(rule)
        if not place.waiting:
            place.waiting = None

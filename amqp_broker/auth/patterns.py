"""NamePattern: says whether a name matches the regular expression of a permission or a policy.

Patterns come from administrators and from definitions files written for RabbitMQ; names come from clients.
A matcher that backtracks lets one bad pattern, such as (a+)+$, stop a node for hours on a name of 60
octets, so this one does not backtrack: the pattern becomes an automaton that runs over the name once, from
its end to its start. Running backwards makes a look-ahead cost nothing: when an octet is read, whatever may
follow it has been decided.

It knows nothing of users, vhosts or policies.

Invariants:
1. The time for one name is at most proportional to the octets of the name times the places of the pattern,
   and both are bounded (MAX_NAME_OCTETS, MAX_PLACES).
2. A state of the automaton is the set of places from which the octets behind the current position match.
   One place leads to another without an octet (`incoming` edges, some under a condition) or by one octet
   (`steps`).
3. A look-ahead is a level of its own, which is settled before the level that asks for it.
4. What is remembered (states and transitions) is bounded by MAX_REMEMBERED, and only saves time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from amqp_broker.auth import octet_sets
from amqp_broker.auth.pattern_syntax import parse
from amqp_broker.auth.pattern_tree import (
    At,
    Choice,
    LookAhead,
    LookBehind,
    Node,
    Octet,
    PatternError,
    Position,
    Repeat,
    Sequence,
)

__all__ = ["MAX_NAME_OCTETS", "NamePattern", "PatternError"]

# A short string of AMQP holds no more, so that no name and no routing key is longer.
MAX_NAME_OCTETS: Final = 255
MAX_PLACES: Final = 5000
MAX_REMEMBERED: Final = 50_000

_END_OF_NAME: Final = 256
_ALWAYS: Final = -1
_AT_THE_ENDS: Final = (Position.START, Position.END, Position.END_OR_LAST_NEWLINE)

State = frozenset[int]


class _Step(NamedTuple):
    """`source` matches one octet of `mask` and then what `target` matches."""

    mask: int
    source: int
    target: int


class _Edge(NamedTuple):
    """A way back from a place: `source` matches where the place does, if the condition holds."""

    source: int
    condition: int


class _Level:
    """The places of the pattern itself, or of one look-ahead."""

    def __init__(self, accept: int) -> None:
        self.accept = accept
        self.entry = accept
        self.steps: list[_Step] = []
        self.incoming: dict[int, list[_Edge]] = {}
        self._steps_by_octet: dict[int, list[_Step]] = {_END_OF_NAME: []}

    def steps_over(self, octet: int) -> list[_Step]:
        steps = self._steps_by_octet.get(octet)
        if steps is None:
            steps = self._steps_by_octet[octet] = [step for step in self.steps if step.mask >> octet & 1]
        return steps


class _Automaton:
    """Builds the places from the end of the pattern to its start: every place knows what follows it."""

    def __init__(self, source: bytes) -> None:
        self._source = source
        self._places = 0
        self._conditions = 0
        self.levels: list[_Level] = []
        self.positions: list[tuple[int, At | LookBehind]] = []
        self.look_aheads: list[tuple[int, int, bool]] = []
        self._add_level(parse(source))

    def _add_level(self, node: Node) -> int:
        """Adds the places of a whole tree; returns its level's number, above those that it looks ahead to."""
        level = _Level(self._place())
        level.entry = self._add(level, node, level.accept)
        self.levels.append(level)
        return len(self.levels) - 1

    def _place(self) -> int:
        self._places += 1
        if self._places > MAX_PLACES:
            reason = f"it has more than {MAX_PLACES} places; use fewer alternatives or smaller repeat counts"
            raise PatternError(self._source, 0, reason)
        return self._places - 1

    def _condition(self) -> int:
        self._conditions += 1
        return self._conditions - 1

    def _link(self, level: _Level, source: int, target: int, condition: int = _ALWAYS) -> None:
        level.incoming.setdefault(target, []).append(_Edge(source, condition))

    def _add(self, level: _Level, node: Node, then: int) -> int:
        """Adds the places of `node`, followed by the place `then`; returns the place before it."""
        match node:
            case Octet(mask):
                place = self._place()
                level.steps.append(_Step(mask, place, then))
            case Sequence(items):
                place = then
                for item in reversed(items):
                    place = self._add(level, item, place)
            case Choice(branches):
                place = self._place()
                for branch in branches:
                    self._link(level, place, self._add(level, branch, then))
            case Repeat():
                place = self._add_repeat(level, node, then)
            case LookAhead(item, negative):
                place, condition = self._place(), self._condition()
                self._link(level, place, then, condition)
                self.look_aheads.append((self._add_level(item), condition, negative))
            case At() | LookBehind():
                place, condition = self._place(), self._condition()
                self._link(level, place, then, condition)
                self.positions.append((condition, node))
        return place

    def _add_repeat(self, level: _Level, node: Repeat, then: int) -> int:
        if node.most is None:
            loop = self._place()
            self._link(level, loop, then)
            self._link(level, loop, self._add(level, node.item, loop))
            then = loop
        else:
            end = then
            for _ in range(node.most - node.least):
                place = self._place()
                self._link(level, place, end)
                self._link(level, place, self._add(level, node.item, then))
                then = place
        for _ in range(node.least):
            then = self._add(level, node.item, then)
        return then


class NamePattern:
    """A compiled pattern. It matches a name if it matches anywhere in it, as Erlang's `re:run` does."""

    __slots__ = (
        "_entry",
        "_levels",
        "_look_aheads",
        "_only_ends",
        "_positions",
        "_remembered",
        "_states",
        "_transitions",
        "source",
    )

    def __init__(self, source: str, variables: Mapping[str, str] | None = None) -> None:
        """Compiles `source`. Each `{key}` of `variables` in it stands for its value, taken literally.

        RabbitMQ puts the value in as a piece of the pattern. Taken literally, a user named "a.b" does not get
        at what belongs to "axb". Raises PatternError (a ValueError).
        """
        self.source = source
        for key, value in (variables or {}).items():
            source = source.replace("{" + key + "}", _literal(value))
        automaton = _Automaton(source.encode("utf-8", "surrogateescape"))
        self._levels = automaton.levels
        self._entry = automaton.levels[-1].entry
        self._positions = automaton.positions
        self._only_ends = all(
            isinstance(node, At) and node.position in _AT_THE_ENDS for _, node in automaton.positions
        )
        self._look_aheads: list[list[tuple[int, bool]]] = [[] for _ in automaton.levels]
        for level, condition, negative in automaton.look_aheads:
            self._look_aheads[level].append((condition, negative))
        self._states: dict[State, State] = {}
        self._transitions: dict[tuple[State, int, int], State] = {}
        self._remembered = 0

    def matches(self, name: str) -> bool:
        """Whether the pattern matches anywhere in the name; a name above MAX_NAME_OCTETS matches nothing."""
        octets = name.encode("utf-8", "surrogateescape")
        length = len(octets)
        if length > MAX_NAME_OCTETS:
            return False
        entry = self._entry
        # Between its ends a name meets no condition but those of words, lines and look-behinds.
        inside = range(1, length - 1) if self._only_ends else range(0)
        state = self._step(frozenset(), _END_OF_NAME, self._holding(octets, length))
        for at in range(length - 1, -1, -1):
            if entry in state:
                return True
            holding = 0 if at in inside else self._holding(octets, at)
            transition = (state, octets[at], holding)
            state = self._transitions.get(transition) or self._step(*transition)
        return entry in state

    def _holding(self, octets: bytes, at: int) -> int:
        """The conditions on positions that hold before the octet `at`, as a mask of their numbers."""
        holding = 0
        for condition, node in self._positions:
            if _holds(node, octets, at):
                holding |= 1 << condition
        return holding

    def _step(self, behind: State, octet: int, holding: int) -> State:
        """The places that match from an octet on, where those of `behind` match from the next one on."""
        matching: set[int] = set()
        truths = holding
        for number, level in enumerate(self._levels):
            found = [step.source for step in level.steps_over(octet) if step.target in behind]
            found.append(level.accept)
            while found:
                place = found.pop()
                if place not in matching:
                    matching.add(place)
                    for source, condition in level.incoming.get(place, ()):
                        if condition == _ALWAYS or truths >> condition & 1:
                            found.append(source)
            for condition, negative in self._look_aheads[number]:
                if (level.entry in matching) != negative:
                    truths |= 1 << condition
        return self._remember((behind, octet, holding), frozenset(matching))

    def _remember(self, transition: tuple[State, int, int], state: State) -> State:
        if self._remembered > MAX_REMEMBERED:
            self._states.clear()
            self._transitions.clear()
            self._remembered = 0
        known = self._states.setdefault(state, state)
        if known is state:
            self._remembered += len(state)
        self._transitions[transition] = known
        self._remembered += 1
        return known


def _literal(value: str) -> str:
    """The value as a pattern that matches exactly it."""
    return "".join(
        character if character.isalnum() or not character.isascii() else f"\\x{ord(character):02x}"
        for character in value
    )


def _holds(node: At | LookBehind, octets: bytes, at: int) -> bool:
    """Whether the condition holds before the octet `at`."""
    length = len(octets)
    if isinstance(node, LookBehind):
        return any(_ends_at(masks, octets, at) for masks in node.alternatives) != node.negative
    match node.position:
        case Position.START:
            return at == 0
        case Position.END:
            return at == length
        case Position.END_OR_LAST_NEWLINE:
            return at == length or (at == length - 1 and octets[at] == 10)
        case Position.LINE_START:
            # A newline that ends the name begins no line (PCRE's manual on circumflex in multiline mode).
            return at == 0 or (octets[at - 1] == 10 and at < length)
        case Position.LINE_END:
            return at == length or octets[at] == 10
        case Position.WORD_BOUNDARY:
            return _is_word(octets, at - 1) != _is_word(octets, at)
        case Position.NO_WORD_BOUNDARY:
            return _is_word(octets, at - 1) == _is_word(octets, at)


def _is_word(octets: bytes, at: int) -> bool:
    return 0 <= at < len(octets) and bool(octet_sets.WORD >> octets[at] & 1)


def _ends_at(masks: tuple[int, ...], octets: bytes, at: int) -> bool:
    start = at - len(masks)
    return start >= 0 and all(mask >> octets[start + index] & 1 for index, mask in enumerate(masks))

"""Reads a name pattern: the part of PCRE that is a regular expression in the strict sense, as a tree.

Everything is read as octets, because Erlang's `re` (with which RabbitMQ matches names) does so. What needs
backtracking is refused with a text that says so: back references, recursion, conditions, atomic groups,
possessive quantifiers. So are Unicode properties and the start-of-pattern verbs. How a tree is matched is
not known here."""

from __future__ import annotations

from typing import Final, NamedTuple

from amqp_broker.auth import octet_sets
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

MAX_PATTERN_OCTETS: Final = 4096
MAX_NESTING: Final = 100
MAX_REPEAT: Final = 65535
MAX_LOOK_BEHIND: Final = 255

_NEWLINE_SEQUENCE: Final = Choice(
    (Sequence((Octet(1 << 13), Octet(1 << 10))), Octet(octet_sets.VERTICAL_SPACE))
)
_SIMPLE_ESCAPES: Final = {"t": 9, "n": 10, "f": 12, "r": 13, "a": 7, "e": 27}
_POSITIONS: Final = {
    "b": Position.WORD_BOUNDARY,
    "B": Position.NO_WORD_BOUNDARY,
    "A": Position.START,
    "z": Position.END,
    "Z": Position.END_OR_LAST_NEWLINE,
}
_REFUSED_ESCAPES: Final = {
    "g": "back references and subroutine calls are not supported",
    "k": "back references are not supported",
    "p": "Unicode properties are not supported; name patterns match octets",
    "P": "Unicode properties are not supported; name patterns match octets",
    "X": "\\X is not supported; name patterns match octets",
    "G": "\\G is not supported",
    "c": "\\c must be followed by a printable ASCII character",
    "L": "\\L is not supported",
    "l": "\\l is not supported",
    "U": "\\U is not supported",
    "u": "\\u is not supported",
}


class _Options(NamedTuple):
    ignore_case: bool = False
    multiline: bool = False
    dot_all: bool = False
    extended: bool = False


_OPTION_OF_LETTER: Final = {"i": "ignore_case", "m": "multiline", "s": "dot_all", "x": "extended"}
# Ungreedy, duplicate names, extra: they change captures or strictness, never whether a name matches.
_OPTIONS_WITHOUT_EFFECT: Final = "UJX"


def parse(source: bytes) -> Node:
    """The tree of a pattern. Raises PatternError."""
    if len(source) > MAX_PATTERN_OCTETS:
        reason = f"it is longer than {MAX_PATTERN_OCTETS} octets; split it"
        raise PatternError(source[:40] + b"...", MAX_PATTERN_OCTETS, reason)
    return _Parser(source).whole()


class _Parser:
    """Recursive descent over the octets, which are kept as ISO-8859-1 text: one character is one octet."""

    def __init__(self, source: bytes) -> None:
        self._source = source
        self._text = source.decode("latin-1")
        self._at = 0
        self._nesting = 0
        self._quoting = False

    def whole(self) -> Node:
        if self._text.startswith("(*"):
            raise self._error("verbs such as (*UTF8) are not supported; name patterns match octets")
        node = self._alternation(_Options())
        if self._at < len(self._text):
            raise self._error("unmatched )")
        return node

    def _error(self, reason: str) -> PatternError:
        return PatternError(self._source, self._at, reason)

    def _peek(self, text: str) -> bool:
        return self._text.startswith(text, self._at)

    def _take(self, text: str) -> bool:
        if self._peek(text):
            self._at += len(text)
            return True
        return False

    def _take_until(self, end: str, reason: str) -> str:
        found = self._text.find(end, self._at)
        if found < 0:
            raise self._error(reason)
        taken = self._text[self._at : found]
        self._at = found + len(end)
        return taken

    # Alternatives, sequences and quantifiers

    def _alternation(self, options: _Options) -> Node:
        branches: list[Node] = []
        while True:
            branch, options = self._sequence(options)
            branches.append(branch)
            if not self._take("|"):
                return branches[0] if len(branches) == 1 else Choice(tuple(branches))

    def _sequence(self, options: _Options) -> tuple[Node, _Options]:
        """The items up to `|`, `)` or the end, and the options that hold from there on."""
        items: list[Node] = []
        while self._skip_ignored(options) and (self._quoting or self._text[self._at] not in "|)"):
            changed = None if self._quoting else self._option_setting(options)
            if changed is not None:
                options = changed
                continue
            item = self._atom(options)
            if item is not None:
                items.append(self._quantified(item, options))
        return (items[0] if len(items) == 1 else Sequence(tuple(items))), options

    def _skip_ignored(self, options: _Options) -> bool:
        """Passes the end of a quotation, comments and layout. False: nothing follows."""
        while self._at < len(self._text):
            if self._take("\\E"):
                self._quoting = False
            elif self._quoting:
                return True
            elif self._take("(?#"):
                self._take_until(")", "missing ) after a comment")
            elif options.extended and self._text[self._at] in " \t\n\v\f\r":
                self._at += 1
            elif options.extended and self._take("#"):
                end = self._text.find("\n", self._at)
                self._at = len(self._text) if end < 0 else end + 1
            else:
                return True
        return False

    def _quantified(self, item: Node, options: _Options) -> Node:
        self._skip_ignored(options)
        bounds = None if self._quoting else self._bounds()
        if bounds is None:
            return item
        if isinstance(item, At):
            raise self._error("nothing to repeat: the quantifier follows a condition such as ^ or $")
        if self._take("+"):
            raise self._error("possessive quantifiers are not supported; leave out the second +")
        self._take("?")
        least, most = bounds
        if isinstance(item, (LookAhead, LookBehind)):
            # Repeating a look-around asks nothing new: it holds or it does not.
            return item if least else Repeat(item, 0, 1)
        return Repeat(item, least, most)

    def _bounds(self) -> tuple[int, int | None] | None:
        for sign, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._take(sign):
                return bounds
        end = self._text.find("}", self._at)
        if not self._peek("{") or end < 0:
            return None
        least, comma, most = self._text[self._at + 1 : end].partition(",")
        if not _is_number(least) or (most and not _is_number(most)):
            # Not a quantifier, then: PCRE takes such a brace for itself.
            return None
        self._at = end + 1
        low = int(least)
        high = low if not comma else int(most) if most else None
        if max(low, high or 0) > MAX_REPEAT:
            raise self._error(f"a repeat count above {MAX_REPEAT}")
        if high is not None and high < low:
            raise self._error("the numbers of a {} quantifier are out of order")
        return low, high

    # Atoms

    def _atom(self, options: _Options) -> Node | None:
        """One item without its quantifier; None where the octets stand for nothing (\\Q, \\K)."""
        character = self._text[self._at]
        self._at += 1
        if self._quoting:
            return self._octet(ord(character), options)
        if character == "\\":
            return self._escape(options)
        if character == "(":
            return self._group(options)
        if character == "[":
            return self._bracketed(options)
        if character == ".":
            return Octet(octet_sets.ALL if options.dot_all else octet_sets.NOT_NEWLINE)
        if character == "^":
            return At(Position.LINE_START if options.multiline else Position.START)
        if character == "$":
            return At(Position.LINE_END if options.multiline else Position.END_OR_LAST_NEWLINE)
        if character in "*+?":
            self._at -= 1
            raise self._error(f"nothing to repeat before {character}")
        if character == "{":
            self._at -= 1
            if self._bounds() is not None:
                raise self._error("nothing to repeat before {}")
            self._at += 1
        return self._octet(ord(character), options)

    def _octet(self, octet: int, options: _Options) -> Octet:
        mask = 1 << octet
        return Octet(octet_sets.without_case(mask) if options.ignore_case else mask)

    def _escape(self, options: _Options) -> Node | None:
        if self._at == len(self._text):
            raise self._error("\\ at the end")
        letter = self._text[self._at]
        if letter in _POSITIONS:
            self._at += 1
            return At(_POSITIONS[letter])
        if letter == "Q":
            self._at += 1
            self._quoting = True
            return None
        if letter == "K":
            # It moves the start of the match, and only whether there is one matters.
            self._at += 1
            return None
        if letter == "R":
            self._at += 1
            return _NEWLINE_SEQUENCE
        if letter == "N":
            self._at += 1
            return Octet(octet_sets.NOT_NEWLINE)
        if letter == "C":
            self._at += 1
            return Octet(octet_sets.ALL)
        mask = self._escaped_class()
        if mask is not None:
            return Octet(mask)
        return self._octet(self._escaped_octet(), options)

    def _escaped_class(self) -> int | None:
        letter = self._text[self._at]
        mask = octet_sets.ESCAPED_CLASSES.get(letter.lower())
        if mask is None:
            return None
        self._at += 1
        return mask if letter.islower() else octet_sets.complement(mask)

    def _escaped_octet(self) -> int:
        """The octet that an escape stands for; the backslash is behind us."""
        letter = self._text[self._at]
        if letter == "c" and 0x20 < ord(self._text[self._at + 1 : self._at + 2] or "\0") < 0x7F:
            self._at += 2
            return ord(self._text[self._at - 1].upper()) ^ 0x40
        if letter in _REFUSED_ESCAPES:
            raise self._error(_REFUSED_ESCAPES[letter])
        if letter in "xo" or letter.isdecimal():
            return self._numeric_escape(letter)
        self._at += 1
        return _SIMPLE_ESCAPES.get(letter, ord(letter))

    def _numeric_escape(self, letter: str) -> int:
        start = self._at
        if letter in "xo":
            self._at += 1
            base, longest = (16, 2) if letter == "x" else (8, 0)
            if self._take("{"):
                digits = self._take_until("}", f"missing }} after \\{letter}{{")
            elif letter == "o":
                raise self._error("\\o must be followed by {")
            else:
                digits = self._digits(base, longest)
        else:
            base, digits = 8, self._digits(8, 3)
            if letter != "0" and len(digits) < 3:
                self._at = start
                raise self._error("back references are not supported")
        try:
            octet = int(digits or "0", base)
        except ValueError:
            raise self._error(f"'{digits}' is no number in base {base}") from None
        if octet > 255:
            raise self._error("name patterns match octets: write a character above 255 as its UTF-8 octets")
        return octet

    def _digits(self, base: int, longest: int) -> str:
        valid = "0123456789abcdefABCDEF" if base == 16 else "01234567"
        start = self._at
        while self._at < len(self._text) and self._at - start < longest and self._text[self._at] in valid:
            self._at += 1
        return self._text[start : self._at]

    # Groups

    def _option_setting(self, options: _Options) -> _Options | None:
        """The options after a setting such as (?i) or (?s-i), which is passed; None where there is none."""
        if not self._peek("(?"):
            return None
        end = self._text.find(")", self._at)
        letters = self._text[self._at + 2 : end] if end > 0 else ""
        changed = self._changed(options, letters)
        if changed is not None:
            self._at = end + 1
        return changed

    def _changed(self, options: _Options, letters: str) -> _Options | None:
        on, minus, off = letters.partition("-")
        if not (on or minus) or any(
            letter not in _OPTION_OF_LETTER and letter not in _OPTIONS_WITHOUT_EFFECT for letter in on + off
        ):
            return None
        settings = {_OPTION_OF_LETTER[letter]: True for letter in on if letter in _OPTION_OF_LETTER}
        settings.update({_OPTION_OF_LETTER[letter]: False for letter in off if letter in _OPTION_OF_LETTER})
        return options._replace(**settings)

    def _group(self, options: _Options) -> Node:
        """A group; its opening parenthesis is behind us."""
        opened = self._at - 1
        self._nesting += 1
        if self._nesting > MAX_NESTING:
            raise self._error(f"groups nested deeper than {MAX_NESTING}")
        look = self._group_kind(options)
        node = self._alternation(look if isinstance(look, _Options) else options)
        if not self._take(")"):
            self._at = opened
            raise self._error("missing )")
        self._nesting -= 1
        if isinstance(look, _Options):
            # A condition alone cannot be repeated, a group can, whatever it holds.
            return Sequence((node,)) if isinstance(node, At) else node
        if look in ("=", "!"):
            return LookAhead(node, look == "!")
        return self._look_behind(node, look == "<!")

    def _group_kind(self, options: _Options) -> _Options | str:
        """What follows the parenthesis: the kind of a look-around, or the options inside of a plain group."""
        if not self._take("?"):
            if self._peek("*"):
                raise self._error("verbs such as (*COMMIT) are not supported")
            return options
        for kind in ("=", "!", "<=", "<!"):
            if self._take(kind):
                return kind
        if self._take(":") or self._take("|"):
            return options
        for opening, closing in (("P<", ">"), ("<", ">"), ("'", "'")):
            if self._take(opening):
                self._take_until(closing, f"missing {closing} after the name of a group")
                return options
        if self._peek(">"):
            raise self._error("atomic groups are not supported; write (?: instead of (?>")
        if self._peek("("):
            raise self._error("conditional groups are not supported")
        end = self._text.find(":", self._at)
        changed = self._changed(options, self._text[self._at : end]) if end > 0 else None
        if changed is None:
            raise self._error("this kind of group, a recursion or a call-out, is not supported")
        self._at = end + 1
        return changed

    def _look_behind(self, node: Node, negative: bool) -> LookBehind:
        branches = node.branches if isinstance(node, Choice) else (node,)
        return LookBehind(tuple(self._fixed(branch) for branch in branches), negative)

    def _fixed(self, node: Node) -> tuple[int, ...]:
        """The octet sets of a node of fixed length without alternatives."""
        if isinstance(node, Octet):
            return (node.mask,)
        if isinstance(node, Sequence):
            return tuple(mask for item in node.items for mask in self._fixed(item))
        if isinstance(node, Repeat) and node.least == node.most:
            item = self._fixed(node.item)
            if len(item) * node.least > MAX_LOOK_BEHIND:
                raise self._error(f"a look-behind over more than {MAX_LOOK_BEHIND} octets")
            return item * node.least
        raise self._error("a look-behind must be text or classes of a fixed length, or alternatives of such")

    # Bracketed classes

    def _bracketed(self, options: _Options) -> Node:
        """A class in brackets; the opening one is behind us."""
        opened = self._at - 1
        negated = self._take("^")
        mask = 0
        first = True
        while first or self._quoting or not self._peek("]"):
            if self._at >= len(self._text):
                self._at = opened
                raise self._error("missing ]")
            first = False
            mask |= self._class_item()
        self._at += 1
        if options.ignore_case:
            mask = octet_sets.without_case(mask)
        return Octet(octet_sets.complement(mask) if negated else mask)

    def _class_item(self) -> int:
        """The set of a single octet, a range, or a class within a class."""
        low = self._class_member()
        if not isinstance(low, int):
            return low.mask
        is_range = not self._quoting and self._peek("-") and not self._peek("-]")
        if not is_range or self._at + 1 >= len(self._text):
            return 1 << low
        self._at += 1
        high = self._class_member()
        if not isinstance(high, int):
            # A class ends no range: the hyphen stands for itself.
            return 1 << low | octet_sets.of(b"-") | high.mask
        if high < low:
            raise self._error("a range in [] is out of order")
        return octet_sets.of(range(low, high + 1))

    def _class_member(self) -> int | Octet:
        """A plain octet, or a set of them (the empty one where the octets stand for nothing)."""
        character = self._text[self._at]
        self._at += 1
        if self._quoting:
            if character == "\\" and self._take("E"):
                self._quoting = False
                return Octet(0)
            return ord(character)
        if character == "[" and self._text[self._at : self._at + 1] in (":", ".", "="):
            return self._named_class()
        if character != "\\":
            return ord(character)
        if self._at == len(self._text):
            raise self._error("\\ at the end")
        if self._take("Q"):
            self._quoting = True
            return Octet(0)
        if self._take("E"):
            return Octet(0)
        if self._take("b"):
            return 8
        mask = self._escaped_class()
        if mask is not None:
            return Octet(mask)
        if self._text[self._at] in "BRNXC":
            raise self._error(f"\\{self._text[self._at]} is not supported inside of []")
        return self._escaped_octet()

    def _named_class(self) -> int | Octet:
        sign = self._text[self._at]
        end = self._text.find(f"{sign}]", self._at + 1)
        if end < 0:
            # No such class is closed: the bracket stands for itself.
            return ord("[")
        name = self._text[self._at + 1 : end]
        negated = name.startswith("^")
        mask = octet_sets.NAMED_CLASSES.get(name.removeprefix("^"))
        if sign != ":" or mask is None:
            raise self._error(f"[{sign}{name}{sign}] is no class that is known")
        self._at = end + 2
        return Octet(octet_sets.complement(mask) if negated else mask)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()

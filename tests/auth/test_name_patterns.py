"""Name patterns: the answers of RabbitMQ's matcher (Erlang `re`) and of Python's, in bounded time."""

from __future__ import annotations

import re
import string

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from amqp_broker.auth import octet_sets
from amqp_broker.auth.pattern_syntax import MAX_PATTERN_OCTETS
from amqp_broker.auth.patterns import MAX_NAME_OCTETS, MAX_REMEMBERED, NamePattern, PatternError


def matches(pattern: str, octets: bytes) -> bool:
    return NamePattern(pattern).matches(octets.decode("utf-8", "surrogateescape"))


# Each line was put to re:run/3 of a RabbitMQ 3.10.8.
OBSERVED = [
    ("", b"", True),
    ("", b"x", True),
    ("^$", b"x", False),
    ("^.{2}$", "é".encode(), True),
    (r"^\w+$", "é".encode(), False),
    (r"^\w$", b"\xc3", True),
    (r"\w", b"\xa9", False),
    ("(?i)^é$", "É".encode(), False),
    (r"\s", b"\xa0", False),
    (r"\h", b"\xa0", True),
    (r"\s", b"\x0b", True),
    (r"\s", b"\x85", False),
    (r"\v", b"\x85", True),
    (r"\R", b"\x85", True),
    ("^a$", b"a\n", True),
    (r"^a\Z", b"a\n", True),
    (r"^a\z", b"a\n", False),
    ("^b", b"a\nb", False),
    ("^a$", b"a\r", False),
    (".", b"\n", False),
    (".", b"\r", True),
    ("a(?#x)b", b"ab", True),
    ("^a{,2}$", b"a{,2}", True),
    ("a{", b"a{", True),
    (r"\y", b"y", True),
    ("[]]", b"]", True),
    (r"[\^]", b"^", True),
    ("[a-]", b"-", True),
    (r"[\w-z]", b"b", True),
    (r"[\w-z]", b"-", True),
    ("a(?i)b", b"aB", True),
    ("a(?i:b)", b"aB", True),
    ("a(?i:b)", b"AB", False),
    ("(?x) a b # c", b"ab", True),
    (r"a\Kb", b"ab", True),
    ("(?:(?=a))*a", b"a", True),
    (r"\Qab\E", b"ab", True),
    (r"\Qa.b", b"a.b", True),
    ("[[:punct:]]", b"%", True),
    ("[[:alpha:]]", b"\xe4", True),
    ("[[:alpha:]]", b"\xd7", False),
    ("[^[:alpha:]]", b"a", False),
    ("[[:^digit:]]", b"a", True),
    (r"\x61", b"a", True),
    (r"\x{61}", b"a", True),
    (r"\o{141}", b"a", True),
    (r"\141", b"a", True),
    (r"\cA", b"\x01", True),
    (r"\ca", b"a", False),
    ("(?<=a)b", b"ab", True),
    ("(?<=a|bc)b", b"ab", True),
    ("(?<!x)foo", b"xfoo", False),
    ("(?<name>fo)o", b"foo", True),
    ("(?|a|b)b", b"ab", True),
    ("[[:alpha:]-z]", b"a", True),
    (r"[\Q\\E]", b"\\", True),
    (r"[a\-c]", b"b", False),
    (r"a\E", b"aE", True),
    (r"\N", b"a", True),
    ("(?i-s)A", b"a", True),
    ("[^]a]", b"a", False),
    ("()", b"a", True),
    ("(|b)a", b"a", True),
    ("a{0}a", b"a", True),
    (r"\b", b"a", True),
    (r"\e|e", b"e", True),
    ("a{1}?", b"a", True),
    ("(?U)a", b"a", True),
    ("(?J)a", b"a", True),
]


@pytest.mark.parametrize(("pattern", "octets", "expected"), OBSERVED)
def test_matches_as_rabbitmq_does(pattern: str, octets: bytes, expected: bool) -> None:
    assert matches(pattern, octets) is expected


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("(", "missing )"),
        ("a)", "unmatched )"),
        ("[a", "missing ]"),
        ("[]", "missing ]"),
        ("a**", "nothing to repeat"),
        ("*a", "nothing to repeat"),
        ("a|*", "nothing to repeat"),
        ("{1}", "nothing to repeat"),
        ("^*a", "nothing to repeat"),
        ("^a{2}{1}$", "nothing to repeat"),
        ("a{3,1}", "out of order"),
        ("a{1,70000}", "repeat count above 65535"),
        ("[z-a]", "out of order"),
        ("[[:foo:]]", "no class that is known"),
        ("[[.a.]]", "no class that is known"),
        ("a\\", "\\ at the end"),
        ("(?<=a*)b", "look-behind"),
        (r"(a)\1", "back references"),
        (r"(?<n>a)\k<n>", "back references"),
        ("a++", "possessive"),
        ("(?>a)", "atomic"),
        ("(?(1)a)", "conditional"),
        ("(?R)", "recursion"),
        ("(?^i)a", "not supported"),
        ("(*UTF8)a", "verbs"),
        (r"\p{L}", "Unicode properties"),
        (r"\x{100}", "UTF-8 octets"),
        ("(?<x", "missing >"),
        ("(?#x", "missing ) after a comment"),
        ("(" * 101 + ")" * 101, "nested deeper"),
        ("(a{1000}){1000}", "places"),
        ("(?<=((a{200}){200}))", "look-behind"),
        ("a" * (MAX_PATTERN_OCTETS + 1), "longer than"),
    ],
)
def test_refuses_with_a_reason_and_an_offset(pattern: str, reason: str) -> None:
    with pytest.raises(PatternError, match=r"cannot be used: .* \(at octet \d+\)") as caught:
        NamePattern(pattern)
    assert reason in caught.value.reason
    assert 0 <= caught.value.offset <= len(pattern)


@pytest.mark.parametrize(
    ("pattern", "named", "others"),
    [
        (r"^(?!amq\.).*", ["orders", "xamq.x", "", "amq"], ["amq.topic", "amq."]),
        (r"^(amq\.gen.*|orders-.*)$", ["amq.gen-Xa", "orders-1"], ["amq.topic", "my-orders-1", "orders"]),
        ("^orders", ["orders", "orders.eu"], ["my.orders", "order"]),
        ("orders", ["orders", "my.orders.eu"], ["order"]),
        (
            r"^[a-z]+\.(eu|us)\.\d{2,3}$",
            ["a.eu.12", "bc.us.123"],
            ["a.eu.1", "a.eu.1234", "A.eu.12", "a.de.12"],
        ),
        (r"^(?=.*-hot$)(?!test)", ["a-hot"], ["a-cold", "test-hot"]),
        (r"(?<!dead)-letter$", ["x-letter"], ["dead-letter"]),
        (r"^\Qa.b*\E+$", ["a.b*", "a.b***"], ["a.b", "axb*"]),
        (r"(?i)^GRÜN$".replace("Ü", "."), ["grxn", "GRxn"], ["gr\u00fcn"]),
        (r"\bone\b", ["one", "a one.b"], ["one_b", "none"]),
        (r"\Bone", ["none"], ["one", "a one"]),
        ("(?m)^b$", ["a\nb", "b\na"], ["ab", "bb"]),
        ("(?s)a.b", ["a\nb"], ["ab"]),
    ],
)
def test_patterns_as_administrators_write_them(pattern: str, named: list[str], others: list[str]) -> None:
    compiled = NamePattern(pattern)
    assert [name for name in named if not compiled.matches(name)] == []
    assert [name for name in others if compiled.matches(name)] == []


def test_octet_classes_are_those_of_iso_8859_1() -> None:
    letters = "ªµºÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÐÑÒÓÔÕÖØÙÚÛÜÝÞßàáâãäåæçèéêëìíîïðñòóôõöøùúûüýþÿ"
    latin = octet_sets.of(letters.encode("latin-1"))
    assert octet_sets.of(string.ascii_letters.encode()) | latin == octet_sets.ALPHA
    assert octet_sets.ALPHA | octet_sets.of(b"0123456789_") == octet_sets.WORD
    upper = "ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÐÑÒÓÔÕÖØÙÚÛÜÝÞ"
    assert octet_sets.NAMED_CLASSES["upper"] == octet_sets.of(
        (string.ascii_uppercase + upper).encode("latin-1")
    )
    punctuation = string.punctuation + "\xa0¡¢£¤¥¦§¨©«¬\xad®¯°±²³´¶·¸¹»¼½¾¿×÷"
    assert octet_sets.NAMED_CLASSES["punct"] == octet_sets.of(punctuation.encode("latin-1"))
    for small, large in [(0xE0, 0xC0), (0xF6, 0xD6), (0xFE, 0xDE), (ord("a"), ord("A"))]:
        assert octet_sets.without_case(1 << small) == 1 << small | 1 << large
    for alone in (0xB5, 0xDF, 0xFF, 0xD7, 0xF7, ord("5")):
        assert octet_sets.without_case(1 << alone) == 1 << alone


def test_patterns_that_ruin_a_backtracking_matcher_cost_one_pass() -> None:
    name = "a" * (MAX_NAME_OCTETS - 1) + "!"
    for pattern in (
        "^(a+)+$",
        "^(a|a)*$",
        "^(a|aa)+$",
        "^(.*a){20}b$",
        r"^((?=a*b)a)*$",
        "^(a?){200}a{200}b$",
    ):
        assert not NamePattern(pattern).matches(name)
        assert NamePattern(pattern + "|!$").matches(name)


def test_memory_stays_bounded_whatever_is_asked() -> None:
    pattern = NamePattern("^(?:[ab]*a[ab]{12}|x)$")
    for number in range(3000):
        name = f"{number * 2654435761 % 2**32:032b}".replace("0", "a").replace("1", "b")
        assert pattern.matches(name) == (name[-13] == "a")
        assert pattern._remembered <= MAX_REMEMBERED + 100


def test_names_beyond_a_short_string_match_nothing() -> None:
    assert NamePattern("").matches("x" * MAX_NAME_OCTETS)
    assert not NamePattern("").matches("x" * (MAX_NAME_OCTETS + 1))


def test_variables_are_taken_literally() -> None:
    pattern = NamePattern("^{username}-.*{vhost}$", {"username": "a.b+", "vhost": "{username}"})
    assert pattern.matches("a.b+-1{username}")
    assert not pattern.matches("axbb-1{username}")
    assert NamePattern("^{username}$", {"username": "zoë\udc80 \n\\E"}).matches("zoë\udc80 \n\\E")


_ATOMS = st.sampled_from(
    ["a", "b", "c", ".", "[ab]", "[^a]", "[a-c]", r"\w", r"\W", r"\d", r"\s", "-", r"\.", " ", "\n", r"\x61"]
)
# Python's ^ and \B differ from PCRE's in two corners; these stand for each, in the notation of either.
_LINE_START, _NO_BOUNDARY = "\x01", "\x02"
_CONDITIONS = st.sampled_from(
    [_LINE_START, "$", r"\b", _NO_BOUNDARY, r"\A", "(?<=a)", "(?<!b)", "(?<=ab|.c)", ""]
)
_QUANTIFIERS = st.sampled_from(["*", "+", "?", "{2}", "{1,}", "{0,2}", "{2,3}", "*?", "+?", "??", "{0}"])


def _wider(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.lists(inner, min_size=1, max_size=4).map("".join),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: f"(?:{'|'.join(parts)})"),
        st.builds("(?:{}){}".format, inner, _QUANTIFIERS),
        st.builds("({})".format, inner),
        st.builds("(?={})".format, inner),
        st.builds("(?!{})".format, inner),
        st.builds("(?{}:{})".format, st.sampled_from(["i", "m", "s", "im", "i-s"]), inner),
    )


_PATTERNS = st.recursive(st.one_of(_ATOMS, _CONDITIONS), _wider, max_leaves=12)
_NAMES = st.text(st.sampled_from("aabbcAB-. \n_1"), max_size=9)


@given(_PATTERNS, st.lists(_NAMES, min_size=1, max_size=8))
@example("(?:a|(?:))*b", ["aab", "b", "a"])
@example("(?:(?=ab)a|b)+$", ["abab", "aab"])
def test_answers_as_pythons_matcher_where_both_speak_the_same(pattern: str, names: list[str]) -> None:
    # A newline that ends the name begins no line in PCRE; the empty name has no word boundary.
    in_python = pattern.replace(_LINE_START, r"(?:^(?!\Z)|\A)").replace(_NO_BOUNDARY, r"(?:\B|\A\Z)")
    oracle = re.compile(in_python.encode())
    compiled = NamePattern(pattern.replace(_LINE_START, "^").replace(_NO_BOUNDARY, r"\B"))
    for name in names:
        assert compiled.matches(name) == bool(oracle.search(name.encode())), (compiled.source, name)


@given(st.text(max_size=30))
def test_any_text_compiles_or_is_refused(text: str) -> None:
    try:
        pattern = NamePattern(text)
    except PatternError:
        return
    assert pattern.matches("") in (True, False)


@given(st.text(max_size=40))
def test_a_literal_variable_matches_itself_alone(value: str) -> None:
    pattern = NamePattern(r"\A{username}\z", {"username": value})
    assert pattern.matches(value)
    assert not pattern.matches(value + "x")
    assert not pattern.matches("x" + value)

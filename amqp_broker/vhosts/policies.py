"""Policies: which one applies to a queue or an exchange, what it sets there, and which are valid at all.

RabbitMQ's rules: of the policies of a vhost that match a name, the one with the highest priority applies,
whole and alone; so it is with operator policies. A policy that sets something a queue's type does not
have does not apply to it. What both mean together with a queue's own arguments is for queues/arguments.py
to say.

Invariant: the outcome depends on the policies and the name, not on the order in which policies were made:
of two with equal priority, the one whose name sorts first applies.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from typing import Final

from amqp_broker.auth.patterns import NamePattern, PatternError
from amqp_broker.metadata.entities import Policy
from amqp_broker.metadata.metadata import Metadata

CLASSIC: Final = "classic_queues"
QUORUM: Final = "quorum_queues"
STREAM: Final = "streams"
EXCHANGES: Final = "exchanges"
KINDS: Final = (CLASSIC, QUORUM, STREAM, EXCHANGES)
"""What a policy can apply to, in the words of its apply-to."""

_APPLY_TO: Final[Mapping[str, tuple[str, ...]]] = {
    "all": KINDS,
    "queues": (CLASSIC, QUORUM, STREAM),
    CLASSIC: (CLASSIC,),
    QUORUM: (QUORUM,),
    STREAM: (STREAM,),
    EXCHANGES: (EXCHANGES,),
}
_LARGEST: Final = 2**63 - 1
_MAX_AGE: Final = re.compile(r"[0-9]{1,18}[YMDhms]")

Merge = Callable[[object, object], object]


def _strictest(one: object, other: object) -> object:
    """The smaller of two limits."""
    return min(one, other) if isinstance(one, int) and isinstance(other, int) else one


def _strictest_with_none(one: object, other: object) -> object:
    """The smaller of two limits of which a negative one is none."""
    if isinstance(one, int) and isinstance(other, int) and (one < 0 or other < 0):
        return max(one, other)
    return _strictest(one, other)


def _largest(one: object, other: object) -> object:
    return max(one, other) if isinstance(one, int) and isinstance(other, int) else one


def _second(_: object, other: object) -> object:
    """The operator's value."""
    return other


def _at_least(least: int) -> Callable[[object], str | None]:
    def check(value: object) -> str | None:
        if isinstance(value, int) and not isinstance(value, bool) and least <= value <= _LARGEST:
            return None
        return f"an integer from {least} to {_LARGEST}"

    return check


def _one_of(*values: object) -> Callable[[object], str | None]:
    def check(value: object) -> str | None:
        if not isinstance(value, bool) and value in values:
            return None
        return "one of " + ", ".join(str(allowed) for allowed in values)

    return check


def _text(value: object) -> str | None:
    return None if isinstance(value, str) else "a string"


def _age(value: object) -> str | None:
    return (
        None
        if isinstance(value, str) and _MAX_AGE.fullmatch(value)
        else "a number and a unit out of Y M D h m s"
    )


def _anything(_: object) -> str | None:
    return None


@dataclass(frozen=True, slots=True)
class _Key:
    """One key of a definition: `expects` says what a wrong value should be; `kinds` of queues have it."""

    expects: Callable[[object], str | None]
    kinds: tuple[str, ...] = (CLASSIC, QUORUM, STREAM)
    merge: Merge = _second
    for_operators: bool = False


_MESSAGES: Final = (CLASSIC, QUORUM)

_KEYS: Final[Mapping[str, _Key]] = {
    "message-ttl": _Key(_at_least(0), _MESSAGES, _strictest, for_operators=True),
    "expires": _Key(_at_least(1), _MESSAGES, _strictest, for_operators=True),
    "max-length": _Key(_at_least(0), _MESSAGES, _strictest, for_operators=True),
    "max-length-bytes": _Key(_at_least(0), merge=_strictest, for_operators=True),
    "overflow": _Key(
        _one_of("drop-head", "reject-publish", "reject-publish-dlx"), _MESSAGES, for_operators=True
    ),
    "dead-letter-exchange": _Key(_text, _MESSAGES),
    "dead-letter-routing-key": _Key(_text, _MESSAGES),
    "dead-letter-strategy": _Key(_one_of("at-most-once", "at-least-once"), (QUORUM,)),
    "delivery-limit": _Key(_at_least(-1), _MESSAGES, _strictest_with_none, for_operators=True),
    "lease-expires": _Key(_at_least(1), _MESSAGES, _strictest, for_operators=True),
    "alternate-exchange": _Key(_text),
    "consumer-timeout": _Key(_at_least(1)),
    "queue-mode": _Key(_one_of("default", "lazy"), (CLASSIC,)),
    "queue-version": _Key(_one_of(1, 2), (CLASSIC,)),
    "queue-leader-locator": _Key(_one_of("client-local", "balanced", "random", "least-leaders")),
    "queue-master-locator": _Key(_one_of("client-local", "min-masters", "random"), (CLASSIC,)),
    "max-in-memory-length": _Key(_at_least(0), _MESSAGES, _strictest, for_operators=True),
    "max-in-memory-bytes": _Key(_at_least(0), _MESSAGES, _strictest, for_operators=True),
    "target-group-size": _Key(_at_least(1), (QUORUM,), _largest, for_operators=True),
    "max-age": _Key(_age, (STREAM,)),
    "stream-max-segment-size-bytes": _Key(_at_least(0), (STREAM,)),
    "stream-filter-size-bytes": _Key(_at_least(0), (STREAM,)),
    "initial-cluster-size": _Key(_at_least(0), (STREAM,)),
    # Mirrors and federation of RabbitMQ: accepted, so that its definitions can be imported, without effect.
    "ha-mode": _Key(_one_of("all", "exactly", "nodes"), (CLASSIC,)),
    "ha-params": _Key(_anything, (CLASSIC,)),
    "ha-sync-mode": _Key(_one_of("automatic", "manual"), (CLASSIC,)),
    "ha-sync-batch-size": _Key(_at_least(1), (CLASSIC,)),
    "ha-promote-on-shutdown": _Key(_one_of("always", "when-synced"), (CLASSIC,)),
    "ha-promote-on-failure": _Key(_one_of("always", "when-synced"), (CLASSIC,)),
    "federation-upstream": _Key(_anything),
    "federation-upstream-set": _Key(_anything),
    "federation-upstream-pattern": _Key(_anything),
}


class PolicyError(ValueError):
    """A policy that cannot be. `part` is where: "pattern", "apply-to", "definition.message-ttl" and so on."""

    def __init__(self, part: str, text: str) -> None:
        super().__init__(f"{part}: {text}")
        self.part = part
        self.text = text


def check_policy(
    pattern: object, apply_to: object, priority: object, definition: object, *, operator: bool = False
) -> None:
    """Raises PolicyError where these cannot make a policy (with `operator`: an operator policy)."""
    if not isinstance(pattern, str):
        raise PolicyError("pattern", f"{pattern!r} is not a string")
    try:
        NamePattern(pattern)
    except PatternError as error:
        raise PolicyError("pattern", str(error)) from None
    if not isinstance(apply_to, str) or apply_to not in _APPLY_TO:
        raise PolicyError("apply-to", f"{apply_to!r} must be one of {', '.join(_APPLY_TO)}")
    if not isinstance(priority, int) or isinstance(priority, bool):
        raise PolicyError("priority", f"{priority!r} is not an integer")
    if not isinstance(definition, Mapping):
        raise PolicyError("definition", f"{definition!r} is not an object")
    if not definition:
        raise PolicyError("definition", "it is empty; delete the policy instead")
    for key, value in definition.items():
        _check_key(str(key), value, operator)


def _check_key(key: str, value: object, operator: bool) -> None:
    part = f"definition.{key}"
    keys = [name for name, known in _KEYS.items() if known.for_operators or not operator]
    if key not in keys:
        close = get_close_matches(key, keys, 1)
        hint = f"did you mean {close[0]}?" if close else f"these are: {', '.join(keys)}"
        raise PolicyError(
            part, f"is nothing that {'an operator policy' if operator else 'a policy'} sets; {hint}"
        )
    expected = _KEYS[key].expects(value)
    if expected is not None:
        raise PolicyError(part, f"{value!r} must be {expected}")


def effective_policies(
    metadata: Metadata, vhost: str, kind: str, name: str
) -> tuple[Mapping[str, object] | None, Mapping[str, object] | None]:
    """The definitions of the policy and of the operator policy that apply to a queue or exchange; None:
    none does.

    `kind` is one of KINDS. The answer stays the same until the metadata's `policy_generation` changes.
    """
    policy, operator_policy = matching_policies(metadata, vhost, kind, name)
    return policy.definition if policy else None, operator_policy.definition if operator_policy else None


def matching_policies(
    metadata: Metadata, vhost: str, kind: str, name: str
) -> tuple[Policy | None, Policy | None]:
    """The policy and the operator policy themselves, as `effective_policies`."""
    return (
        _first_match(metadata.policies(vhost), kind, name),
        _first_match(metadata.operator_policies(vhost), kind, name),
    )


def merged_definition(
    definition: Mapping[str, object] | None, operator_definition: Mapping[str, object] | None
) -> dict[str, object]:
    """Both definitions as one: the stricter limit, and the operator's value of whatever else both set."""
    merged = dict(definition or {})
    for key, value in (operator_definition or {}).items():
        known = _KEYS.get(key)
        merged[key] = known.merge(merged[key], value) if known and key in merged else value
    return merged


def _first_match(policies: list[Policy], kind: str, name: str) -> Policy | None:
    fitting = [policy for policy in policies if _fits_kind(policy, kind)]
    for policy in sorted(fitting, key=lambda policy: (-policy.priority, policy.name)):
        if _compiled(policy.pattern).matches(name):
            return policy
    return None


def _fits_kind(policy: Policy, kind: str) -> bool:
    """Whether a policy admits this kind and sets nothing that it lacks (exchanges ignore what they lack)."""
    if kind not in _APPLY_TO.get(policy.apply_to, ()):
        return False
    return kind == EXCHANGES or all(key not in _KEYS or kind in _KEYS[key].kinds for key in policy.definition)


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> NamePattern:
    return NamePattern(pattern)

"""Policies: which one applies to a queue or an exchange, what it sets there, and which are valid at all.

RabbitMQ's rules: of the policies of a vhost that match a name, the one with the highest priority applies,
whole and alone; so it is with operator policies. A policy that sets something a queue's type does not
have (QueueType.policy_keys) does not apply to it. What both mean together with a queue's own arguments is
for queues/arguments.py to say.

Invariant: the outcome depends on the policies and the name, not on the order in which policies were made:
of two with equal priority, the one whose name sorts first applies.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from amqp_broker.auth.patterns import NamePattern, PatternError
from amqp_broker.metadata.entities import Policy
from amqp_broker.metadata.metadata import Metadata
from amqp_broker.queue_types.contract.policy_keys import KEYS, OF_NO_QUEUE, PolicyKey
from amqp_broker.queue_types.register import QUEUE_TYPES

EXCHANGES: Final = "exchanges"


def _queue_kinds() -> dict[str, Mapping[str, PolicyKey]]:
    """The kinds of queues in the words of apply-to, with what can be set on them."""
    return {each.policy_kind: each.policy_keys for each in QUEUE_TYPES.values()}


def targets() -> dict[str, tuple[str, ...]]:
    """What apply-to may be, and the kinds that it means."""
    queues = tuple(_queue_kinds())
    return {"all": (*queues, EXCHANGES), "queues": queues, **{kind: (kind,) for kind in (*queues, EXCHANGES)}}


def _known_keys() -> dict[str, PolicyKey]:
    known = dict(KEYS)
    for queue_type in QUEUE_TYPES.values():
        known |= {key: value for key, value in queue_type.policy_keys.items() if key not in known}
    return known


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
    if not isinstance(apply_to, str) or apply_to not in targets():
        raise PolicyError("apply-to", f"{apply_to!r} must be one of {', '.join(targets())}")
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
    allowed = {name: known for name, known in _known_keys().items() if known.for_operators or not operator}
    if key not in allowed:
        from difflib import get_close_matches  # only for the sake of an error message

        close = get_close_matches(key, list(allowed), 1)
        hint = f"did you mean {close[0]}?" if close else f"these are: {', '.join(allowed)}"
        raise PolicyError(
            part, f"is nothing that {'an operator policy' if operator else 'a policy'} sets; {hint}"
        )
    expected = allowed[key].expects(value)
    if expected is not None:
        raise PolicyError(part, f"{value!r} must be {expected}")


def keys_without_effect(definition: Mapping[str, object], apply_to: str = "all") -> list[str]:
    """What a valid policy sets that does nothing here, or nothing on some of the kinds of queues that it is for, each
    in a sentence that says what does instead."""
    known, meant, texts = _known_keys(), targets()[apply_to], []
    for key in definition:
        whys = {kind: had[key].no_effect for kind, had in _queue_kinds().items() if kind in meant and key in had}
        idle = [kind for kind, why in whys.items() if why]
        if known[key].no_effect:
            texts.append(f"definition.{key} has no effect here: {known[key].no_effect}")
        elif idle:
            where = "here" if len(idle) == len(whys) else f"on {' and '.join(idle)} here"
            texts.append(f"definition.{key} has no effect {where}: {'; '.join(whys[kind] for kind in idle)}")
    return texts


def effective_policies(
    metadata: Metadata, vhost: str, kind: str, name: str
) -> tuple[Mapping[str, object] | None, Mapping[str, object] | None]:
    """The definitions of the policy and of the operator policy that apply to a queue or exchange; None:
    none does.

    `kind` is one of `kinds()`. The answer stays the same until the metadata's `policy_generation` changes.
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


def would_apply(metadata: Metadata, policy: Policy, kind: str, name: str, *, operator: bool) -> tuple[bool, bool]:
    """Whether a policy, if it were set, would match a queue or exchange; and whether it would be the one that applies,
    in the place of one of its name."""
    if _first_match([policy], kind, name) is None:
        return False, False
    present = metadata.operator_policies(policy.vhost) if operator else metadata.policies(policy.vhost)
    before = [each for each in present if each.name != policy.name and _rank(each) < _rank(policy)]
    return True, _first_match(before, kind, name) is None


def _first_match(policies: list[Policy], kind: str, name: str) -> Policy | None:
    if not policies:
        return None
    had = _queue_kinds().get(kind)
    fitting = [policy for policy in policies if _is_meant(policy, kind) and (had is None or _fits(policy, had))]
    for policy in sorted(fitting, key=_rank):
        if _compiled(policy.pattern).matches(name):
            return policy
    return None


def _rank(policy: Policy) -> tuple[int, str]:
    """Of two that match, the lower one applies."""
    return -policy.priority, policy.name


def _is_meant(policy: Policy, kind: str) -> bool:
    return policy.apply_to in ("all", kind) or (policy.apply_to == "queues" and kind != EXCHANGES)


def _fits(policy: Policy, had: Mapping[str, PolicyKey]) -> bool:
    """Whether a policy sets nothing that a kind of queue lacks (exchanges pass over what they lack)."""
    return all(key in had or key in OF_NO_QUEUE or key not in _known_keys() for key in policy.definition)


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> NamePattern:
    return NamePattern(pattern)

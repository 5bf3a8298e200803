"""Configuration: who belongs to a group. Voters make its majorities; learners receive the log and count for
nothing yet.

An entry of kind MEMBERSHIP holds a whole configuration, not a difference, and counts from when it is in the log,
committed or not (Raft thesis, section 4.1). Two that follow each other differ in one voter at most, so that their
majorities overlap.
"""

from __future__ import annotations

from typing import NamedTuple

_VERSION = 1
_MAX_NAMES = 255


class Configuration(NamedTuple):
    """Names in ascending order. Nobody is both."""

    voters: tuple[str, ...] = ()
    learners: tuple[str, ...] = ()

    @property
    def majority(self) -> int:
        """How many voters decide."""
        return len(self.voters) // 2 + 1

    @property
    def everybody(self) -> tuple[str, ...]:
        return tuple(sorted(self.voters + self.learners))

    def with_learner(self, name: str) -> Configuration:
        return Configuration(self.voters, tuple(sorted({*self.learners, name})))

    def with_voter(self, name: str) -> Configuration:
        learners = tuple(each for each in self.learners if each != name)
        return Configuration(tuple(sorted({*self.voters, name})), learners)

    def without(self, name: str) -> Configuration:
        return Configuration(
            tuple(each for each in self.voters if each != name),
            tuple(each for each in self.learners if each != name),
        )

    def encode(self) -> bytes:
        """u8 version; twice u8 count and so many names of u8 length and UTF-8."""
        pieces = [bytes([_VERSION])]
        for names in (self.voters, self.learners):
            pieces.append(bytes([len(names)]))
            for name in names:
                octets = encode_name(name)
                pieces.append(bytes([len(octets)]) + octets)
        return b"".join(pieces)


def encode_name(name: str) -> bytes:
    """The octets of a node's name. Raises ValueError for one that is empty or too long."""
    octets = name.encode()
    if not 0 < len(octets) <= 255:
        raise ValueError(f"the node name {name!r} has {len(octets)} octets: 1 to 255 are allowed")
    return octets


def make_configuration(voters: list[str] | tuple[str, ...], learners: tuple[str, ...] = ()) -> Configuration:
    """A checked configuration of these names, in any order. Raises ValueError."""
    everybody = [*voters, *learners]
    for name in everybody:
        encode_name(name)
    if len(set(everybody)) != len(everybody):
        raise ValueError(f"a name is there twice among the members {everybody}")
    if len(voters) > _MAX_NAMES or len(learners) > _MAX_NAMES:
        raise ValueError(f"{len(everybody)} members: at most {_MAX_NAMES} of a sort are allowed")
    return Configuration(tuple(sorted(voters)), tuple(sorted(learners)))


def decode_configuration(octets: bytes) -> Configuration:
    """The configuration that `encode` has made. Raises ValueError for anything else."""
    if not octets or octets[0] != _VERSION:
        raise ValueError("no configuration, or one in a version that this program does not know")
    position = 1
    groups: list[tuple[str, ...]] = []
    for _ in range(2):
        names = []
        if position >= len(octets):
            raise ValueError("the configuration is cut short")
        count = octets[position]
        position += 1
        for _ in range(count):
            if position >= len(octets) or position + 1 + octets[position] > len(octets):
                raise ValueError("the configuration is cut short")
            end = position + 1 + octets[position]
            names.append(octets[position + 1 : end].decode())
            position = end
        groups.append(tuple(names))
    if position != len(octets):
        raise ValueError(f"{len(octets) - position} octets too many behind the configuration")
    configuration = make_configuration(groups[0], groups[1])
    if (configuration.voters, configuration.learners) != (groups[0], groups[1]):
        raise ValueError("the names of the configuration are not in order")
    return configuration

"""Murmur3, 32 bits: by which a key chooses a partition, as in RabbitMQ's clients."""

from __future__ import annotations

from amqp_broker.octets.buffer import Pointer

#: Of RabbitMQ's clients for super streams.
SEED = 104_729
_SEED = SEED
_MASK = 0xFFFFFFFF
_C1, _C2 = 0xCC9E2D51, 0x1B873593


def murmur3(key: bytes, seed: int) -> int:
    """The hash of these octets, from 0 to 2^32 - 1."""
    octets: Pointer = key
    size = len(key)
    whole = size & ~3
    found = seed
    for at in range(0, whole, 4):
        part = octets[at] | octets[at + 1] << 8 | octets[at + 2] << 16 | octets[at + 3] << 24
        part = part * _C1 & _MASK
        part = (part << 15 | part >> 17) & _MASK
        found ^= part * _C2 & _MASK
        found = (found << 13 | found >> 19) & _MASK
        found = (found * 5 + 0xE6546B64) & _MASK
    if whole < size:
        part = 0
        for at in range(size - 1, whole - 1, -1):
            part = (part << 8 | octets[at]) & _MASK
        part = part * _C1 & _MASK
        part = (part << 15 | part >> 17) & _MASK
        found ^= part * _C2 & _MASK
    found ^= size & _MASK
    found ^= found >> 16
    found = found * 0x85EBCA6B & _MASK
    found ^= found >> 13
    found = found * 0xC2B2AE35 & _MASK
    return found ^ found >> 16


def partition_of(key: bytes, partitions: int) -> int:
    """Which of so many partitions a key belongs to."""
    return murmur3(key, _SEED) % partitions

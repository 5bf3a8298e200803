"""Topic exchange (AMQP 0-9-1 §3.1.3.3): patterns of words, `*` for one word and `#` for any number of them.

The patterns make a trie; a routing key walks it as a nondeterministic automaton whose states are nodes. It
reads no header.

A key is cut at dots: "" has no word, "." has two empty ones. In a routing key `*` and `#` are words like any
other.

Invariants:
1. A node is visited once per word at most, so that matching costs at most nodes times words, even for
   #.a.#.a.#.a.
2. Every node but the root leads to a destination: what a removed pattern leaves behind is pruned.
3. `Node.stamp` equals the exchange's `_stamp` only for the nodes that are active at the word being read.
"""

from __future__ import annotations

from collections.abc import Mapping

from exchanges.bindings import Binding, Destination, Identity
from exchanges.exchange import Exchange, MessageFacts


def split_words(key: str) -> list[str]:
    """The words of a routing key or a pattern."""
    return key.split(".") if key else []


class Node:
    """A place in the trie: reached by the words before it, `repeats` where the last of them is `#`."""

    __slots__ = ("children", "destinations", "hash", "repeats", "stamp", "star")

    def __init__(self, repeats: bool) -> None:
        self.children: dict[str, Node] = {}
        self.star: Node | None = None
        self.hash: Node | None = None
        self.destinations: dict[Destination, int] = {}
        self.repeats = repeats
        self.stamp = 0

    def is_empty(self) -> bool:
        return not self.children and self.star is None and self.hash is None and not self.destinations

    def child(self, word: str) -> Node | None:
        """The node behind one word of a pattern, if it is there."""
        if word == "*":
            return self.star
        if word == "#":
            return self.hash
        return self.children.get(word)

    def add_child(self, word: str) -> Node:
        """A new node behind one word of a pattern."""
        node = Node(word == "#")
        if word == "*":
            self.star = node
        elif word == "#":
            self.hash = node
        else:
            self.children[word] = node
        return node

    def drop_child(self, word: str) -> None:
        if word == "*":
            self.star = None
        elif word == "#":
            self.hash = None
        else:
            del self.children[word]


class TopicExchange(Exchange):
    """`node_count` is the size of the trie, `visited` how many nodes all matches together have looked at."""

    type_name = "topic"

    def __init__(self, arguments: Mapping[str, object]) -> None:
        super().__init__(arguments)
        self._root = Node(False)
        self._stamp = 0
        self.node_count = 1
        self.visited = 0

    def matches(self, routing_key: str, facts: MessageFacts | None) -> list[Destination]:
        active: list[Node] = []
        self._stamp += 1
        self._enter(self._root, active)
        for word in split_words(routing_key):
            following: list[Node] = []
            self._stamp += 1
            for node in active:
                child = node.children.get(word)
                if child is not None:
                    self._enter(child, following)
                if node.star is not None:
                    self._enter(node.star, following)
                if node.repeats:
                    self._enter(node, following)
            self.visited += len(active)
            if not following:
                return []
            active = following
        self.visited += len(active)
        return self._destinations_of(active)

    def only_key(self, binding_key: str) -> str | None:
        words = split_words(binding_key)
        return None if "*" in words or "#" in words else binding_key

    def _enter(self, node: Node, active: list[Node]) -> None:
        """Make a node active, and those that `#` reaches from it without a word."""
        reached: Node | None = node
        while reached is not None and reached.stamp != self._stamp:
            reached.stamp = self._stamp
            active.append(reached)
            reached = reached.hash

    def _destinations_of(self, active: list[Node]) -> list[Destination]:
        """Each destination of the given nodes once."""
        found: dict[Destination, int] | None = None
        is_shared = True
        for node in active:
            if not node.destinations:
                continue
            if found is None:
                found = node.destinations
            else:
                if is_shared:
                    found = dict(found)
                    is_shared = False
                found.update(node.destinations)
        return [] if found is None else list(found)

    def _link(self, binding: Binding, key: Identity) -> None:
        node = self._root
        for word in split_words(binding.binding_key):
            child = node.child(word)
            if child is None:
                child = node.add_child(word)
                self.node_count += 1
            node = child
        node.destinations[binding.destination] = node.destinations.get(binding.destination, 0) + 1

    def _unlink(self, binding: Binding, key: Identity) -> None:
        words = split_words(binding.binding_key)
        path = [self._root]
        for word in words:
            child = path[-1].child(word)
            if child is None:
                raise LookupError(f"pattern {binding.binding_key!r} is bound but not in the trie")
            path.append(child)
        destinations = path[-1].destinations
        destinations[binding.destination] -= 1
        if not destinations[binding.destination]:
            del destinations[binding.destination]
        while words and path[-1].is_empty():
            path.pop()
            path[-1].drop_child(words.pop())
            self.node_count -= 1

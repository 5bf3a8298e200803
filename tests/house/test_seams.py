"""The seams of the house: who sets whose attributes, who reaches into whom, and what has no type.

An attribute is set by the object that has it, by what is in the same file, and by who has just made the object.
Others call a method, which says what it means. Exceptions are named, each with why: records to all (RECORDS), and
records to their own room, as a channel is to what handles its methods (RECORDS_OF_ROOM). Which class an object is of is
read off annotations, constructors and assignments; of what says nothing, it is enough that a class which may be set so
has an attribute of this name.

The packages beside amqp_broker are kernels: what a folder of theirs has its files set among themselves, as a queue sets
the links and places of messages and pages, because a call for each of these would cost the messages too much. What one
folder sets of another's is looked at as in amqp_broker: RECORDS, and records to the kernels (RECORDS_OF_KERNELS); who
makes an object anew out of what was stored of it (MAKERS) sets all that it consists of.

What is used is given to who uses it: nobody takes a part out of a part of a part, nor out of what a call gave; a name
for what lies between makes no difference. Chains through an index are not seen. A record is no part, and what it holds
stands as near as itself: what says of itself that it does nothing and does not change (a frozen dataclass, a
NamedTuple, an enum), a value of Python's, and the bundles of parts that handlers (Services) and types of queues
(TypeHost) are given. To look at what a list or a dictionary of another has is to look at that other; to change it is
for its owner. Which class something is of is read off annotations, properties and what methods set; what says nothing
of it is taken for a part.
"""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.house.rooms import room_of
from tests.house.sources import text_of, tree_of
from tests.house.test_imports import modules

#: A name of the type Any; what stands in quotes is another one's.
_ANY = re.compile(r"(?<![\w\"'.])Any(?![\w\"'])")
#: What channels and virtual hosts use of queues: the calls between them are checked.
QUEUE_SEAM = ("queues.consumer", "queues.declaration", "queues.queue", "queues.receipts", "queues.write_group")
#: Why a place in amqp_broker, or in QUEUE_SEAM, has a value of whatever type, and how many there are for that: its
#: comment begins with the kind, `# KIND: ...`. May only fall: a class that is known is named, or what is asked of it is
#: a Protocol.
MOST_ANY: dict[str, int] = {
    "JSON": 5,  # what json.loads gives
    "declared": 2,  # of the class that a declaration beside it says: a domain of AMQP, the kind of a setting
    "field values": 1,  # a table of AMQP, with values of all its kinds
    "held": 3,  # whatever somebody has in a container
    "own class": 7,  # each entry of a table has another, of which who finds it there knows as much as he needs
    "pointer": 1,  # of C, where it is compiled
    "result": 2,  # of steps: who writes them knows it
    "untyped": 4,  # as a library has it that has no types
}
#: How often somebody reaches through the node into one of its parts (node.x.y). May only fall.
MOST_THROUGH_NODE = 0
#: How often somebody reaches into the parts of parts (self.a.b.c, name.a.b.c; see `deep`). May only fall.
MOST_DEEP = 0
#: How often that is done through a name for what lies between (see `aliased`). May only fall.
MOST_ALIASED = 0
#: How many fields begin as None, against their type. May only fall. They are a queue's declaration and a consumer's
#: queue: who makes one of them has it to himself until it has that.
MOST_LATE = 2
_LATE = re.compile(r"= None  # type: ignore|cast\([^()]*, None\)")


def any_in(text: str) -> Iterator[tuple[int, str]]:
    """The lines with an Any in an annotation or an alias, and of what kind they say that it is, "" for none."""
    for number, line in enumerate(text.splitlines(), 1):
        code, _, comment = line.partition("#")
        if not code.lstrip().startswith(("import ", "from ")) and _ANY.search(code):
            kind, colon, _ = comment.partition(":")
            yield number, kind.strip() if colon else ""


def _own() -> list[tuple[str, Path]]:
    return [(module, path) for module, path in modules() if module.startswith("amqp_broker")]


def _seamed() -> list[tuple[str, Path]]:
    """What is amqp_broker's, and what that uses of queues."""
    found = [*_own(), *[(module, path) for module, path in modules() if module in QUEUE_SEAM]]
    assert len(found) == len(_own()) + len(QUEUE_SEAM), "one of them has another name"
    return found


def test_what_is_of_any_type_says_why() -> None:
    found = [(f"{module}:{number}", kind) for module, path in _seamed() for number, kind in any_in(text_of(path))]
    silent = [where for where, kind in found if kind not in MOST_ANY]
    assert not silent, f"name the type, or say on the line of which kind it is, {', '.join(MOST_ANY)}: {silent}"
    counts = Counter(kind for _, kind in found)
    more = {kind: count for kind, count in counts.items() if count > MOST_ANY[kind]}
    assert not more, f"so many places have a value of any type, and there were fewer: {more}, of {found}"


#: Records: plain state, which others set. Messages, and where consumers stand, on hot paths: a message costs some 2,900
#: instructions, and a call for each of its fields would be some hundreds more.
RECORDS: dict[str, str] = {
    "queues.sums.QueueSums": "counts, to which adds who counts",
    "queues.message.Delivery": "a message that is handed over: filled by the queue that makes it",
    "queues.consumer.Consumer": "its queue, and its place in that queue's line, are the queue's to set",
    "queues.consumer.Subscriber": "the same, as queues see it that ask for more",
}
#: Records to their own room, and only there: what is at hand is in several files, a noun each.
RECORDS_OF_ROOM: dict[str, str] = {
    "amqp_broker.bench.loops.Control": "what all loops of a load look at",
    "amqp_broker.channel.channel.Channel": "where a channel is: handlers stand in a file for each class of methods",
    "amqp_broker.client.consumer.Consumer": "what the channel was told of it",
    "amqp_broker.connection.connection.Connection": "where a connection is: handshake, control and heartbeat change it",
    "amqp_broker.flow.client.Client": "why it is paused is for Pauses to say, which is asked at each message",
    "amqp_broker.links.acquaintance.Acquaintance": "what Acquaintances knows of a member",
    "amqp_broker.metadata.vhost_state.VHostState": "what Metadata knows of a virtual host",
    "amqp_broker.moving.mover.Progress": "how far a move is, which its other thread reads",
    "amqp_broker.queue_types.proxy.consumer.ProxyConsumer": "a consumer as a log elsewhere has it",
    "amqp_broker.queue_types.proxy.consumer.ProxyDelivery": "see Delivery",
    "amqp_broker.queue_types.stream.reader.StreamReader": "where a reader is, and whether it is in its queue's line",
    "amqp_broker.routing.routes.HeaderRoutes": "what a virtual host remembers of an address",
    "amqp_broker.routing.routes.PublishRoute": "the same, looked at for each message",
    "amqp_broker.routing.routes.RouteTable": "the same, of a user",
    "amqp_broker.server.driver.Driver": "what was received last, in plain mode",
}
#: Records to all folders of the packages beside amqp_broker, on hot paths too.
RECORDS_OF_KERNELS: dict[str, str] = {
    "amqp_broker.octets.buffer.Buffer": "what writes octets as they are on the wire counts them itself",
    "queues.message.Entry": "a message in its queue: where it lies",
    "queues.message.Message": "what is put together octet by octet has its size from who does so",
    "queues.page.Page": "octets, and where they lie: who stores and drops pages counts them in the same breath",
    "queues.pager.Pager": "what is in RAM, counted by who puts it there",
}
#: Modules that make what another folder has, out of an image of it.
MAKERS: dict[str, str] = {
    "queues.quorum.image_reader": "queues, with consumers, leases and messages, as a checkpoint has them",
    "queues.quorum.leases": "the leases of a queue, which it has from the first one on",
}
#: What is no object of ours, though it has an attribute of such a name.
OF_OTHERS = frozenset({"app.router.default"})


class _Class(NamedTuple):
    """Where a class is, and the attributes that it has itself."""

    module: str
    bases: tuple[str, ...]
    attributes: frozenset[str]


def _attributes(of: ast.ClassDef) -> Iterator[str]:
    for each in ast.walk(of):
        if isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store) and ast.unparse(each.value) == "self":
            yield each.attr
    for line in of.body:
        targets = [line.target] if isinstance(line, ast.AnnAssign) else getattr(line, "targets", [])
        yield from (target.id for target in targets if isinstance(target, ast.Name))


@cache
def _classes() -> dict[str, list[_Class]]:
    """By their names."""
    found: dict[str, list[_Class]] = defaultdict(list)
    for module, path in modules():
        for each in ast.walk(tree_of(path)):
            if isinstance(each, ast.ClassDef):
                bases = tuple(ast.unparse(base).rpartition(".")[2] for base in each.bases)
                found[each.name].append(_Class(module, bases, frozenset(_attributes(each))))
    return found


@cache
def _having(attribute: str) -> frozenset[str]:
    """The classes that have an attribute of this name themselves."""
    return frozenset(
        name for name, classes in _classes().items() if any(attribute in each.attributes for each in classes)
    )


def _lineage(name: str) -> set[str]:
    """A class, and those that it is made from; nothing where there is none of this name."""
    found = {name} if name in _classes() else set()
    for each in _classes().get(name, ()):
        found.update(*[_lineage(base) for base in each.bases if base != name])
    return found


_Function = ast.FunctionDef | ast.AsyncFunctionDef


def _inside(of: ast.AST) -> Iterator[ast.AST]:
    """What a function does itself; a function or a class that is defined in it stands for itself."""
    for each in ast.iter_child_nodes(of):
        if not isinstance(each, _Function | ast.ClassDef):
            yield each
            yield from _inside(each)


def _functions(tree: ast.AST, around: dict[str, str]) -> Iterator[tuple[_Function, dict[str, str], set[str]]]:
    """Every function, with the classes of its names as far as they are known, and those names that it has made
    itself."""
    for each in ast.iter_child_nodes(tree):
        if isinstance(each, ast.ClassDef):
            yield from _functions(each, {"self": each.name})
        elif isinstance(each, _Function):
            known, made = _names_of(each, around)
            yield each, known, made
            yield from _functions(each, known)
        else:
            yield from _functions(each, around)


def _names_of(function: _Function, around: dict[str, str]) -> tuple[dict[str, str], set[str]]:
    """See _functions. A name that is sometimes made and sometimes found is found."""
    of = {**around, **{name: kind for name, kind in _parameters(function).items() if name != "self"}}
    made, found = set(), set()
    for each in _inside(function):
        if not isinstance(each, ast.Assign | ast.AnnAssign) or each.value is None:
            continue
        is_made = isinstance(each.value, ast.Call) and _type_name(each.value) in (*_classes(), "__new__")
        kind = _type_name(each.value) if is_made else _known().resolved(_type_name(each.value, of))
        if isinstance(each, ast.AnnAssign):
            kind = _type_name(each.annotation)
        for target in each.targets if isinstance(each, ast.Assign) else [each.target]:
            if isinstance(target, ast.Name):
                (made if is_made else found).add(target.id)
                of[target.id] = kind or of.get(target.id, "")
    return of, made - found


def set_from_outside(tree: ast.AST) -> Iterator[tuple[int, str, str, str]]:
    """The attributes that a function sets of something else than itself, and than what it has made: line, of what,
    which, and the class of what it is of, "" where nothing says so."""
    for function, of, made in _functions(tree, {}):
        for each in _inside(function):
            if isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store):
                owner = ast.unparse(each.value)
                if owner not in ("self", "cls", *made):
                    yield each.lineno, owner, each.attr, _known().resolved(_type_name(each.value, of))


def _may_set(module: str, attribute: str, of: str) -> bool:
    """Whether a module may set this of an object of the class `of`: it is a class of its own, or a record. Where the
    class is not known, whether one that has such an attribute is; what no class of ours has is none of ours."""
    having = _having(attribute)
    candidates = having & _lineage(of) or having
    homes = [(name, each.module) for name in candidates for each in _classes()[name] if attribute in each.attributes]
    return not homes or any(
        home == module
        or f"{home}.{name}" in RECORDS
        or (f"{home}.{name}" in RECORDS_OF_ROOM and room_of(home) == room_of(module))
        for name, home in homes
    )


def _may_set_across(module: str, attribute: str, of: str) -> bool:
    """The same of a module of the kernels: it is in the same folder, a record, or it makes the object."""
    having = _having(attribute)
    candidates = having & _lineage(of) or having
    homes = [(name, each.module) for name in candidates for each in _classes()[name] if attribute in each.attributes]
    return module in MAKERS or not homes or any(
        _folder_of(home) == _folder_of(module) or f"{home}.{name}" in (*RECORDS, *RECORDS_OF_KERNELS)
        for name, home in homes
    )


def _folder_of(module: str) -> str:
    return module.rpartition(".")[0]


def _of_kernels() -> list[tuple[str, Path]]:
    return [(module, path) for module, path in modules() if not module.startswith("amqp_broker")]


def test_the_records_are_there() -> None:
    classes = {f"{each.module}.{name}" for name, found in _classes().items() for each in found}
    assert not {*RECORDS, *RECORDS_OF_ROOM, *RECORDS_OF_KERNELS} - classes
    assert not {*MAKERS} - {module for module, _ in _of_kernels()}


def test_no_attribute_is_set_from_outside() -> None:
    found = [
        f"{module}:{line} sets {owner}.{name}" + (f" of {of}" if of else "")
        for module, path in _own()
        for line, owner, name, of in set_from_outside(tree_of(path))
        if f"{owner}.{name}" not in OF_OTHERS and not _may_set(module, name, of)
    ]
    assert not found, "give it a method that says what it means:\n" + "\n".join(sorted(found))


def test_no_folder_of_the_kernels_sets_what_another_has() -> None:
    found = [
        f"{module}:{line} sets {owner}.{name}" + (f" of {of}" if of else "")
        for module, path in _of_kernels()
        for line, owner, name, of in set_from_outside(tree_of(path))
        if not _may_set_across(module, name, of)
    ]
    assert not found, "give it a method that says what it means:\n" + "\n".join(sorted(found))


def chains(tree: ast.AST) -> Iterator[tuple[int, list[str]]]:
    """The names that are joined by dots, each chain once. What is called in it has "()" behind its name: a.b().c."""
    inner = {each.value for each in ast.walk(tree) if isinstance(each, ast.Attribute)}
    for each in ast.walk(tree):
        if isinstance(each, ast.Attribute) and each not in inner:
            names: list[str] = []
            part: ast.expr = each
            called = ""
            while isinstance(part, ast.Attribute | ast.Call):
                if isinstance(part, ast.Attribute):
                    names.append(part.attr + called)
                called = "()" if isinstance(part, ast.Call) else ""
                part = part.func if isinstance(part, ast.Call) else part.value
            if isinstance(part, ast.Name) and not called:
                yield each.lineno, [part.id, *reversed(names)]


#: What types of queues are given of a node, in one bundle, as handlers are given Services.
_BUNDLES = ("TypeHost", "ClassicHost", "GroupedHost", "StreamHost")


def _is_record(of: ast.ClassDef) -> bool:
    """What holds others and does nothing itself: a frozen dataclass, a NamedTuple, an enum, or a bundle of parts."""
    frozen = any("dataclass(" in (text := ast.unparse(each)) and "frozen=True" in text for each in of.decorator_list)
    bases = {ast.unparse(each).rpartition(".")[2] for each in of.bases}
    is_bundle = of.name.endswith("Services") or of.name in _BUNDLES
    return frozen or is_bundle or bool(bases & {"NamedTuple", "IntEnum", "Enum"})


def _type_name(of: ast.expr | None, given: dict[str, str] | None = None) -> str:
    """The class that an annotation or a value names: of `X | None`, `X` and `X(...)` it is X, of a parameter (`given`)
    its own, and of a field of that "Class.field"; else ""."""
    if isinstance(of, ast.BinOp):
        return _type_name(of.left, given)
    if isinstance(of, ast.Subscript):
        name = ast.unparse(of.value)
        return name if name in _CONTAINERS else ""
    if isinstance(of, ast.Constant):
        return of.value.partition(" ")[0] if given is None and isinstance(of.value, str) else type(of.value).__name__
    if isinstance(of, ast.Call):
        of = of.func
    elif given is not None and isinstance(of, ast.Name):
        return given.get(of.id, "")
    elif given is not None and isinstance(of, ast.Attribute):
        inner = _type_name(of.value, given)
        return f"{inner}.{of.attr}" if inner else ""
    return ast.unparse(of).rpartition(".")[2] if isinstance(of, ast.Name | ast.Attribute) else ""


def _parameters(of: _Function) -> dict[str, str]:
    return {each.arg: _type_name(each.annotation) for each in (*of.args.args, *of.args.kwonlyargs)}


def _assigned(method: _Function) -> Iterator[tuple[str, str]]:
    """The fields that a method sets, with their classes."""
    given = _parameters(method)
    for line in ast.walk(method):
        if isinstance(line, ast.Assign):
            targets, of = line.targets, _type_name(line.value, given)
        elif isinstance(line, ast.AnnAssign):
            targets, of = [line.target], _type_name(line.annotation)
        else:
            continue
        for each in targets:
            if isinstance(each, ast.Attribute) and ast.unparse(each.value) == "self":
                yield each.attr, of


def _fields(of: ast.ClassDef) -> dict[str, str]:
    """The classes of an object's fields, as far as it says them: by an annotation, or as its constructor, or where
    that does not say it another method, sets them."""
    found: dict[str, str] = {}
    later: dict[str, str] = {}
    for line in of.body:
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
            found[line.target.id] = _type_name(line.annotation)
        elif isinstance(line, ast.FunctionDef) and {"property", "cached_property"} & set(
            map(ast.unparse, line.decorator_list)
        ):
            found[line.name] = _type_name(line.returns)
        elif isinstance(line, ast.FunctionDef) and line.name == "__init__":
            found.update(_assigned(line))
        elif isinstance(line, ast.FunctionDef | ast.AsyncFunctionDef):
            found[f"{line.name}()"] = _type_name(line.returns)
            later.update((name, kind) for name, kind in _assigned(line) if kind)
    return later | {name: kind for name, kind in found.items() if kind or name not in later}


#: What Python has of its own: values, whose methods are nobody's parts.
_VALUES = ("int", "float", "str", "bytes", "bool", "NoneType")
#: Those that can be changed, and by what: to look into one is to look at who has it, to change it is for its owner.
_CONTAINERS = ("dict", "list", "set", "deque", "tuple")
_CHANGES = frozenset(
    (
        "add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popitem", "popleft", "remove",
        "reverse", "setdefault", "sort", "update",
    )
)  # fmt: skip


class _Known(NamedTuple):
    """Of all classes, by their names: their fields, their bases, and which of them are records."""

    fields: dict[str, dict[str, str]]
    bases: dict[str, list[str]]
    records: frozenset[str]

    def field(self, of: str, name: str) -> str:
        """The class of a field of a class, "" where that is not known."""
        of = self.resolved(of)
        if name in self.fields.get(of, ()):
            return self.fields[of][name]
        return next(filter(None, (self.field(base, name) for base in self.bases.get(of, ()) if base != of)), "")

    def resolved(self, of: str) -> str:
        """The class of what _type_name gives, which may be "Class.field"; "" where that is not known."""
        owner, _, field = of.rpartition(".")
        return self.field(owner, field) if owner else of

    def of_container(self, of: str) -> bool:
        """Whether it is one of Python's containers."""
        return self.resolved(of) in _CONTAINERS

    def is_record(self, of: str) -> bool:
        return self.resolved(of) in self.records


@cache
def _known() -> _Known:
    """Where several classes have one name, what any of them has; a record is what all of them are."""
    fields: dict[str, dict[str, str]] = defaultdict(dict)
    bases: dict[str, list[str]] = defaultdict(list)
    records: dict[str, bool] = dict.fromkeys(_VALUES, True)
    for _, path in modules():
        for each in ast.walk(tree_of(path)):
            if isinstance(each, ast.ClassDef):
                fields[each.name].update(_fields(each))
                bases[each.name] += [ast.unparse(base).rpartition(".")[2] for base in each.bases]
                records[each.name] = records.get(each.name, True) and _is_record(each)
    return _Known(fields, bases, frozenset(name for name, is_record in records.items() if is_record))


def _reached(names: list[str], of: str) -> int:
    """Out of so many parts a chain takes something, one after the other; `of` is the class of its first name. A record
    is no part: what it holds stands as near as itself. Whoever asks a part for something (`a.b().c`) is given that,
    and may use it: it is counted as what two dots lead to."""
    known = _known()
    parts = 0
    for name in names[1:]:
        if name.endswith("()"):
            parts, of = 1, known.field(of, name)
            continue
        parts += not (known.is_record(of) or (known.of_container(of) and name not in _CHANGES))
        of = known.field(of, name)
    return parts


#: Under this name stands what the columns of a kind show.
_SHOWN = "of its columns"


def _shown_by(of: ast.ClassDef) -> dict[str, str]:
    """Of a Kind[Thing, Seen] of the management, which is made of lambdas: what these are given."""
    bases = [base for base in of.bases if isinstance(base, ast.Subscript) and ast.unparse(base.value) == "Kind"]
    slices = [base.slice for base in bases]
    return {_SHOWN: _type_name(slices[0].elts[1])} if slices and isinstance(slices[0], ast.Tuple) else {}


def _scopes(tree: ast.AST, around: dict[str, str]) -> Iterator[tuple[ast.AST, dict[str, str]]]:
    """Every chain, with the classes of the names that it may begin with."""
    for each in ast.iter_child_nodes(tree):
        known = around
        if isinstance(each, ast.ClassDef):
            known = {**around, "self": each.name, **_shown_by(each)}
        elif isinstance(each, ast.Lambda) and _SHOWN in around:
            known = {**around, **{given.arg: around[_SHOWN] for given in each.args.args}}
        elif isinstance(each, ast.FunctionDef):
            known = {**around, **{name: of for name, of in _parameters(each).items() if name != "self"}}
        if isinstance(each, ast.Attribute):
            yield each, known
        else:
            yield from _scopes(each, known)


def _imported(tree: ast.AST) -> set[str]:
    return {
        (name.asname or name.name).partition(".")[0]
        for each in ast.walk(tree)
        if isinstance(each, ast.Import | ast.ImportFrom)
        for name in each.names
    }


def deep(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The chains of more than one dot into parts of others: self.a.b.c, and name.a.b.c of what is a name here; and out
    of what a call gives, name.a().b.c."""
    imported = _imported(tree)
    for each, known in _scopes(tree, {}):
        for line, names in chains(each):
            if names[0] not in imported and _reached(names, known.get(names[0], "")) > 2:
                yield line, ".".join(names)


def aliased(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The same, hidden by a name: `near = self.a.b`, and then near.c, is self.a.b.c. Once for each such name."""
    imported = _imported(tree)
    for function, of, _ in _functions(tree, {}):
        inside = list(_inside(function))
        aliases: dict[str, list[str]] = {}
        for each in inside:
            if isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name):
                for _, names in chains(each.value):
                    if ast.unparse(each.value) == ".".join(names) and len(names) > 2 and names[0] not in imported:
                        aliases[each.targets[0].id] = names
        for each in inside:
            for line, names in chains(each) if isinstance(each, ast.Attribute) else ():
                whole = [*aliases.get(names[0], ()), *names[1:]]
                if names[0] in aliases and _reached(whole, of.get(whole[0], "")) > 2:
                    del aliases[names[0]]
                    yield line, ".".join(whole)


def _through_node(tree: ast.AST) -> int:
    """How many chains lead through a node into its parts."""
    through = 0
    for _, names in chains(tree):
        node = next((number for number, name in enumerate(names) if name in ("node", "_node")), len(names))
        through += len(names) - node > 2 and not names[node + 1].endswith("()")  # what it is asked is its own
    return through


def test_fewer_and_fewer_reach_into_the_parts_of_others() -> None:
    through = sum(_through_node(tree_of(path)) for _, path in _own())
    assert through <= MOST_THROUGH_NODE, f"{through}: take the part itself as an argument"
    found = [f"{module}:{line} {chain}" for module, path in _own() for line, chain in deep(tree_of(path))]
    text = "take the part itself as an argument, or ask its owner:\n" + "\n".join(found)
    assert len(found) <= MOST_DEEP, f"{len(found)} chains reach into the parts of parts; there were {MOST_DEEP}; {text}"


def test_nobody_does_so_through_a_name() -> None:
    found = [f"{module}:{line} {chain}" for module, path in _own() for line, chain in aliased(tree_of(path))]
    text = "take the part itself as an argument, or ask its owner:\n" + "\n".join(found)
    assert len(found) <= MOST_ALIASED, f"{len(found)} names hide such a chain; there were {MOST_ALIASED}; {text}"


def test_what_an_object_needs_is_there_when_it_is_made() -> None:
    found = [
        f"{module}:{number}"
        for module, path in _seamed()
        for number, line in enumerate(text_of(path).splitlines(), 1)
        if _LATE.search(line)
    ]
    assert len(found) <= MOST_LATE, f"{len(found)} fields begin as None, against their type: {found}"


def test_the_checks_find_what_they_are_for() -> None:
    tree = ast.parse("self.a.b.c = 1\nself.d = 2\nnode.e.f()\nother.g = self.h\n")
    assert (_through_node(tree), [chain for _, chain in deep(tree)]) == (1, ["self.a.b.c"])
    near = ast.parse("import os\nos.a.b.c\ndef f(one: ChannelServices, other: Node):\n one.a.b.c\n other.a.b.c\n")
    assert [chain for _, chain in deep(near)] == ["other.a.b.c"], "what a bundle holds is near, a module is nobody"
    calls = ast.parse("def f(groups):\n groups.of(1).raft.group_id\n groups.of(1).group_id\n groups.of(1).touch()\n")
    assert [chain for _, chain in deep(calls)] == ["groups.of().raft.group_id"]
    alias = ast.parse("def f(self):\n near = self.a.b\n near.c()\n near.d()\n other = self.a\n other.c()\n")
    assert [chain for _, chain in aliased(alias)] == ["self.a.b.c"]
    lists = ast.parse("def f(one: Client):\n one.clients.dirty.append(one)\n one.clients.dirty.copy()\n")
    assert [chain for _, chain in deep(lists)] == ["one.clients.dirty.append"], "it changes its list itself"
    setting = ast.parse(
        "def f(self, one: Channel, two):\n"
        " one.body = b''\n two.is_cancelled = True\n three = Pager()\n three.used = 1\n"
        " four = self.pager\n four.used += 1\n"
    )
    assert [each[1:] for each in set_from_outside(setting)] == [
        ("one", "body", "Channel"), ("two", "is_cancelled", ""), ("four", "used", ""),
    ]  # fmt: skip
    assert not _may_set("amqp_broker.rehoming.rehoming", "is_cancelled", "")
    assert not _may_set("amqp_broker.channel.assemblies", "assembling", "Pager")
    assert _may_set("amqp_broker.channel.channel", "body", "Channel")
    assert not _may_set_across("queues.quorum.machine", "needed", "Compacted")
    assert _may_set_across("queues.quorum.image_reader", "needed", "Compacted")
    assert _may_set_across("queues.stream.image", "needed", "Compacted")
    assert all(map(_LATE.search, ("self.a: B = None  # type: ignore[assignment]", 'self.a = cast("B", None)')))
    text = "a: Any = 1\nb: Any = 2  # JSON: why\nc: Many\nfrom typing import Any\nd: Any = 3  # because\n"
    assert list(any_in(text)) == [(1, ""), (2, "JSON"), (5, "")]

"""Random metadata commands over few names, so that they meet: declared twice, missing, replaced, deleted."""

from __future__ import annotations

from hypothesis import strategies as st

from amqp_broker.metadata import commands
from amqp_broker.metadata.commands import Command
from amqp_broker.metadata.entities import BindingRecord

VHOSTS = ["/", "eu", "vh\udc80st"]
USERS = ["guest", "zoë"]
EXCHANGES = ["", "amq.topic", "e1", "e2"]
QUEUES = ["q1", "q2", "q1-0", "e1"]
PATTERNS = ["", ".*", "^a"]
NAMES = ["n1", "n2"]
NODES = ["", "n1", "n2"]

vhosts = st.sampled_from(["/", "/", *VHOSTS])
users = st.sampled_from(USERS)
exchanges = st.sampled_from(EXCHANGES)
queues = st.sampled_from(QUEUES)
patterns = st.sampled_from(PATTERNS)
names = st.sampled_from(NAMES)
nodes = st.sampled_from(NODES)
flags = st.booleans()
raws = st.sampled_from([b"", b"\x01ab\x00", b"\x01xt\x01", bytes(range(256))])
ids = st.integers(1, 8)
tags = st.lists(st.sampled_from(["a", "administrator"]), max_size=2)
limits = st.dictionaries(st.sampled_from(["max-queues", "max-connections"]), st.integers(-1, 3), max_size=2)
values = st.recursive(
    st.sampled_from([None, True, 1, 1.0, "x", 0, False]),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(names, inner, max_size=2)),
    max_leaves=3,
)
bindings = st.one_of(
    st.builds(BindingRecord, exchanges, st.just("queue"), queues, names, raws),
    st.builds(BindingRecord, exchanges, st.just("exchange"), exchanges, names, raws),
)


@st.composite
def declarations(draw: st.DrawFn) -> Command:
    """queue.declare or exchange.declare; also as it was written before some fields were introduced."""
    if draw(flags):
        kind = draw(st.sampled_from(["topic", "fanout"]))
        command = commands.declare_exchange(
            draw(vhosts), draw(exchanges), kind, auto_delete=draw(flags), internal=draw(flags),
            arguments_raw=draw(raws), durable=draw(flags), numbered=draw(flags),
        )  # fmt: skip
    else:
        command = commands.declare_queue(
            draw(vhosts), draw(queues), draw(ids), auto_delete=draw(flags), arguments_raw=draw(raws),
            durable=draw(flags), exclusive=draw(flags), home=draw(nodes),
        )  # fmt: skip
    for field in commands.DEFAULTS[command["op"]]:
        if draw(st.integers(0, 9)) == 0:
            command.pop(field, None)
    return command


def policies() -> st.SearchStrategy[Command]:
    return st.builds(
        commands.set_policy,
        vhosts,
        names,
        pattern=patterns,
        definition=st.dictionaries(names, values, max_size=2),
        apply_to=st.sampled_from(["all", "queues"]),
        priority=st.integers(-1, 1),
        operator=flags,
    )


any_command: st.SearchStrategy[Command] = st.one_of(
    st.builds(
        commands.put_vhost,
        vhosts,
        description=names,
        tags=tags,
        default_queue_type=st.just("classic"),
        tracing=flags,
    ),
    st.builds(commands.limit_vhost, vhosts, limits),
    st.builds(commands.protect_vhost, vhosts, flags),
    st.builds(commands.delete_vhost, vhosts),
    st.builds(commands.put_user, users, names, tags, flags),
    st.builds(commands.limit_user, users, limits),
    st.builds(commands.delete_user, users, flags),
    st.builds(commands.set_permission, users, vhosts, patterns, patterns, patterns),
    st.builds(commands.clear_permission, users, vhosts),
    st.builds(commands.set_topic_permission, users, vhosts, exchanges, patterns, patterns),
    st.builds(commands.clear_topic_permission, users, vhosts, exchanges),
    policies(),
    st.builds(commands.clear_policy, vhosts, names, operator=flags),
    st.builds(commands.set_parameter, vhosts, names, names, values),
    st.builds(commands.clear_parameter, vhosts, names, names),
    st.builds(commands.set_global_parameter, names, values, flags),
    st.builds(commands.clear_global_parameter, names),
    declarations(),
    declarations(),
    st.builds(commands.delete_exchange, vhosts, exchanges),
    st.builds(commands.delete_queue, vhosts, queues, ids),
    st.builds(commands.delete_queue, vhosts, queues, ids, st.lists(ids, max_size=4)),
    st.builds(
        commands.partition_stream, vhosts, queues, ids, st.just("stream"), raws, st.integers(0, 2),
        st.lists(ids, max_size=3), raws,
    ),
    st.builds(commands.reserve_queue_ids, ids),
    st.builds(commands.put_app, vhosts, names, st.sampled_from(NAMES), users),
    st.builds(commands.delete_app, vhosts, names, st.sampled_from(NAMES)),
    st.builds(commands.node_started, nodes),
    st.builds(commands.node_gone, nodes),
    st.builds(commands.put_member, st.sampled_from(NAMES), st.sampled_from(["a:1", "b:2"])),
    st.builds(commands.put_member, nodes, st.sampled_from(["a:1", "b:2"])),
    st.builds(commands.put_member, nodes, st.just("a:1"), st.sampled_from(["", "0a", "0b"])),
    st.builds(commands.add_member, nodes, st.sampled_from(["a:1", "b:2"]), st.sampled_from(["", "0a", "0b"])),
    st.builds(
        commands.remove_member,
        st.one_of(nodes, st.sampled_from(NAMES)),
        expected=st.lists(names, max_size=2),
        queues=st.sampled_from(["keep", "drop", "refuse"]),
    ),
    st.builds(commands.number_exchange, vhosts, exchanges, ids),
    st.builds(commands.add_binding, vhosts, bindings),
    st.builds(commands.add_binding, st.just("/"), bindings),
    st.builds(commands.remove_binding, vhosts, bindings),
    st.builds(commands.remove_binding, st.just("/"), bindings),
)

# Most things refer to others: a history begins with some of these in place.
_SETTLED = [
    commands.put_vhost("/"),
    commands.put_user("guest", "", []),
    commands.declare_exchange("/", "e1", "topic"),
    commands.declare_queue("/", "q1", 1),
    commands.declare_exchange("/", "e2", "fanout"),
    commands.declare_queue("/", "e1", 2),
    commands.put_vhost("eu"),
    commands.add_binding("/", BindingRecord("e1", "queue", "q1", "n1", b"")),
    commands.add_binding("/", BindingRecord("e2", "exchange", "e1", "n1", b"")),
]
histories: st.SearchStrategy[list[Command]] = st.builds(
    lambda settled, rest: [*_SETTLED[:settled], *rest],
    st.sampled_from([len(_SETTLED), len(_SETTLED), 6, 2, 0]),
    st.lists(any_command, max_size=40),
)

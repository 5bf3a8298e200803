"""The commands that make metadata again out of nothing: what a checkpoint of them is.

Whatever is referred to comes before what refers to it; queues come in the order of their ids, over all virtual hosts,
because ids rise. Members come behind the queues: a queue may live on a node that is none (any more).
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import TYPE_CHECKING

from amqp_broker.metadata import commands
from amqp_broker.metadata.commands import Command
from amqp_broker.metadata.entities import QueueRecord, VHost

if TYPE_CHECKING:
    from amqp_broker.metadata.metadata import Metadata


def snapshot_of(metadata: Metadata) -> list[Command]:
    """See Metadata.snapshot. Nothing in it is shared with the metadata."""
    return [
        *_describe_before_queues(metadata),
        *map(describe_queue, metadata.all_queues()),
        *_describe_behind_queues(metadata),
        *(
            commands.add_binding(vhost.name, binding)
            for vhost in metadata.vhosts()
            for binding in metadata.bindings(vhost.name)
        ),
    ]


def lines_of(metadata: Metadata) -> list[bytes]:
    """See Metadata.snapshot_lines."""
    lines = [*map(commands.encode, _describe_before_queues(metadata)), *metadata.queue_lines()]
    lines += map(commands.encode, _describe_behind_queues(metadata))
    for vhost in metadata.vhosts():
        lines += metadata.binding_lines(vhost.name)
    return lines


def _describe_before_queues(metadata: Metadata) -> list[Command]:
    taken = [command for vhost in metadata.vhosts() for command in _describe_vhost(vhost)]
    for user in metadata.users():
        taken.append(commands.put_user(user.name, user.password_hash, user.tags))
        if user.limits:
            taken.append(commands.limit_user(user.name, user.limits))
    taken.extend(
        commands.set_permission(grant.user, grant.vhost, grant.configure, grant.write, grant.read)
        for grant in metadata.permissions()
    )
    taken.extend(
        commands.set_topic_permission(topic.user, topic.vhost, topic.exchange, topic.write, topic.read)
        for topic in metadata.topic_permissions()
    )
    taken.extend(
        commands.set_global_parameter(parameter.name, copy.deepcopy(parameter.value))
        for parameter in metadata.global_parameters()
    )
    for vhost in metadata.vhosts():
        taken.extend(_describe_content(metadata, vhost.name))
    return taken


def _describe_behind_queues(metadata: Metadata) -> list[Command]:
    taken = [
        commands.number_exchange(vhost.name, exchange.name, exchange.number)
        for vhost in metadata.vhosts()
        for exchange in metadata.exchanges(vhost.name)
        if exchange.number
    ]
    taken.append(commands.reserve_queue_ids(metadata.next_queue_id))
    taken.extend(
        commands.put_member(node, address, metadata.identity_of(node)) for node, address in metadata.members().items()
    )
    if metadata.level > 1:  # versions that know no levels read this too
        taken.append(commands.raise_level(metadata.level))
    taken.extend(
        commands.put_group_members(group_id, nodes, size=metadata.wanted_size(group_id))
        for group_id, nodes in metadata.group_lists().items()
    )
    taken.extend(
        commands.put_member_workers(node, known.numbers, known.closing, known.groups)
        for node, known in metadata.member_workers().items()
    )
    taken.extend(commands.put_member_rack(node, rack) for node, rack in metadata.member_racks().items())
    return taken


def _describe_vhost(vhost: VHost) -> Iterable[Command]:
    yield commands.put_vhost(
        vhost.name,
        description=vhost.description,
        tags=vhost.tags,
        default_queue_type=vhost.default_queue_type,
        tracing=vhost.tracing,
    )
    if vhost.limits:
        yield commands.limit_vhost(vhost.name, vhost.limits)
    if vhost.is_protected:
        yield commands.protect_vhost(vhost.name, True)


def _describe_content(metadata: Metadata, vhost: str) -> Iterable[Command]:
    """What a vhost holds, without its queues and its bindings."""
    for app in metadata.apps(vhost):
        yield commands.put_app(vhost, app.name, app.home, app.user)
    for parameter in metadata.parameters(vhost):
        value = copy.deepcopy(parameter.value)
        yield commands.set_parameter(vhost, parameter.component, parameter.name, value)
    for operator, policies in ((False, metadata.policies(vhost)), (True, metadata.operator_policies(vhost))):
        for policy in policies:
            yield commands.set_policy(
                vhost,
                policy.name,
                pattern=policy.pattern,
                definition=copy.deepcopy(dict(policy.definition)),
                apply_to=policy.apply_to,
                priority=policy.priority,
                operator=operator,
            )
    for exchange in metadata.exchanges(vhost):
        if not exchange.is_predeclared:
            yield commands.declare_exchange(
                vhost,
                exchange.name,
                exchange.type,
                auto_delete=exchange.auto_delete,
                internal=exchange.internal,
                arguments_raw=exchange.arguments_raw,
                durable=exchange.durable,
            )


def describe_queue(queue: QueueRecord) -> Command:
    """The command that declares it."""
    return commands.declare_queue(
        queue.vhost,
        queue.name,
        queue.queue_id,
        type_name=queue.type,
        auto_delete=queue.auto_delete,
        arguments_raw=queue.arguments_raw,
        durable=queue.durable,
        exclusive=queue.exclusive,
        home=queue.home,
        part_of=queue.part_of,
    )

"""`amqp-broker queue`: queues are declared, purged and deleted, with AMQP's own methods; queue_messages.py has more."""

from __future__ import annotations

import click

from amqp_broker.cli.admin.asking import add_url_options, say, speaking, vhost_option
from amqp_broker.cli.admin.json_text import arguments_option, read_arguments
from amqp_broker.cli.admin.listing import list_command
from amqp_broker.cli.admin.queue_messages import move_command, peek_command, replay_command
from amqp_broker.protocol import methods as m
from amqp_broker.protocol.fields import Table


@click.group()
def queue() -> None:
    """Declare, purge and delete queues; look at their messages, and move them."""


queue.add_command(list_command("queues"), "list")
for _command in (peek_command, move_command, replay_command):
    queue.add_command(_command)


@queue.command("declare")
@click.argument("name")
@click.option("--type", "queue_type", metavar="TYPE", help="classic or quorum. [the virtual host's default]")
@click.option("--transient", is_flag=True, help="Gone when the broker stops.")
@click.option("--auto-delete", is_flag=True, help="Gone with its last consumer.")
@arguments_option
@vhost_option
@add_url_options
def declare_command(
    name: str,
    queue_type: str | None,
    transient: bool,
    auto_delete: bool,
    arguments: tuple[str, ...],
    vhost: str | None,
    url: str,
) -> None:
    """Declare the queue NAME; one that is there has to be the same."""
    table = read_arguments(arguments)
    if queue_type is not None:
        table = Table({**table, "x-queue-type": queue_type})
    method = m.QueueDeclare(queue=name, durable=not transient, auto_delete=auto_delete, arguments=table)
    with speaking(url, vhost) as channel:
        found = channel.call(method)
    say(f"queue '{found.queue}' is declared: {found.message_count} messages, {found.consumer_count} consumers")


@queue.command("purge")
@click.argument("name")
@vhost_option
@add_url_options
def purge_command(name: str, vhost: str | None, url: str) -> None:
    """Drop all messages of the queue NAME that wait for a consumer."""
    with speaking(url, vhost) as channel:
        purged = channel.call(m.QueuePurge(queue=name)).message_count
    say(f"queue '{name}' is purged: {purged} messages dropped")


@queue.command("delete")
@click.argument("name")
@click.option("--if-unused", is_flag=True, help="Only if it has no consumers.")
@click.option("--if-empty", is_flag=True, help="Only if it holds no messages.")
@vhost_option
@add_url_options
def delete_command(name: str, if_unused: bool, if_empty: bool, vhost: str | None, url: str) -> None:
    """Delete the queue NAME, with its messages."""
    with speaking(url, vhost) as channel:
        channel.call(m.QueueDeclare(queue=name, passive=True))  # queue.delete is silent where there is none
        dropped = channel.call(m.QueueDelete(queue=name, if_unused=if_unused, if_empty=if_empty)).message_count
    say(f"queue '{name}' is deleted: {dropped} messages dropped")

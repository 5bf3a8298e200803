"""`amqp-broker queue`: queues are declared, purged and deleted, with AMQP's own methods; queue_messages.py has more."""

from __future__ import annotations

import json
import time

import click

from amqp_broker.cli.admin.asking import add_url_options, asking, say, speaking, vhost_of, vhost_option
from amqp_broker.cli.admin.json_text import arguments_option, read_arguments, say_answer
from amqp_broker.cli.admin.listing import list_command
from amqp_broker.cli.admin.queue_homes import rehome_command, spread_classic
from amqp_broker.cli.admin.queue_messages import move_command, peek_command, replay_command
from amqp_broker.cli.cells import duration
from amqp_broker.protocol import methods as m
from amqp_broker.protocol.fields import Table
from amqp_broker.web.hints import OWN_KEY, with_hints
from amqp_broker.web.rates import Readings
from amqp_broker.web.shapes import QUEUE, read_view


@click.group()
def queue() -> None:
    """Declare, purge and delete queues; look at their messages, move them, look at the group behind one."""


queue.add_command(list_command("queues"), "list")
for _command in (peek_command, move_command, replay_command, rehome_command):
    queue.add_command(_command)


@queue.command("declare")
@click.argument("name")
@click.option("--type", "queue_type", metavar="TYPE", help="Such as quorum or stream. [the virtual host's default]")
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


@queue.command("quorum")
@click.argument("name")
@click.option("--json", "is_json", is_flag=True, help="Print one JSON object.")
@vhost_option
@add_url_options
def quorum_command(name: str, is_json: bool, vhost: str | None, url: str) -> None:
    """Show the group behind the quorum queue NAME: who leads, how far each member is, who led before and why."""
    with asking(url) as client:
        found = client.request("quorum.view", vhost=vhost_of(url, vhost), name=name)
    if is_json:
        say_answer(found)
        return
    say(f"group {found['group']}, term {found['term']}, leader: {found['leader'] or 'none known'}")
    for member in found["members"]:
        lag = "its lag is not known" if member["lag"] is None else f"{member['lag']} entries behind"
        link = "" if member["is_linked"] else ", no link to it"
        say(f"member {member['node']}: {member['role']}, {lag}{link}")
    for change in found["leader_changes"]:
        ago = duration(found["at"] - change["at"])
        say(f"{ago} ago, term {change['term']}: {change['leader']} leads, as {change['seen_by']} saw: {change['why']}")


@queue.command("grow")
@click.argument("node")
@click.option("--queue", "name", default="", metavar="NAME", help="Only the group that this queue is in. [all groups]")
@vhost_option
@add_url_options
def grow_command(node: str, name: str, vhost: str | None, url: str) -> None:
    """Have NODE be a member of the groups of quorum queues and streams: it keeps a copy of what they hold."""
    _change_members("queues.grow", url, node=node, queue=name, vhost=vhost_of(url, vhost))


@queue.command("shrink")
@click.argument("node")
@click.option("--queue", "name", default="", metavar="NAME", help="Only the group that this queue is in. [all groups]")
@vhost_option
@add_url_options
def shrink_command(node: str, name: str, vhost: str | None, url: str) -> None:
    """Have NODE be a member no more: it keeps no copy, and its clients use the queues all the same."""
    _change_members("queues.shrink", url, node=node, queue=name, vhost=vhost_of(url, vhost))


@queue.command("rebalance")
@click.option("--classic", is_flag=True, help="Classic queues, over nodes or workers. [the members of groups]")
@click.option("--dry-run", is_flag=True, help="With --classic: say which would move, and move none.")
@add_url_options
def rebalance_command(classic: bool, dry_run: bool, url: str) -> None:
    """Spread the members of groups that are on some of the nodes evenly over all nodes.

    With --classic durable classic queues are spread, by what they hold, and no more of them move than that takes. Those
    at a worker that is to be emptied all move.
    """
    if classic:
        spread_classic(url, dry_run)
    elif dry_run:
        raise click.UsageError("--dry-run goes with --classic")
    else:
        _change_members("queues.rebalance", url)


def _change_members(verb: str, url: str, **fields: str) -> None:
    with asking(url) as client:
        answer = client.request(verb, **fields)
    for row in answer["groups"]:
        say(f"group {row['group']} is to be on {', '.join(row['members'])}")
    say("`amqp-broker cluster status` shows when they are" if answer["groups"] else "nothing to do: it is so already")


@queue.command("hints")
@click.argument("name")
@click.option("--seconds", type=click.FloatRange(1.0), default=2.0, help="So long it is watched for its rates. [2]")
@click.option("--json", "is_json", is_flag=True, help="Print one JSON object.")
@vhost_option
@add_url_options
def hints_command(name: str, seconds: float, is_json: bool, vhost: str | None, url: str) -> None:
    """Say what is the matter with the queue NAME, if anything is, and when it will be empty."""
    readings, view = Readings(), read_view({})
    with asking(url) as client:
        for pause in (0.0, seconds):
            time.sleep(pause)
            answer = client.request("object", kind="queues", vhost=vhost_of(url, vhost), name=name)
            found = QUEUE.finish(answer["object"], answer["at"], readings, view)
    said = with_hints(found)[OWN_KEY]
    if is_json:
        click.echo(json.dumps(said, indent=2))
        return
    for hint in said["hints"]:
        say(hint)
    match said["eta_ms"]:
        case 0:
            say("Nothing is ready.")
        case int(eta):
            say(f"At this pace nothing is ready any more in {duration(eta)}.")
        case None:
            say("When it will be empty is not known: not everything that leaves it is counted.")
        case _:
            say("At this pace it is never empty.")


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

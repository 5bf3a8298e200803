"""`amqp-broker queue rehome`, `queue rebalance --classic`: homes of classic queues are changed, one after the other."""

from __future__ import annotations

import click

from amqp_broker.cli.admin.asking import add_url_options, asking, say, vhost_of, vhost_option
from amqp_broker.cli.failed import Failed
from amqp_broker.moving.rehomer import MOVE_DEADLINE_S, plan
from amqp_broker.protocol.json_values import JsonObject
from amqp_broker.system_client import SystemClient, SystemRequestError


@click.command("rehome")
@click.argument("name")
@click.argument("home")
@vhost_option
@add_url_options
def rehome_command(name: str, home: str, vhost: str | None, url: str) -> None:
    """Have the durable classic queue NAME live at HOME, with all that it holds: a node, or a worker such as n1/2.

    It delivers nothing meanwhile. Consumers stay attached, publishers wait; what consumers hold comes again.
    """
    with asking(url) as client:
        said = _rehome(client, vhost_of(url, vhost), name, home)
    say(f"queue '{name}' lives at {home} now: {said['messages']} messages were brought from {said['from']}")


def spread_classic(url: str, is_dry: bool) -> None:
    """Move the classic queues that have to."""
    refused = 0
    with asking(url) as client:
        _, changes = plan(client.request)
        for queue, home in changes:
            called = f"queue '{queue.name}' in vhost '{queue.vhost}'"
            if is_dry:
                say(f"{called} would move from {queue.home} to {home}: {queue.messages} messages")
                continue
            try:
                said = _rehome(client, queue.vhost, queue.name, home)
                say(f"{called} lives at {home} now: {said['messages']} messages were brought from {queue.home}")
            except SystemRequestError as error:
                refused += 1
                say(f"{called} did not move: {error.text}")
    if refused:
        raise Failed(f"{refused} of {len(changes)} queues did not move; see above")
    if not changes:
        say("nothing to do: they are spread already")


def _rehome(client: SystemClient, vhost: str, name: str, home: str) -> JsonObject:
    """For as long as it takes."""
    return client.request_within(MOVE_DEADLINE_S, "queue.rehome", {"vhost": vhost, "name": name, "home": home})

"""`amqp-broker queue rehome`, `queue rebalance --classic`: homes of classic queues are changed, one after the other."""

from __future__ import annotations

from collections.abc import Iterator

import click

from amqp_broker.cli.admin.asking import add_url_options, asking, say, vhost_of, vhost_option
from amqp_broker.cli.failed import Failed
from amqp_broker.moving.spreading import Weighed, spread
from amqp_broker.system_client import SystemClient, SystemRequestError

_COLUMNS = ["vhost", "name", "node", "type", "durable", "exclusive", "auto_delete", "messages", "message_bytes"]
_PAGE_ROWS = 500


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
        said = client.request("queue.rehome", vhost=vhost_of(url, vhost), name=name, home=home)
    say(f"queue '{name}' lives at {home} now: {said['messages']} messages were brought from {said['from']}")


def spread_classic(url: str, is_dry: bool) -> None:
    """Move the classic queues that have to."""
    refused = 0
    with asking(url) as client:
        found = client.request("queue.homes")
        changes = spread(list(_movable(client, found["types"])), found["homes"])
        for queue, home in changes:
            called = f"queue '{queue.name}' in vhost '{queue.vhost}'"
            if is_dry:
                say(f"{called} would move from {queue.home} to {home}: {queue.messages} messages")
                continue
            try:
                said = client.request("queue.rehome", vhost=queue.vhost, name=queue.name, home=home)
                say(f"{called} lives at {home} now: {said['messages']} messages were brought from {queue.home}")
            except SystemRequestError as error:
                refused += 1
                say(f"{called} did not move: {error.text}")
    if refused:
        raise Failed(f"{refused} of {len(changes)} queues did not move; see above")
    if not changes:
        say("nothing to do: they are spread already")


def _movable(client: SystemClient, types: list[str]) -> Iterator[Weighed]:
    """Those that may move."""
    after: dict[str, str] = {}
    while True:
        page = client.request("objects.page", kind="queues", columns=_COLUMNS, limit=_PAGE_ROWS, **after)
        for values in page["rows"]:
            row = dict(zip(page["columns"], values, strict=True))
            if row["type"] in types and row["durable"] and not row["exclusive"] and not row["auto_delete"]:
                sizes = row["messages"] or 0, row["message_bytes"] or 0
                yield Weighed(row["vhost"], row["name"], row["node"], *sizes)
        if page["next"] is None:
            return
        after = {"after": page["next"]}

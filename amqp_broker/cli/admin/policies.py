"""`amqp-broker policy`: settings for all queues or exchanges whose names match; with --operator, caps of them."""

from __future__ import annotations

import click

from amqp_broker.cli.admin.asking import add_url_options, asking, say, vhost_of, vhost_option
from amqp_broker.cli.admin.json_text import read_object
from amqp_broker.cli.admin.listing import list_command


@click.group()
def policy() -> None:
    """Set and clear policies."""


policy.add_command(list_command("policies"), "list")

_operator = click.option("--operator", "is_operator", is_flag=True, help="An operator policy, which limits the others.")


def _called(is_operator: bool) -> tuple[str, str, str]:
    """The word for people, the verbs' noun, and the kind."""
    if is_operator:
        return "operator policy", "operator_policy", "operator_policies"
    return "policy", "policy", "policies"


@policy.command("set")
@click.argument("name")
@click.argument("pattern")
@click.argument("definition")
@click.option("--priority", metavar="N", type=int, default=0, help="Of those that match, the highest applies. [0]")
@click.option(
    "--apply-to", metavar="WHAT", default="all", show_default=True,
    help="all, queues, exchanges, or queues of one type, as quorum_queues: the node says which there are.",
)
@_operator
@vhost_option
@add_url_options
def set_command(
    name: str,
    pattern: str,
    definition: str,
    priority: int,
    apply_to: str,
    is_operator: bool,
    vhost: str | None,
    url: str,
) -> None:
    """Set the policy NAME for what PATTERN matches; DEFINITION is JSON, as in '{"max-length": 1000}'."""
    place, (word, noun, _) = vhost_of(url, vhost), _called(is_operator)
    fields = {"pattern": pattern, "definition": read_object("DEFINITION", definition), "priority": priority}
    with asking(url) as client:
        answer = client.request(f"{noun}.put", vhost=place, name=name, apply_to=apply_to, **fields)
    say(f"{word} '{name}' is set in virtual host '{place}'")
    for note in answer.get("notes", ()):
        say(f"  {note}")


@policy.command("clear")
@click.argument("name")
@_operator
@vhost_option
@add_url_options
def clear_command(name: str, is_operator: bool, vhost: str | None, url: str) -> None:
    """Clear the policy NAME."""
    place, (word, noun, kind) = vhost_of(url, vhost), _called(is_operator)
    with asking(url) as client:
        client.request("object", kind=kind, vhost=place, name=name)
        client.request(f"{noun}.delete", vhost=place, name=name)
    say(f"{word} '{name}' is cleared in virtual host '{place}'")

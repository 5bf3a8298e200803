"""`amqp-broker config`: the effective settings and where each came from."""

from __future__ import annotations

import json

import click

from amqp_broker.cli.settings import add_setting_flags, resolve_flags
from amqp_broker.settings.config import SETTINGS, Config
from amqp_broker.settings.setting import Setting
from amqp_broker.settings.sources import Resolved

PAGE_HEAD = """\
# Configuration

Generated from `amqp_broker/settings/config.py` by `make docs`; edit that file, not this one.

Every setting is a flag of `amqp-broker serve`, an environment variable and a key of the TOML file that
`--config` (or the variable `AMQP_BROKER_CONFIG`) names. The setting `memory_budget`, say, is the flag
`--memory-budget 256MiB`, the variable `AMQP_BROKER_MEMORY_BUDGET=256MiB` and the line
`memory_budget = "256MiB"`. A flag overrules the environment, the environment the file, the file the default.
`amqp-broker config` takes the same flags and prints the effective values and where each came from.

Sizes are written `64KiB`, `256MiB`, `2GB` or as a number of octets; times `500ms`, `30s`, `5min`, `2h`,
`1d`; lists with commas (a TOML list is fine too). A setting that says so can be `off`."""


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, keyed by setting.")
@click.option(
    "--markdown",
    "as_markdown",
    is_flag=True,
    help="Print the table of all settings that docs/configuration.md holds.",
)
@add_setting_flags
def config(as_json: bool, as_markdown: bool, config_file: str | None, **values: object) -> None:
    """Print the effective settings and where each came from.

    Takes the flags of `serve`. Precedence: flag, environment variable, file, default.
    """
    if as_markdown:
        click.echo(render_markdown(), nl=False)
        return
    resolved = resolve_flags(config_file, values)
    click.echo(render_json(resolved) if as_json else render_text(resolved))


def shown_settings() -> list[Setting]:
    return [each for each in SETTINGS if not each.is_hidden]


def render_text(resolved: Resolved) -> str:
    """Three columns: key, value, origin."""
    rows = [(each.key, _value(resolved.config, each), resolved.origins[each.key]) for each in shown_settings()]
    key_width = max(len(key) for key, _, _ in rows)
    value_width = min(40, max(len(value) for _, value, _ in rows))
    return "\n".join(f"{key:<{key_width}}  {value:<{value_width}}  {origin}" for key, value, origin in rows)


def render_json(resolved: Resolved) -> str:
    """{key:

    {"value": text as a person writes it, "number": octets, milliseconds or count, "origin": source}}.
    """
    report: dict[str, dict[str, object]] = {}
    for each in shown_settings():
        entry: dict[str, object] = {
            "value": _value(resolved.config, each),
            "origin": resolved.origins[each.key],
        }
        raw = getattr(resolved.config, each.attribute)
        if isinstance(raw, int) and not isinstance(raw, bool):
            entry["number"] = raw
            entry["unit"] = each.kind.unit
        report[each.key] = entry
    return json.dumps(report, indent=2)


def render_markdown() -> str:
    """The page docs/configuration.md."""
    groups: dict[str, list[Setting]] = {}
    for each in shown_settings():
        groups.setdefault(each.group, []).append(each)
    lines = [PAGE_HEAD]
    for group, settings in groups.items():
        lines += [f"\n## {group}\n", "| key and default | meaning | allowed |", "|---|---|---|"]
        lines += [f"| `{each.key}` = {_code(each.default_text)} | {each.doc} | {each.allowed} |" for each in settings]
    return "\n".join(lines) + "\n"


def _value(effective: Config, each: Setting) -> str:
    return each.show(getattr(effective, each.attribute))


def _code(text: str) -> str:
    return f"`{text}`" if text and " " not in text else text or "none"

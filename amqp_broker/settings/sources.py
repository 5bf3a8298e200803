"""Where settings come from: flag, environment, file, default, in this order of precedence.

This module turns texts from the three sources into one Config and remembers the origin of each value. It does
not know click, and never prints.

Invariants:
1. A key that no source may use is an error that names it; nothing is ignored in silence.
2. Every error is one line: the key, the value, what is allowed, and the source it came from.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from amqp_broker.settings.config import SETTINGS, SETTINGS_BY_KEY, Config
from amqp_broker.settings.setting import COVERED, ConfigError, Setting

PREFIX = "AMQP_BROKER_"
DEFAULT_ORIGIN = "default"

# Variables with our prefix that are not settings: of the build, the process, and the pytest plugin.
OTHER_VARIABLES = (
    "AMQP_BROKER_NO_COMPILE",
    "AMQP_BROKER_REQUIRE_COMPILED",
    "AMQP_BROKER_PLAIN",
    "AMQP_BROKER_CONFIG",
    "AMQP_BROKER_TEST_URL",
    "AMQP_BROKER_MANAGEMENT_URL",
)


class Resolved(NamedTuple):
    """A Config and, by key, the origin of each value: "default", "file F", "environment V" or "flag --f"."""

    config: Config
    origins: Mapping[str, str]


def resolve(
    flags: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    file: Path | None = None,
) -> Resolved:
    """The effective settings. `flags` maps keys to texts; `environment` is the process's; `file` is TOML.

    Without `file`, AMQP_BROKER_CONFIG names one. Raises ConfigError.
    """
    environment = {} if environment is None else environment
    if file is None and environment.get("AMQP_BROKER_CONFIG"):
        file = Path(environment["AMQP_BROKER_CONFIG"])
    values: dict[str, object] = {}
    origins = {each.key: DEFAULT_ORIGIN for each in SETTINGS}
    found = [
        *((each, text, f"file {file}") for each, text in (_from_file(file) if file else [])),
        *((each, text, f"environment {each.variable}") for each, text in _from_environment(environment)),
        *(
            (_known(key, text, "flags"), text, f"flag {SETTINGS_BY_KEY[key].flag}")
            for key, text in (flags or {}).items()
        ),
    ]
    for each, text, origin in found:
        try:
            values[each.attribute] = each.parse(text)
        except ConfigError as error:
            raise ConfigError(f"{error} (from {origin})") from error
        origins[each.key] = origin
    return Resolved(Config(**values), origins)  # type: ignore[arg-type]


def text_of(each: Setting, value: object) -> str:
    """The text of a value from Python or TOML:

    text, number, truth, path, or a list of those. Raises ConfigError.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)) and each.kind.is_list:
        return ",".join(str(part) for part in value)
    if isinstance(value, (str, int, float, Path)):
        return str(value)
    raise each.refuse(repr(value))


def flags_of(settings: Mapping[str, object]) -> list[str]:
    """Command-line flags for settings given in Python.

    They are named by key, with a text (`memory_budget="64MiB"`), or by Config's attribute, with a number
    (`heartbeat_ms=500`). Raises ConfigError for an unknown key or a bad value.
    """
    by_attribute = {each.attribute: each for each in SETTINGS}
    flags = []
    for name, value in settings.items():
        each = by_attribute.get(name) or _known(name, str(value), "settings")
        is_number = isinstance(value, int) and not isinstance(value, bool)
        text = each.show(value) if is_number and (name == each.attribute or value == each.off) else text_of(each, value)
        each.parse(text)
        flags.append(f"{each.flag}={text}")
    return flags


def _from_file(file: Path) -> list[tuple[Setting, str]]:
    import tomllib  # late: most brokers have no file

    try:
        with open(file, "rb") as stream:
            table = tomllib.load(stream)
    except OSError as error:
        raise ConfigError(f"config: '{file}' cannot be read ({error.strerror}); name a TOML file") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"config: '{file}' is not TOML: {' '.join(str(error).split())}; mend it") from error
    found = []
    for key, value in table.items():
        each = _known(key, str(value), f"file {file}")
        try:
            found.append((each, text_of(each, value)))
        except ConfigError as error:
            raise ConfigError(f"{error} (from file {file})") from error
    return found


def _from_environment(environment: Mapping[str, str]) -> list[tuple[Setting, str]]:
    found = []
    for variable in sorted(environment):
        if not variable.startswith(PREFIX) or variable in OTHER_VARIABLES or _is_service_link(variable):
            continue
        key = variable.removeprefix(PREFIX).lower()
        found.append((_known(key, environment[variable], f"environment {variable}"), environment[variable]))
    return found


def _is_service_link(variable: str) -> bool:
    """Kubernetes sets AMQP_BROKER_PORT, AMQP_BROKER_SERVICE_HOST...

    in every pod beside a service named amqp-broker.
    """
    name = variable.removeprefix(PREFIX)
    return name in ("PORT", "SERVICE_HOST") or name.startswith(("PORT_", "SERVICE_PORT"))


def _known(key: str, value: str, source: str) -> Setting:
    found = SETTINGS_BY_KEY.get(key)
    if found is not None:
        return found
    from difflib import get_close_matches  # only for the sake of an error message

    shown = [each.key for each in SETTINGS if not each.is_hidden]
    near = get_close_matches(key, shown, n=1)
    hint = f"perhaps {near[0]}" if near else "the settings that `amqp-broker config` lists"
    value = COVERED if "password" in key else value
    raise ConfigError(f"{key}: {value!r} is given for a setting that does not exist; allowed: {hint} (from {source})")

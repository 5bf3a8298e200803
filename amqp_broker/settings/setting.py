"""Setting: one field of Config as its users see it (flag, environment variable, TOML key), made from its
metadata.

`setting` declares a field, `Setting` is the view of it that everything else is generated from. Neither knows
which settings there are.

Invariant: the text of a secret is never shown, not even in an error.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from amqp_broker.settings.kinds import SECRET, Kind

COVERED = "********"


class ConfigError(ValueError):
    """A setting that cannot be: the text is one line that names the key, the value and what is allowed."""


def setting(
    kind: Kind,
    default: object,
    group: str,
    doc: str,
    *,
    minimum: int | None = None,
    maximum: int | None = None,
    off: int | None = None,
    choices: tuple[str, ...] = (),
    default_text: str = "",
    is_hidden: bool = False,
) -> Any:  # declared: what the field is annotated with
    """One field of Config.

    `default` may be a function; `off` is the number that the word "off" stands for.
    """
    metadata = {
        "kind": kind,
        "unit": kind.unit,
        "doc": doc,
        "group": group,
        "minimum": minimum,
        "maximum": maximum,
        "off": off,
        "choices": choices,
        "default_text": default_text,
        "is_hidden": is_hidden,
    }
    is_shown = kind is not SECRET
    if callable(default):
        return dataclasses.field(default_factory=default, metadata=metadata, repr=is_shown)
    return dataclasses.field(default=default, metadata=metadata, repr=is_shown)


@dataclass(frozen=True, slots=True)
class Setting:
    """One field of Config as its users see it:

    the key of the TOML file, the flag and the environment variable.
    """

    attribute: str
    key: str
    kind: Kind
    group: str
    doc: str
    default_text: str
    minimum: int | None
    maximum: int | None
    off: int | None
    choices: tuple[str, ...]
    is_hidden: bool

    @property
    def flag(self) -> str:
        return "--" + self.key.replace("_", "-")

    @property
    def variable(self) -> str:
        return "AMQP_BROKER_" + self.key.upper()

    @property
    def is_secret(self) -> bool:
        return self.kind is SECRET

    @property
    def allowed(self) -> str:
        """What may be written, completing the sentence "allowed: ..."."""
        if self.choices:
            return ", ".join(self.choices)
        text = self.kind.allowed
        lowest = self.minimum if self.minimum is not None and self.minimum >= 0 else 0
        if self.maximum is not None:
            text += f", from {self.kind.show(lowest)} to {self.kind.show(self.maximum)}"
        elif lowest > 0:
            text += f", at least {self.kind.show(lowest)}"
        return text + ", or off" if self.off is not None else text

    def parse(self, text: str) -> object:
        """The value that a text stands for. Raises ConfigError."""
        if self.off is not None and text.strip().lower() == "off":
            return self.off
        try:
            value = self.kind.parse(text)
        except ValueError as error:
            raise self.refuse(text) from error
        self.check(value, text)
        return value

    def check(self, value: object, text: str | None = None) -> None:
        """Raises ConfigError if the value is out of bounds or none of the choices."""
        is_wrong = bool(self.choices) and value not in self.choices
        if isinstance(value, int) and not isinstance(value, bool):
            is_wrong = is_wrong or (self.minimum is not None and value < self.minimum)
            is_wrong = is_wrong or (self.maximum is not None and value > self.maximum)
        if is_wrong:
            raise self.refuse(text if text is not None else self.show(value))

    def refuse(self, text: str) -> ConfigError:
        shown = COVERED if self.is_secret else text
        return ConfigError(f"{self.key}: {shown!r} is not valid; allowed: {self.allowed}")

    def show(self, value: object) -> str:
        """The value as text that `parse` understands; a secret's is covered."""
        if self.is_secret:
            return COVERED
        if self.off is not None and value == self.off:
            return "off"
        return self.kind.show(value)


def setting_of(field: dataclasses.Field[object]) -> Setting:
    """The view of a field that `setting` declared."""
    kind: Kind = field.metadata["kind"]
    off, default_text = field.metadata["off"], field.metadata["default_text"]
    if not default_text and field.default is not dataclasses.MISSING:
        default_text = "off" if off is not None and field.default == off else kind.show(field.default)
    names = ("kind", "group", "doc", "minimum", "maximum", "off", "choices", "is_hidden")
    metadata = {name: field.metadata[name] for name in names}
    key = field.name.removesuffix(kind.suffix)
    return Setting(attribute=field.name, key=key, default_text=default_text, **metadata)

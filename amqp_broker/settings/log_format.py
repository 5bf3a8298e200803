"""How a line of the log is written: as text, or as a JSON object for what gathers logs.

    {"time": "2026-11-23T09:00:00.000Z", "level": "info", "logger": "amqp_broker.connection", "message": "...",
     "event": "connection.open", "user": "guest", ...}

Where a node has several workers, each line of theirs says which: `amqp_broker.connection [worker 2]: ...` and "worker".

What a line is about stands in fields of its own where whoever says it names them: `extra=about(event, ...)`.
"""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Final

TEXT: Final = "text"
JSON: Final = "json"
_TEXT_FORM: Final = "%(asctime)s %(levelname)s %(name)s{}: %(message)s"
#: The attribute of a record that has the fields.
_FIELDS: Final = "fields"


def about(event: str, **fields: str | int) -> dict[str, dict[str, str | int]]:
    """What a line is about, for `extra`: what is empty is left out."""
    return {_FIELDS: {"event": event, **{key: value for key, value in fields.items() if value != ""}}}


def formatter(log_format: str, worker: int | None = None) -> logging.Formatter:
    """That of a setting `log_format`. worker: which of several speaks; None: it is the only one, or none of them."""
    if log_format == JSON:
        return JsonLines(worker)
    return TextLines(_TEXT_FORM.format("" if worker is None else f" [worker {worker}]"))


class TextLines(logging.Formatter):
    """Each record is one line, and the lines of its traceback: what clients call things begins no line of its own, and
    says nothing to a terminal."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 (the standard library's name)
        """What cannot be printed is written as Python writes it in a string."""
        line = super().formatMessage(record)
        if line.isprintable():
            return line
        return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in line)


class JsonLines(logging.Formatter):
    """Each record is one line, whatever is in it: JSON has no ends of lines within a string."""

    def __init__(self, worker: int | None = None) -> None:
        super().__init__()
        self._of = {} if worker is None else {"worker": worker}

    def format(self, record: logging.LogRecord) -> str:
        """One object in ASCII."""
        at = datetime.fromtimestamp(record.created, UTC)
        said: dict[str, object] = {
            "time": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **self._of,
        }
        said |= getattr(record, _FIELDS, {})
        if record.exc_info:
            said["error"] = self.formatException(record.exc_info)
        return json.dumps(said, default=str)

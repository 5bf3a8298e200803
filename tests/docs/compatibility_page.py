"""Writes the generated half of docs/compatibility.md: `python -m tests.docs.compatibility_page`.

What stands above the marker in the page is written by hand; below it are the tables made from the `holds` marks of the
tests (tests/conformance/holds_table.py): by method, by argument, by error, and every behaviour with its test.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from typing import NamedTuple

from amqp_broker.protocol.constants import ReplyCode
from amqp_broker.protocol.grammar import METHODS
from amqp_broker.queue_types.classic.type import ClassicType
from amqp_broker.queue_types.quorum.cursor_arguments import CURSOR_ARGUMENTS
from amqp_broker.queue_types.quorum.type import QuorumType
from amqp_broker.queue_types.stream.arguments import OWN_ARGUMENTS, parse_stream_arguments
from queues import arguments
from queues.quorum.arguments import _OF_OTHER_TYPES
from queues.quorum.arguments import parse_quorum_arguments as read_quorum_arguments
from tests.docs.source_names import DOCS, ROOT

PAGE = DOCS / "compatibility.md"
MARKER = "<!-- generated below: python -m tests.docs.compatibility_page -->\n"
COLLECTOR = ROOT / "tests" / "conformance" / "holds_table.py"
CLASSES = ("connection", "channel", "access", "exchange", "queue", "basic", "confirm", "tx")

#: Section of a behaviour, by how it begins; the first that fits.
SECTIONS: tuple[tuple[str, str], ...] = (
    ("Frames and contents", r"frame|content|method|protocol header|heartbeat|properties|headers: "),
    ("Connections", r"connection|shutdown"),
    ("Channels", r"channel|access"),
    ("Exchanges", r"exchange|alternate-exchange|topic exchange|headers exchange|x-consistent-hash|x-delayed"),
    ("Quorum queues", r"quorum queue"),
    ("Streams", r"stream"),
    ("Queues", r"queue"),
    ("Queue arguments", r"x-|a queue without x-|expiration|dead-lettering"),
    ("Publishing and confirms", r"basic\.publish|confirm|CC|BCC|order|user_id"),
    ("Transactions", r"tx"),
    ("Direct reply-to", r"reply-to"),
    ("Consuming and settling", r"basic"),
    ("Users, permissions, limits and policies", r"user|vhost|permission|topic permission|policy|operator policy"),
    ("Restart", r"restart"),
)


class Row(NamedTuple):
    """A behaviour, the test that holds it, and where RabbitMQ 3.10 differs ("": nowhere)."""

    behaviour: str
    test: str
    ours_only: str


def collected() -> list[Row]:
    """What the tests hold. Raises CalledProcessError when they cannot be collected."""
    command = [sys.executable, str(COLLECTOR), "--format", "json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [Row(**row) for row in json.loads(done.stdout)]


def section_of(row: Row) -> str:
    """The section that a behaviour belongs to. Raises ValueError: name one in SECTIONS."""
    for section, pattern in SECTIONS:
        if re.match(pattern, row.behaviour):
            return section
    raise ValueError(f"no section of the page takes {row.behaviour!r}; add a pattern to SECTIONS")


def methods_named_by(row: Row) -> list[str]:
    """The methods that a behaviour speaks of: `basic.ack, nack, reject: ...` are three."""
    text = row.behaviour
    head = re.match(r"([a-z]+)\.[a-z-]+((?:, [a-z-]+)+):", text)
    if head is not None:
        text += " " + " ".join(f"{head[1]}.{name}" for name in head[2].split(", ") if name)
    return re.findall(rf"\b(?:{'|'.join(CLASSES)})\.[a-z]+(?:-[a-z]+)*", text)


def cell(text: str) -> str:
    return text.replace("|", "\\|")


def links(rows: list[Row], section_by_row: Callable[[Row], str]) -> str:
    """How many behaviours, and in which sections they are."""
    counts: dict[str, int] = {}
    for row in rows:
        section = section_by_row(row)
        counts[section] = counts.get(section, 0) + 1
    return ", ".join(
        f"{count} in [{name}](#{name.lower().replace(',', '').replace(' ', '-')})" for name, count in counts.items()
    )


def methods_table(rows: list[Row]) -> list[str]:
    """Every method, with the behaviours that name it."""
    named: dict[str, list[Row]] = {}
    for row in rows:
        for name in dict.fromkeys(methods_named_by(row)):
            named.setdefault(name, []).append(row)
    asked = {reply: method.name for method in METHODS for reply in method.replies}
    lines = ["| method | class, method id | behaviours that name it |", "|---|---|---|"]
    for method in METHODS:
        about = links(named.get(method.name, []), section_of)
        if method.name in asked:
            answers = f"answer to `{asked[method.name]}`"
            about = f"{answers}; {about}" if about else answers
        ids = f"{method.index >> 16}, {method.index & 0xFFFF}"
        lines.append(f"| `{method.name}` | {ids} | {about or 'none'} |")
    return lines


#: A value that every reader of an argument takes, for those that take no number.
_VALUES: dict[str, object] = {
    "x-overflow": "drop-head",
    "x-dead-letter-exchange": "",
    "x-dead-letter-routing-key": "k",
    "x-dead-letter-strategy": "at-most-once",
    "x-single-active-consumer": True,
    "x-message-deduplication": True,
    "x-queue-mode": "lazy",
    "x-queue-leader-locator": "balanced",
    "x-queue-master-locator": "min-masters",
    "x-max-age": "1h",
    "x-delayed-retry-type": "disabled",
    "x-stream-compact": True,
    "x-stream-key": "message-id",
    "x-stream-tombstone-age": "7D",
    "x-stream-compression": "zlib",
}
#: What quorum queues know besides.
QUORUM_ARGUMENTS = tuple(name for name in QuorumType.arguments if name not in arguments.OF_ALL_QUEUES)
#: Values that a stream takes, where others take the one above.
_OF_STREAMS: dict[str, dict[str, object]] = {"x-stream-filter-size-bytes": {"x-stream-filter-size-bytes": 16}}
_QUEUE_TYPE = "x-queue-type"
_NO_EFFECT = ("x-max-in-memory-length", "x-max-in-memory-bytes")
#: What of the arguments that only classic queues know has an effect.
_OF_WORKERS = "x-queue-master-locator"


def argument_names() -> list[str]:
    """Each queue argument that some queue type of RabbitMQ knows."""
    others = (*QUORUM_ARGUMENTS, *arguments._READERS, *arguments.OF_CLASSIC_QUEUES, *arguments._OF_OTHER_TYPES)
    return [_QUEUE_TYPE, *dict.fromkeys((*others, *_OF_OTHER_TYPES))]


def use_of(name: str) -> tuple[str, str, str]:
    """What a classic and a quorum queue and a stream do with an argument, as the code that reads it says."""
    if name == _QUEUE_TYPE:
        return ("`classic`, the default", "`quorum`", "`stream`")
    needed = {"x-dead-letter-exchange": ""} if name == "x-dead-letter-routing-key" else {}
    needed |= {"x-stream-compact": True} if name in ("x-stream-key", "x-stream-tombstone-age") else {}
    needed |= {"x-message-deduplication": True} if name == "x-deduplication-ttl" else {}
    asked = {**needed, name: _VALUES.get(name, 2)}
    uses = []
    for parse, has_effect in (
        (ClassicType.read, name in arguments._READERS or name == _OF_WORKERS),
        (read_quorum_arguments, (name in arguments._READERS or name in QUORUM_ARGUMENTS) and name not in _NO_EFFECT),
    ):
        try:
            parse(asked)
        except arguments.WrongArgument:
            uses.append("406: of another queue type")
        else:
            is_known = has_effect or name in arguments.OF_CLASSIC_QUEUES or name in QUORUM_ARGUMENTS
            uses.append("in force" if has_effect else "no effect" if is_known else "ignored")
    if uses[0] == "no effect" and name in QUORUM_ARGUMENTS:
        uses[0] = "ignored"
    return uses[0], uses[1], _use_in_streams(name, asked)


def _use_in_streams(name: str, asked: dict[str, object]) -> str:
    """A stream reads all that it knows."""
    try:
        parse_stream_arguments({**asked, **_OF_STREAMS.get(name, {})})
    except arguments.WrongArgument:
        return "406: of another queue type"
    has_effect = name in (*OWN_ARGUMENTS, "x-max-length-bytes")
    return "in force" if has_effect else "ignored" if name in CURSOR_ARGUMENTS else "no effect"


def arguments_table(rows: list[Row]) -> list[str]:
    """Every queue argument, with the behaviours that name it."""
    lines = ["| argument of queue.declare | classic queues | quorum queues | streams | behaviours that name it |"]
    lines.append("|---|---|---|---|---|")
    for name in argument_names():
        found = [row for row in rows if re.search(rf"(?<![\w-]){name}(?![\w-])", row.behaviour)]
        about = links(found, section_of) or "only together with others: queue.declare arguments"
        classic, quorum, stream = use_of(name)
        lines.append(f"| `{name}` | {classic} | {quorum} | {stream} | {about} |")
    return lines


def errors_table(rows: list[Row]) -> list[str]:
    """Every reply code, and the behaviours that end in it."""
    files = [path for path in sorted((ROOT / "amqp_broker").rglob("*.py")) if path.name != "constants.py"]
    source = "".join(path.read_text(encoding="utf-8") for path in files)
    lines = ["| code | closes | behaviours |", "|---|---|---|"]
    for code in ReplyCode:
        if code is ReplyCode.REPLY_SUCCESS:
            continue
        found = [row.behaviour for row in rows if re.search(rf"\b{code.value}\b", row.behaviour)]
        closes = "the channel" if code.is_soft else "the connection"
        if code is ReplyCode.NO_ROUTE:
            closes = "nothing: basic.return carries it"
        without = _elsewhere(code) if f"ReplyCode.{code.name}" in source else "never sent"
        lines.append(f"| {code.value} {code.name} | {closes} | {cell('; '.join(found)) or without} |")
    return lines


def _elsewhere(code: ReplyCode) -> str:
    """The tests that see a code which no behaviour of the page ends in."""
    seen = re.compile(rf"ReplyCode\.{code.name}\b|reply_code\b[^\n]*== [(\[]*{code.value}\b")
    files = [each for each in sorted((ROOT / "tests").rglob("test_*.py")) if seen.search(each.read_text("utf-8"))]
    return "held by " + ", ".join(f"`{each.relative_to(ROOT)}`" for each in files) if files else "no test provokes it"


def generated(rows: list[Row]) -> str:
    """The generated half of the page."""
    lines = ["", "## Methods", "", *methods_table(rows), "", "## Arguments of queues", "", *arguments_table(rows)]
    lines += ["", "## Errors", "", *errors_table(rows), "", "## Behaviours", ""]
    for section, _ in SECTIONS:
        lines += [f"### {section}", "", "| behaviour | held by | RabbitMQ 3.10 |", "|---|---|---|"]
        for row in rows:
            if section_of(row) == section:
                lines.append(f"| {cell(row.behaviour)} | `{row.test}` | {cell(row.ours_only) or 'the same'} |")
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def main() -> None:
    head, marker, _ = PAGE.read_text(encoding="utf-8").partition(MARKER)
    if not marker:
        raise SystemExit(f"{PAGE.name} lacks its marker; put this line where the tables begin: {MARKER}")
    rows = collected()
    PAGE.write_text(head + MARKER + generated(rows), encoding="utf-8")
    sys.stdout.write(f"wrote {len(rows)} behaviours to {PAGE.name}\n")


if __name__ == "__main__":
    main()

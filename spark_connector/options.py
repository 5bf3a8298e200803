"""The options of format("amqp"): one table, from which values, errors and the page in docs/spark.md come.

Spark hands options over as text, with keys in lower case. Passwords are never shown: `password` and what an URL holds
are kept out of `repr`.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlsplit

from amqp_broker.client.address import parse_url
from spark_connector.errors import OptionError
from spark_connector.option_kinds import (
    EARLIEST,
    LATEST,
    any_text,
    boolean,
    choice,
    names,
    number,
    octets,
    offsets,
    seconds,
    text,
    timestamp,
)

PASSWORD_VARIABLE: Final = "AMQP_PASSWORD"
#: Keys that Spark itself adds or reads, which are none of ours.
OF_SPARK: Final = frozenset({"checkpointlocation", "queryname", "outputmode", "path"})

CONNECTION, SOURCE, BATCH, STREAM, SINK = "connection", "source", "batch", "stream", "sink"


@dataclass(frozen=True)
class Option:
    """A row of the table. `default` is the text that a user would write; None: there is none."""

    name: str
    field: str
    group: str
    default: str | None
    kind: Callable[[str], Any]
    doc: str


OPTIONS: Final = (
    Option("uri", "uri", CONNECTION, None, text,
           "amqp://user:password@host:port/vhost, or amqps:// for TLS; a comma separates nodes to try in turn"),
    Option("host", "host", CONNECTION, "localhost", text, "instead of `uri`; a comma separates hosts to try in turn"),
    Option("port", "port", CONNECTION, "5672", number(1, 65535), "with `host`; 5671 where `tls` is on"),
    Option("vhost", "vhost", CONNECTION, "/", text, "with `host`"),
    Option("user", "user", CONNECTION, "guest", text, "with `host`, or where `uri` names none"),
    Option("password", "password", CONNECTION, None, any_text,
           f"better in `passwordFile` or the driver's environment as {PASSWORD_VARIABLE}"),
    Option("passwordFile", "password_file", CONNECTION, None, text, "a file on the driver that holds the password"),
    Option("tls", "tls", CONNECTION, "false", boolean, "with `host`: speak TLS"),
    Option("caFile", "ca_file", CONNECTION, None, text, "certificates to trust, on every machine; else the system's"),
    Option("certFile", "cert_file", CONNECTION, None, text, "the client's certificate, on every machine"),
    Option("keyFile", "key_file", CONNECTION, None, text, "its key, unless it is in `certFile`"),
    Option("connectTimeout", "connect_timeout", CONNECTION, "10s", seconds,
           "how long a query that starts waits for a broker that does not answer"),
    Option("brokerRetryTimeout", "broker_retry_timeout", CONNECTION, "120s", seconds,
           "how long a query that runs waits for a broker that has gone"),
    Option("queue", "queue", SOURCE, None, text, "the queue to read"),
    Option("queues", "queues", SOURCE, None, names, "several queues: names with commas, or a JSON list"),
    Option("mode", "mode", SOURCE, "auto", choice("auto", "stream", "lease", "browse", "staged"),
           "`auto`: of a queue that is a stream `stream`, ranges of its offsets; of others `lease` (streaming "
           "queries) or `browse` (batches). These need an amqp-broker; `staged` reads from any AMQP 0-9-1 broker, at "
           "least once"),
    Option("headersFormat", "headers_format", SOURCE, "map", choice("map", "json", "variant"),
           "`map` of strings; `json`: a text that keeps the types; `variant`: Spark's type, slower"),
    Option("fetchSize", "fetch_size", SOURCE, "4m", octets, "so much is asked of the broker at a time"),
    Option("arrowBatchRows", "arrow_batch_rows", SOURCE, "10000", number(1), "most rows of an Arrow batch"),
    Option("numPartitions", "num_partitions", SOURCE, "4", number(1, 10000),
           "most tasks for a batch of one queue, unless `maxMessagesPerPartition` asks for more; 1 keeps strict order"),
    Option("startingOffsets", "starting_offsets", SOURCE, EARLIEST, offsets,
           "`earliest`, `latest`, or an offset (column `offset`), which is the first that is read; of several streams "
           'a JSON object such as `{"orders": 5, "bills": "latest"}`. Leases have `earliest` only, all that the '
           "group has not settled"),
    Option("startingTimestamp", "starting_timestamp", SOURCE, None, timestamp,
           "of streams, instead: what came then or later; ISO 8601 with a zone, or milliseconds since the epoch"),
    Option("endingOffsets", "ending_offsets", BATCH, LATEST, offsets,
           "`latest`: all that is there when the query is planned; `earliest`; or an offset, which is the first that "
           "is not read; or a JSON object"),
    Option("endingTimestamp", "ending_timestamp", BATCH, None, timestamp, "of streams, instead: what came before"),
    Option("filterValues", "filter_values", SOURCE, None, names,
           "of streams: only what was published with one of these `x-stream-filter-value`s; commas, or a JSON list"),
    Option("matchUnfiltered", "match_unfiltered", SOURCE, "false", boolean, "with `filterValues`: and what has none"),
    Option("group", "group", STREAM, None, text,
           "the lease group: a name of the query's own at each queue; two queries on one group fence each other"),
    Option("maxMessagesPerBatch", "max_messages", STREAM, "250000", number(1),
           "most messages of a batch; also spelled maxOffsetsPerTrigger"),
    Option("maxBytesPerBatch", "max_bytes", STREAM, "256m", octets, "most octets of messages of a batch"),
    Option("minMessagesPerBatch", "min_messages", STREAM, "0", number(0),
           "wait for so many; not with Trigger.AvailableNow"),
    Option("maxTriggerDelay", "max_trigger_delay", STREAM, "15m", seconds, "but no longer than this"),
    Option("maxMessagesPerPartition", "max_per_partition", STREAM, "100000", number(1), "most messages of a task"),
    Option("pollTimeout", "poll_timeout", STREAM, "500ms", seconds, "an empty queue is asked again after this; <= 5s"),
    Option("ackMode", "ack_mode", STREAM, "eager", choice("eager", "commit", "none"),
           "`eager`: settle a batch as soon as Spark has written that it is done; `commit`: when Spark says so, one "
           "batch later; `none`: never"),
    Option("hold", "hold", STREAM, "true", boolean,
           "of streams: keep them from dropping what the query's checkpoint has not seen, up to twice their limits"),
    Option("holdTime", "hold_time", STREAM, "7d", seconds, "so long behind the end of the query, too; >= 10s"),
    Option("failOnDataLoss", "fail_on_data_loss", SOURCE, "true", boolean,
           "false: go on with a warning when the checkpoint speaks of messages that the broker no longer has"),
    Option("stagingDir", "staging_dir", STREAM, None, text,
           "with `mode=staged`: a folder that the driver and all executors share"),
    Option("exchange", "exchange", SINK, "", any_text,
           "where to publish, unless there is a column `exchange`; empty is the default exchange"),
    Option("routingKey", "routing_key", SINK, None, any_text,
           "the routing key (on the default exchange: the queue), unless there is a column `routing_key`"),
    Option("delivery", "delivery", SINK, "confirm", choice("confirm", "transactional"),
           "`confirm`: any broker, at least once; `transactional`: an amqp-broker publishes each batch once, or not"),
    Option("mandatory", "mandatory", SINK, "true", boolean, "fail where no queue takes a message"),
    Option("persistent", "persistent", SINK, "true", boolean, "delivery mode 2, unless a column `delivery_mode` says"),
    Option("maxInFlight", "max_in_flight", SINK, "1000", number(1), "with `confirm`: a task's unconfirmed messages"),
    Option("confirmTimeout", "confirm_timeout", SINK, "60s", seconds, "with `confirm`: the longest wait for confirms"),
    Option("txnAppId", "txn_app_id", SINK, None, text,
           "transactional batch writes, in foreachBatch: what was committed with this and `txnVersion` is not again"),
    Option("txnVersion", "txn_version", SINK, None, number(0), "a number that rises: foreachBatch's batch id"),
    Option("ignoreUnknownColumns", "ignore_unknown_columns", SINK, "false", boolean,
           "leave out columns that are no part of a message, instead of failing"),
    Option("declareQueue", "declare_queue", SINK, "false", boolean,
           "declare the durable queue that `routingKey` names, on the default exchange"),
)  # fmt: skip
ALIASES: Final = {"maxoffsetspertrigger": "maxmessagesperbatch", "username": "user", "virtualhost": "vhost"}
BY_KEY: Final = {each.name.lower(): each for each in OPTIONS}


@dataclass(frozen=True)
class Options:
    """The values, by the names in the table's second column. Pickled into Spark's plans and tasks."""

    values: Mapping[str, Any] = field(repr=False)
    urls: tuple[str, ...] = field(repr=False)
    given: frozenset[str] = frozenset()

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["values"][name]
        except KeyError:
            raise AttributeError(name) from None

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> Options:
        """The values of what a user wrote. Raises OptionError for what is unknown or wrong in itself."""
        values = {each.field: None if each.default is None else each.kind(each.default) for each in OPTIONS}
        given = set()
        for key, value in options.items():
            option = _find(key)
            if option is None:
                continue
            if option.field in given:
                raise OptionError(f"option '{option.name}' is given twice, under two names: give it once")
            given.add(option.field)
            try:
                values[option.field] = option.kind(str(value))
            except ValueError as error:
                shown = "" if option.name in ("password", "uri") else f" cannot be {value!r}"
                raise OptionError(f"option '{option.name}'{shown}: {error}") from None
        _check_together(values, given)
        return cls(values, _urls(values, given), frozenset(given))

    @property
    def source_queues(self) -> tuple[str, ...]:
        """The queues to read. Raises OptionError if there is none."""
        if self.queue is not None:
            return (self.queue,)
        if self.queues is None:
            raise OptionError("option 'queue' is missing: .option(\"queue\", \"orders\"), or 'queues' for several")
        return tuple(self.queues)

    def starting_offset_of(self, queue: str) -> int | str:
        """Where a query of a stream begins."""
        said: int | str | dict[str, int | str] = self.starting_offsets
        return said.get(queue, EARLIEST) if isinstance(said, dict) else said

    def ending_offset_of(self, queue: str) -> int | str:
        """Where a batch of a stream ends."""
        said: int | str | dict[str, int | str] = self.ending_offsets
        return said.get(queue, LATEST) if isinstance(said, dict) else said

    @property
    def where(self) -> str:
        """The brokers' addresses, for error texts: no user, no password."""
        return ", ".join(str(parse_url(url)) for url in self.urls)


def _find(key: str) -> Option | None:
    """The option that a key names; None for one of Spark's own. Raises OptionError for one that nobody knows."""
    lowered = key.lower()
    option = BY_KEY.get(ALIASES.get(lowered, lowered))
    if option is None and lowered not in OF_SPARK:
        near = difflib.get_close_matches(lowered, BY_KEY, 1, 0.6)
        hint = f"did you mean '{BY_KEY[near[0]].name}'?" if near else "docs/spark.md lists all"
        raise OptionError(f"option '{key}' is unknown to format amqp: {hint}")
    return option


def _check_together(values: Mapping[str, Any], given: set[str]) -> None:
    if {"queue", "queues"} <= given:
        raise OptionError("options 'queue' and 'queues' exclude each other: give one of them")
    if "uri" in given and given & {"host", "port", "vhost", "tls"}:
        raise OptionError("option 'uri' already says host, port, vhost and tls: leave those out, or 'uri'")
    if {"password", "password_file"} <= given:
        raise OptionError("options 'password' and 'passwordFile' exclude each other: give one of them")
    _check_offsets(values)
    if values["poll_timeout"] > 5:
        raise OptionError("option 'pollTimeout' can be 5s at most")
    if values["hold_time"] < 10:
        raise OptionError("option 'holdTime' has to be 10s at least; hold=false is a query without one")
    for end in ("starting", "ending"):
        if {f"{end}_offsets", f"{end}_timestamp"} <= given:
            raise OptionError(f"options '{end}Offsets' and '{end}Timestamp' exclude each other: give one of them")
    if ("txn_app_id" in given) != ("txn_version" in given):
        raise OptionError("options 'txnAppId' and 'txnVersion' belong together: give both, or none")
    if "key_file" in given and "cert_file" not in given:
        raise OptionError("option 'keyFile' is the key of a certificate: give 'certFile' too")
    if "txn_app_id" in given and values["delivery"] != "transactional":
        raise OptionError("option 'txnAppId' needs delivery=transactional")
    if values["mode"] == "staged" and values["staging_dir"] is None and "group" in given:
        raise OptionError("option 'stagingDir' is missing: mode=staged needs a folder that all machines share")


def _check_offsets(values: Mapping[str, Any]) -> None:
    start, end = values["starting_offsets"], values["ending_offsets"]
    if values["queues"] is not None and len(values["queues"]) > 1:
        for name, value in (("startingOffsets", start), ("endingOffsets", end)):
            if isinstance(value, int):
                raise OptionError(
                    f"option '{name}' cannot be {value} with several 'queues', whose offsets have nothing in common: "
                    "read one 'queue' at a time"
                )
    if isinstance(start, int) and isinstance(end, int) and start > end:
        raise OptionError(f"option 'startingOffsets' ({start}) cannot be behind 'endingOffsets' ({end})")


def _urls(values: Mapping[str, Any], given: set[str]) -> tuple[str, ...]:
    """One URL for each node, with user and password in it. Raises OptionError."""
    if values["uri"] is not None:
        urls = [each.strip() for each in values["uri"].split(",") if each.strip()]
    else:
        port = values["port"] if "port" in given else 5671 if values["tls"] else 5672
        scheme = "amqps" if values["tls"] else "amqp"
        hosts = [each.strip() for each in values["host"].split(",") if each.strip()]
        shown = [f"[{host}]" if ":" in host and not host.startswith("[") else host for host in hosts]
        urls = [f"{scheme}://{host}:{port}/{quote(values['vhost'], safe='')}" for host in shown]
    if not urls:
        raise OptionError("option 'uri' names no broker: write amqp://user:password@host:port/vhost")
    password = _password(values)
    made = tuple(_with_login(url, values["user"], password, "user" in given) for url in urls)
    for name, value in (("caFile", "ca_file"), ("certFile", "cert_file"), ("keyFile", "key_file")):
        if value in given and not all(url.startswith("amqps:") for url in made):
            raise OptionError(f"option '{name}' is for TLS: write amqps:// in 'uri', or tls=true with 'host'")
    return made


def _password(values: Mapping[str, Any]) -> str | None:
    if values["password"] is not None:
        return str(values["password"])
    if values["password_file"] is None:
        return os.environ.get(PASSWORD_VARIABLE)
    try:
        return Path(values["password_file"]).read_text(encoding="utf-8").rstrip("\r\n")
    except OSError as error:
        raise OptionError(f"option 'passwordFile': cannot read {values['password_file']}: {error.strerror}") from None


def _with_login(url: str, user: str, password: str | None, user_given: bool) -> str:
    """The URL with the user and password that hold for it: its own before those of the options."""
    try:
        address = parse_url(url)
    except ValueError:
        scheme = url.partition("://")[0] if "://" in url else ""
        raise OptionError(
            f"option 'uri' is no AMQP URL (scheme {scheme!r}): write amqp://user:password@host:port/vhost, or amqps://"
        ) from None
    parts = urlsplit(url)
    name = address.user if parts.username is not None else user if user_given else "guest"
    secret = address.password if parts.password is not None else "guest" if password is None else password
    host = f"[{address.host}]" if ":" in address.host else address.host
    login = f"{quote(name, safe='')}:{quote(secret, safe='')}"
    return f"{parts.scheme}://{login}@{host}:{address.port}/{quote(address.virtual_host, safe='')}"

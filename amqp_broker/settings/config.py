"""Config: every setting of the broker, once: one frozen dataclass whose fields carry type, default, unit, doc
and group.

Command-line flags, environment variables, TOML keys and docs/configuration.md are all generated from its
fields, so a setting is added by adding one field. Precedence: flag, environment, file, default
(`amqp_broker.settings.sources`).

An attribute that holds a number says its unit last (`memory_budget_bytes`, `heartbeat_ms`). The setting's key
is the same name without the unit, because the value that a person writes carries it: `--memory-budget
256MiB`, AMQP_BROKER_HEARTBEAT=30s, `page_size = "256KiB"`. `frame_max`, `initial_frame_max` and `channel_max`
are spelt as AMQP does.

Invariants:
1. A Config that exists is valid: the constructor checks bounds and the rules between fields, and raises
   ConfigError.
2. It never changes; nothing keeps a global one.
3. The text of a secret never leaves through `show`, `repr` or an error.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from pathlib import Path

from amqp_broker.settings.cluster_config import CLUSTER_SETTINGS, ClusterConfig
from amqp_broker.settings.kinds import (
    ADDRESSES,
    BOOLEAN,
    COUNT,
    COUNTS,
    DURATION,
    FILE,
    FOLDER,
    FRAME_SIZE,
    KIB,
    MIB,
    NAMES,
    PROCESSES,
    SECOND,
    SECRET,
    SIZE,
    TEXT,
    WORKER_MARK,
    Address,
)
from amqp_broker.settings.setting import Setting, setting, setting_of

NETWORK = "Network"
PROTOCOL = "Protocol"
SECURITY = "Security"
STORAGE = "Storage and memory"
FLOW = "Flow control"
LIMITS = "Limits"
QUEUES = "Queues and consumers"
NODE = "Node"

#: What an entry of a log holds besides a message's body and header, octets, generously; or many small messages.
ENTRY_ROOM_BYTES = 2 * MIB

PUBLIC_PASSWORD = "guest"  # that of RabbitMQ's first user, which everybody knows
TEMPORARY_PREFIX = "amqp-broker-"  # how the name of a temporary data folder begins
LOOPBACK_HOSTS = ("localhost", "::1")


def default_memory_budget_bytes() -> int:
    """40 % of the machine's memory, or of its control group's if that is less; at least 64 MiB."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for limit_file in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            limit = Path(limit_file).read_text(encoding="ascii").strip()
        except OSError:
            continue
        if limit.isdigit():
            total = min(total, int(limit))
    return max(64 * MIB, total * 2 // 5 // MIB * MIB)


def default_max_partial_messages_bytes() -> int:
    """A quarter of the default memory budget."""
    return default_memory_budget_bytes() // 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Config(ClusterConfig):
    """Everything that can be set.

    Numbers are octets (`_bytes`, `frame_max`), milliseconds (`_ms`) or counts.
    """

    listen: tuple[Address, ...] = setting(
        ADDRESSES,
        (Address("127.0.0.1", 5672),),
        NETWORK,
        "Addresses for plain AMQP. Port 0 takes a free one. Empty: none.",
    )
    tls_listen: tuple[Address, ...] = setting(ADDRESSES, (), NETWORK, "Addresses for AMQP over TLS.")
    tls_certificate: Path | None = setting(FILE, None, NETWORK, "The server's certificate chain, PEM.")
    tls_key: Path | None = setting(FILE, None, NETWORK, "The server's private key, PEM.")
    tls_client_ca: Path | None = setting(
        FILE,
        None,
        NETWORK,
        "Authorities whose client certificates are accepted, PEM; needed for the EXTERNAL mechanism.",
    )
    tls_verify_client: bool = setting(
        BOOLEAN, False, NETWORK, "Refuse TLS clients that show no certificate signed by `tls_client_ca`."
    )
    listen_backlog: int = setting(
        COUNT,
        1024,
        NETWORK,
        "Connections that the kernel keeps waiting to be accepted.",
        minimum=1,
        maximum=65535,
    )
    tls_handshake_timeout_ms: int = setting(
        DURATION, 5 * SECOND, NETWORK, "A TLS handshake that takes longer is dropped.", minimum=100
    )
    management_listen: tuple[Address, ...] = setting(
        ADDRESSES,
        (Address("127.0.0.1", 15672),),
        NETWORK,
        "Addresses of the HTTP API, served by a process of its own, which nobody misses where they are taken; or off.",
    )
    management_allowed_hosts: tuple[str, ...] = setting(
        NAMES,
        (),
        NETWORK,
        "Names by which the HTTP API may be asked over a loopback address, beside those of this machine: those of a "
        "proxy on it that hands on the name its clients said; * for any.",
    )
    prometheus_listen: tuple[Address, ...] = setting(
        ADDRESSES,
        (Address("127.0.0.1", 15692),),
        NETWORK,
        "Addresses of the metrics for Prometheus, which ask for no login; served by the same process; or off.",
    )
    handshake_timeout_ms: int = setting(
        DURATION,
        10 * SECOND,
        NETWORK,
        "From the accepted transport to connection.open; later ones are dropped.",
        minimum=100,
    )
    closing_timeout_ms: int = setting(
        DURATION,
        10 * SECOND,
        NETWORK,
        "How long the end of a connection waits for the client's close-ok, and for it to close the transport.",
        minimum=100,
    )
    shutdown_timeout_ms: int = setting(
        DURATION,
        3 * SECOND,
        NETWORK,
        "How long a stopping broker waits for its connections to close.",
        minimum=0,
    )
    drain_pace: int = setting(
        COUNT, 100, NETWORK, "Connections that a node closes in a second while it is drained.", minimum=1
    )

    frame_max: int = setting(
        FRAME_SIZE,
        128 * KIB,
        PROTOCOL,
        "Largest frame offered in connection.tune, in octets, envelope included.",
        minimum=4096,
        maximum=16 * MIB,
    )
    initial_frame_max: int = setting(
        FRAME_SIZE,
        8 * KIB,
        PROTOCOL,
        "Largest frame accepted before the login is complete.",
        minimum=4096,
        maximum=16 * MIB,
    )
    channel_max: int = setting(
        COUNT, 2047, PROTOCOL, "Channels that one connection may have open at once.", minimum=1, maximum=65535
    )
    heartbeat_ms: int = setting(
        DURATION,
        60 * SECOND,
        PROTOCOL,
        "Heartbeat interval offered in connection.tune, in whole seconds.",
        minimum=0,
        maximum=65535 * SECOND,
        off=0,
    )

    default_user: str = setting(TEXT, "guest", SECURITY, "The administrator made in an empty data folder.")
    default_password: str = setting(
        SECRET,
        PUBLIC_PASSWORD,
        SECURITY,
        "Its password. Prefer the environment or the file: flags show in the process list.",
    )
    default_vhost: str = setting(TEXT, "/", SECURITY, "The virtual host made in an empty data folder.")
    loopback_users: tuple[str, ...] = setting(
        NAMES, ("guest",), SECURITY, "Users who may log in from this machine only."
    )
    login_backoff_ms: int = setting(
        DURATION,
        1 * SECOND,
        SECURITY,
        "After a failed login its address waits this long; doubled each time, to `login_backoff_max`.",
        minimum=0,
        off=0,
    )
    login_backoff_max_ms: int = setting(DURATION, 30 * SECOND, SECURITY, "The longest such wait.", minimum=0)
    login_refusal_delay_ms: int = setting(
        DURATION,
        3 * SECOND,
        SECURITY,
        "Wait before dropping a failed login without the authentication_failure_close capability.",
        minimum=0,
    )
    audit_log: bool = setting(
        BOOLEAN,
        True,
        SECURITY,
        "Write down in the data folder who changed what, from where, and which logins were refused.",
    )
    audit_file_size_bytes: int = setting(
        SIZE,
        16 * MIB,
        SECURITY,
        "A file of the audit log that has grown to this size is followed by a new one.",
        minimum=4 * KIB,
    )
    audit_files: int = setting(
        COUNT, 8, SECURITY, "So many files of the audit log are kept; the oldest one makes room.", minimum=1
    )
    audit_backlog_bytes: int = setting(
        SIZE,
        1 * MIB,
        SECURITY,
        "Lines of the audit log that wait for the disk; more are counted, and the count is a line.",
        minimum=64 * KIB,
    )

    data_dir: Path = setting(
        FOLDER,
        lambda: Path("data"),
        STORAGE,
        "The folder that holds everything durable.",
        default_text="./data",
    )
    memory_budget_bytes: int = setting(
        SIZE,
        default_memory_budget_bytes,
        STORAGE,
        "What all queues together may keep in RAM; beyond it they page to disk.",
        minimum=1 * MIB,
        default_text="40 % of RAM, at least 64MiB",
    )
    disk_free_limit_bytes: int = setting(
        SIZE,
        256 * MIB,
        STORAGE,
        "With less free disk than this, publishers are blocked: transient messages page to disk too.",
        minimum=0,
    )
    journal_segment_size_bytes: int = setting(
        SIZE,
        64 * MIB,
        STORAGE,
        "A journal segment that has grown to this size is followed by a new one.",
        minimum=64 * KIB,
    )
    inline_sync_bytes: int = setting(
        SIZE,
        64 * KIB,
        STORAGE,
        "A group commit of at most this is synced by the loop itself, as long as the disk is quick (10 ms); larger "
        "ones, and all while it is not, by a thread.",
        minimum=0,
        off=0,
    )
    journal_limit_bytes: int = setting(
        SIZE,
        256 * MIB,
        STORAGE,
        "With a longer journal, what is still live in its oldest segment moves to the queues' own pages.",
        minimum=128 * KIB,
    )
    page_size_bytes: int = setting(
        SIZE,
        256 * KIB,
        STORAGE,
        "Messages that leave RAM are written in pages of about this size.",
        minimum=4 * KIB,
        maximum=64 * MIB,
    )
    page_segment_size_bytes: int = setting(
        SIZE, 16 * MIB, STORAGE, "Size of the files that hold a queue's pages.", minimum=64 * KIB
    )
    queue_head_messages: int = setting(
        COUNT, 512, STORAGE, "Messages at its head that a queue keeps in RAM although it pages.", minimum=1
    )
    queue_head_size_bytes: int = setting(
        SIZE,
        1 * MIB,
        STORAGE,
        "Size at which that head is long enough, even with fewer messages.",
        minimum=4 * KIB,
    )
    queue_large_head_size_bytes: int = setting(
        SIZE,
        128 * MIB,
        STORAGE,
        "The same for messages of 16 KiB and more that are not in the journal: in the head they are not copied.",
        minimum=0,
    )
    verify_at_start_bytes: int = setting(
        SIZE,
        2048 * MIB,
        STORAGE,
        "So much of the queues' pages is verified before clients are accepted; the rest soon after the start.",
        minimum=0,
    )
    recover: bool = setting(
        BOOLEAN,
        False,
        STORAGE,
        "Set damaged parts of the data folder aside (never deleting them) and start; without it, refuse.",
    )

    output_limit_bytes: int = setting(
        SIZE, 1 * MIB, FLOW, "Unsent output of a connection at which deliveries to it stop.", minimum=64 * KIB
    )
    output_pause_bytes: int = setting(
        SIZE,
        4 * MIB,
        FLOW,
        "Unsent output of a connection at which nothing more is read from it: it never reads its replies.",
        minimum=64 * KIB,
    )
    confirm_delay_ms: int = setting(
        DURATION,
        0,
        FLOW,
        "A confirm that could leave waits so long for others of its channel: one write for many, where thousands of "
        "publishers each say little.",
        minimum=0,
        maximum=1 * SECOND,
        off=0,
    )
    publish_backlog_bytes: int = setting(
        SIZE,
        32 * MIB,
        FLOW,
        "Journal octets waiting for a sync at which publishers are paused.",
        minimum=64 * KIB,
    )
    max_unacked_per_channel: int = setting(
        COUNT,
        1_000_000,
        FLOW,
        "Unacknowledged deliveries of a channel at which deliveries to it stop.",
        minimum=1,
    )

    max_connections: int = setting(COUNT, 10_000, LIMITS, "Connections at once; more are refused with 530.", minimum=1)
    max_pending_handshakes: int = setting(
        COUNT,
        1000,
        LIMITS,
        "Transports that have not logged in yet; the oldest is dropped when one more comes.",
        minimum=1,
    )
    max_closing_connections: int = setting(
        COUNT,
        1000,
        LIMITS,
        "Connections that are at their end and wait for the client to close; the oldest is dropped for one more.",
        minimum=1,
    )
    max_consumers_per_channel: int = setting(COUNT, 4096, LIMITS, "Consumers of one channel.", minimum=1)
    max_message_size_bytes: int = setting(
        SIZE,
        128 * MIB,
        LIMITS,
        "Largest message body; above it the channel closes with 406.",
        minimum=1,
        maximum=512 * MIB,
    )
    max_partial_messages_bytes: int = setting(
        SIZE,
        default_max_partial_messages_bytes,
        LIMITS,
        "Messages of which a part has come, on all connections; above it the oldest one's channel closes with 311.",
        minimum=1 * KIB,
        default_text="10 % of RAM, at least 16MiB",
    )
    max_turn_copies: int = setting(
        COUNT,
        20_000,
        LIMITS,
        "Copies of messages for 16 queues or more that are made at a time; then other connections have their turn. "
        "A request, such as basic.get, counts as 16 copies, one of the classes queue and exchange as 100. "
        "A turn of two milliseconds is over however little was done in it.",
        minimum=1,
    )
    max_delivery_delay_ms: int = setting(
        DURATION,
        25,
        LIMITS,
        "For so long deliveries of a connection that has had its share of a turn wait for more of them to leave with; "
        "0: not at all.",
        minimum=0,
    )
    background_time_ms: int = setting(
        DURATION,
        1,
        LIMITS,
        "How long work that costs by the number of messages, queues or bindings goes on before others have their turn.",
        minimum=1,
    )
    management_turn_time_us: int = setting(
        COUNT,
        50,
        LIMITS,
        "How long what the management asks of the node lengthens a turn: microseconds; what is begun then is ended.",
        minimum=1,
    )
    max_header_size_bytes: int = setting(
        SIZE,
        128 * KIB,
        LIMITS,
        "Largest content header (properties and headers table) of a message.",
        minimum=1 * KIB,
    )
    max_table_depth: int = setting(
        COUNT, 128, LIMITS, "Nesting of tables and arrays in a field table.", minimum=1, maximum=500
    )
    max_death_history_bytes: int = setting(
        SIZE,
        64 * KIB,
        LIMITS,
        "What the header x-death of a dead letter grows to; above it the oldest deaths are left out.",
        minimum=0,
    )
    max_tx_size_bytes: int = setting(SIZE, 128 * MIB, LIMITS, "Messages held by one open transaction.", minimum=1 * KIB)
    max_tx_at_once: int = setting(
        COUNT,
        1000,
        LIMITS,
        "A tx.commit of so many publishes and acknowledgements takes effect at once, a longer one in parts.",
        minimum=0,
    )
    max_vhosts: int = setting(COUNT, 10_000, LIMITS, "Virtual hosts of the node.", minimum=1)
    max_queues: int = setting(COUNT, 1_000_000, LIMITS, "Queues of the node.", minimum=1)
    max_exchanges: int = setting(
        COUNT, 100_000, LIMITS, "Exchanges of the node, the predeclared ones not counted.", minimum=1
    )
    max_bindings: int = setting(COUNT, 5_000_000, LIMITS, "Bindings of the node.", minimum=1)
    max_cached_routes: int = setting(
        COUNT,
        131_072,
        LIMITS,
        "Pairs of exchange and routing key whose queues a virtual host remembers; each takes some 150 octets.",
        minimum=1,
        maximum=16_000_000,
    )

    unroutable_kept: int = setting(
        COUNT,
        1000,
        LIMITS,
        "Of so many messages that went to no queue the node knows where they were sent, by whom and when.",
        minimum=0,
        maximum=1_000_000,
        off=0,
    )

    max_taps: int = setting(
        COUNT, 16, LIMITS, "Traces and live tails that observe messages at the same time.", minimum=1, maximum=1000
    )
    trace_events_per_second: int = setting(
        COUNT, 500, LIMITS, "What one trace records in a second; of the rest it counts how much there was.", minimum=10
    )
    statistics_objects: int = setting(
        COUNT,
        50_000,
        LIMITS,
        "Of so many queues, connections, channels and exchanges together the management process remembers what they "
        "counted, for rates: some 1.5 KiB of memory each. Of more, those that were looked at last.",
        minimum=100,
        maximum=10_000_000,
    )
    management_list_rows: int = setting(
        COUNT,
        100_000,
        LIMITS,
        "Whole lists of queues, connections and the like are given again for a second, so many rows of all of them "
        "together: some 2 KiB of memory each. Of more, those that were read first are read anew.",
        minimum=0,
        maximum=10_000_000,
    )
    trace_events_kept: int = setting(
        COUNT,
        10_000,
        LIMITS,
        "What one trace keeps of what it has recorded; then the oldest makes room.",
        minimum=10,
        maximum=1_000_000,
    )
    tail_messages_per_second: int = setting(
        COUNT, 50, LIMITS, "Copies of messages that one live tail makes in a second.", minimum=10, maximum=1000
    )

    max_stream_partitions: int = setting(
        COUNT,
        256,
        LIMITS,
        "Partitions of one stream (x-stream-partitions); each is a stream of its own.",
        minimum=1,
        maximum=10_000,
    )
    stream_direct_bytes: int = setting(
        SIZE,
        32 * KIB,
        STORAGE,
        "Chunks of a stream (what a node's clients publish to it in a turn) from this size on are written to the "
        "stream's own file at once, and not to the journal.",
        minimum=1 * KIB,
    )
    stream_position_messages: int = setting(
        COUNT,
        1000,
        LIMITS,
        "After so many settled messages of a group of readers a stream keeps how far it is.",
        minimum=1,
    )
    stream_position_ms: int = setting(
        DURATION,
        100,
        LIMITS,
        "After this time it does so for fewer. After a crash at most so much is delivered again.",
        minimum=1,
    )
    stream_handover_ms: int = setting(
        DURATION,
        5 * SECOND,
        LIMITS,
        "For so long a consumer of a group that was cancelled may settle what it holds, before the next one reads on.",
        minimum=0,
    )
    stream_ahead_bytes: int = setting(
        SIZE,
        64 * MIB,
        LIMITS,
        "RAM for what the readers of streams of which a node has no copy have ahead of themselves, all together; where "
        "they are very many, a chunk each.",
        minimum=1 * MIB,
    )
    stream_far_bytes: int = setting(
        SIZE,
        64 * MIB,
        LIMITS,
        "A reader with more of a stream than this before it is far behind: while others are busy, they come first.",
        minimum=64 * KIB,
    )
    stream_far_percent: int = setting(
        COUNT,
        15,
        LIMITS,
        "All readers of a node that are far behind have so much of its time together, in percent, however busy others "
        "are, and all that they can use while others are not. More of it catches up sooner and slows others down more.",
        minimum=1,
        maximum=100,
    )
    stream_compaction_ms: int = setting(
        DURATION,
        60 * SECOND,
        LIMITS,
        "So often a stream with x-stream-compact is looked at for whether it is worth compacting.",
        minimum=10,
    )
    stream_compaction_percent: int = setting(
        COUNT,
        50,
        LIMITS,
        "It is when so much of it in octets is not compacted yet, in percent.",
        minimum=1,
        maximum=100,
    )
    stream_compaction_keys_bytes: int = setting(
        SIZE,
        64 * MIB,
        LIMITS,
        "RAM for the keys of the stream that a node compacts, one at a time; a key takes 200 octets. A stream whose "
        "new part has more of them is compacted in several goes.",
        minimum=64 * KIB,
    )
    stream_compression_ms: int = setting(
        DURATION,
        10 * SECOND,
        LIMITS,
        "So often a stream with x-stream-compression is looked at for pages that have left RAM.",
        minimum=10,
    )
    stream_retention_ms: int = setting(
        DURATION,
        10 * SECOND,
        LIMITS,
        "So often a stream with limits is looked at by the node that leads it, whether or not somebody publishes: what "
        "is too old or too much then goes.",
        minimum=10,
    )
    max_lease_groups: int = setting(COUNT, 100, LIMITS, "Lease groups of one queue.", minimum=1)
    max_claim_messages: int = setting(
        COUNT, 1_000_000, LIMITS, "Messages that one lease.claim takes, whatever it asks for.", minimum=1
    )
    max_txn_apps: int = setting(COUNT, 100_000, LIMITS, "Apps of txn.* that have their home on this node.", minimum=1)
    max_blob_size_bytes: int = setting(
        SIZE,
        8 * MIB,
        LIMITS,
        "What lease.fetch and lease.browse answer at most, and txn.stage takes at once; one message at least.",
        minimum=64 * KIB,
        maximum=64 * MIB,
    )

    consumer_timeout_ms: int = setting(
        DURATION,
        0,
        QUEUES,
        "A delivery that stays unacknowledged for longer cancels its consumer and is requeued.",
        minimum=0,
        off=0,
    )
    delivery_limit: int = setting(
        COUNT,
        -1,
        QUEUES,
        "How often a message may come back to a classic queue of which nothing says how often (x-delivery-limit, the "
        "policy key delivery-limit; -1 is without limit); then it is dead-lettered, or dropped. Quorum queues have a "
        "limit of 20 of their own.",
        minimum=-1,
        off=-1,
    )

    txn_expires_ms: int = setting(
        DURATION,
        86_400 * SECOND,
        QUEUES,
        "What txn.stage has brought is dropped when it was not added to for so long, and not committed.",
        minimum=100,
    )

    txn_app_expires_ms: int = setting(
        DURATION,
        90 * 86_400 * SECOND,
        QUEUES,
        "An app that has committed nothing for so long, and has nothing staged, is forgotten, its last epoch too.",
        minimum=100,
    )

    workers: int = setting(
        PROCESSES,
        1,
        NODE,
        "Processes that share the clients and the classic queues of this node, each on a core of its own; auto: as "
        "many as there are processors, one fewer from 8 on.",
    )
    worker_timeout_ms: int = setting(
        DURATION,
        10 * SECOND,
        NODE,
        "A worker whose loop has stood still for so long is killed, and started again.",
        minimum=500,
    )
    worker_busy_after_ms: int = setting(
        DURATION,
        30 * SECOND,
        NODE,
        "A worker that has used nearly all of a core for so long, while the others have used less than half of one on "
        "average, logs which queue makes most of its work; 0: none does.",
    )
    steering: str = setting(
        TEXT,
        "auto",
        NODE,
        "Whether connections of clients move to the worker that has the classic queue they use, or leads the group of "
        "the quorum queue or stream; off: each stays at the worker that it came to.",
        choices=("auto", "off"),
    )
    spread_groups: bool = setting(
        BOOLEAN,
        False,
        NODE,
        "The groups of quorum queues and streams of a new data folder are spread over its workers, and stay where they "
        "are then; without it all are worker 0's.",
    )
    worker: int = setting(
        COUNT, 0, NODE, "Which of the workers this process is.", minimum=0, maximum=65535, is_hidden=True
    )
    worker_processes: int = setting(
        COUNT, 1, NODE, "How many workers there are, those included that get no clients.", minimum=1, is_hidden=True
    )
    worker_joins: bool = setting(
        BOOLEAN,
        False,
        NODE,
        "Other workers of this node are running when this one starts: what outlives a worker, and no node, stays.",
        is_hidden=True,
    )
    worker_memory_bytes: int = setting(
        SIZE, 0, NODE, "What this worker has of memory_budget for certain; 0: all of it.", minimum=0, is_hidden=True
    )
    group_workers: tuple[int, ...] = setting(
        COUNTS,
        (),
        NODE,
        "Which worker has the log of each group of quorum queues, from group 1 on; worker 0, where none is said.",
        is_hidden=True,
    )
    log_level: str = setting(
        TEXT,
        "info",
        NODE,
        "The least that is logged on standard error.",
        choices=("debug", "info", "warning", "error"),
    )
    log_format: str = setting(
        TEXT,
        "text",
        NODE,
        "How a line of the log is written: as text, or as a JSON object.",
        choices=("text", "json"),
    )
    timings: bool = setting(
        BOOLEAN,
        False,
        NODE,
        "Measure how long messages are at each station of their way; `statistics` tells. For looking into latencies.",
    )
    load_definitions: Path | None = setting(
        FILE, None, NODE, "Definitions in RabbitMQ's JSON format, imported at each start."
    )
    exit_with_parent: bool = setting(
        BOOLEAN,
        False,
        NODE,
        "Stop when standard input reaches its end: for a broker inside another program.",
        is_hidden=True,
    )
    data_dir_is_temporary: bool = setting(
        BOOLEAN,
        False,
        NODE,
        "Remove the data folder when the parent is gone, who would have removed it.",
        is_hidden=True,
    )

    def __post_init__(self) -> None:
        ClusterConfig.__post_init__(self)
        for each in OWN_SETTINGS:
            each.check(getattr(self, each.attribute))
        self._check_rules()

    @property
    def has_workers(self) -> bool:
        """Whether this process is one of several of its node."""
        return self.worker_processes > 1

    def _host_name(self) -> str:
        """See ClusterConfig."""
        return self.node_name.removesuffix(f"{WORKER_MARK}{self.worker}") if self.worker else self.node_name

    def _check_rules(self) -> None:
        """The rules between fields."""
        if not self.listen and not self.tls_listen:
            raise self._refuse("listen", "at least one address here or in tls_listen, or nobody can come in")
        if self.tls_listen and (self.tls_certificate is None or self.tls_key is None):
            raise self._refuse("tls_listen", "only together with tls_certificate and tls_key; set both")
        if self.tls_verify_client and self.tls_client_ca is None:
            raise self._refuse("tls_verify_client", "only together with tls_client_ca, the accepted authorities")
        if self.heartbeat_ms % SECOND:
            raise self._refuse("heartbeat", "whole seconds from 1s to 65535s, or off")
        if self.initial_frame_max > self.frame_max:
            raise self._refuse("initial_frame_max", f"at most frame_max, which is {self.frame_max}")
        if self.journal_limit_bytes < 2 * self.journal_segment_size_bytes:
            raise self._refuse(
                "journal_limit",
                "at least twice the journal_segment_size; make one larger or the other smaller",
            )
        if self.output_pause_bytes < self.output_limit_bytes:
            raise self._refuse("output_pause", f"at least output_limit, which is {self.output_limit_bytes}")
        largest = self.max_entry_bytes - self.max_header_size_bytes - ENTRY_ROOM_BYTES
        if self.max_message_size_bytes > largest:
            raise self._refuse(
                "max_message_size",
                f"at most {max(0, largest)} octets while cluster_frame_max is {self._shown('cluster_frame_max')}: a "
                f"message goes from node to node in one frame; raise cluster_frame_max, and peer_buffer_limit with it",
            )
        is_open = any(not is_loopback(address.host) for address in self.listen + self.tls_listen)
        if is_open and self.default_password == PUBLIC_PASSWORD and self.default_user not in self.loopback_users:
            raise self._refuse(
                "loopback_users",
                f"a list with {self.default_user}, whose password everybody knows; or set default_password",
            )


def is_loopback(host: str) -> bool:
    """True if only this machine can reach the host (a name other than localhost could be anything)."""
    return host in LOOPBACK_HOSTS or host.startswith("127.")


OWN_SETTINGS: tuple[Setting, ...] = tuple(map(setting_of, fields(Config)[len(CLUSTER_SETTINGS) :]))
SETTINGS: tuple[Setting, ...] = OWN_SETTINGS + CLUSTER_SETTINGS
SETTINGS_BY_KEY: dict[str, Setting] = {each.key: each for each in SETTINGS}

"""The names of RabbitMQ's exporter that dashboards ask for, and which count of ours each is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from amqp_broker.web.prometheus.text import COUNTER, GAUGE


@dataclass(frozen=True, slots=True)
class Metric:
    """`name` without prefix; `field` is the node's word for it. What a node does not count has no sample."""

    name: str
    field: str
    kind: str
    help: str


def counter(name: str, field: str, text: str) -> Metric:
    return Metric(name, field, COUNTER, text)


def gauge(name: str, field: str, text: str) -> Metric:
    return Metric(name, field, GAUGE, text)


TOTALS: Final = (
    gauge("connections", "connections", "Connections that are open"),
    gauge("channels", "channels", "Channels that are open"),
    gauge("consumers", "consumers", "Consumers that are subscribed"),
    gauge("queues", "queues", "Queues that are there"),
)
CHURN: Final = (
    counter("connections_opened_total", "connection_created", "Connections that were opened"),
    counter("connections_closed_total", "connection_closed", "Connections that were closed"),
    counter("connections_moved_total", "connection_moved", "Connections that moved from one worker to another"),
    counter("channels_opened_total", "channel_created", "Channels that were opened"),
    counter("channels_closed_total", "channel_closed", "Channels that were closed"),
    counter("queues_declared_total", "queue_declared", "Queues that were declared, new ones or not"),
    counter("queues_created_total", "queue_created", "Queues that were made"),
    counter("queues_deleted_total", "queue_deleted", "Queues that were deleted"),
)
AUTH: Final = (
    counter("auth_attempts_total", "auth_attempts", "Logins that were tried"),
    counter("auth_attempts_succeeded_total", "auth_attempts_succeeded", "Logins that succeeded"),
    counter("auth_attempts_failed_total", "auth_attempts_failed", "Logins that were refused"),
)
QUEUE_COARSE: Final = (
    gauge("queue_messages_ready", "messages_ready", "Messages ready to be delivered"),
    gauge("queue_messages_unacked", "messages_unacknowledged", "Messages delivered and not yet acknowledged"),
    gauge("queue_messages", "messages", "Messages ready and unacknowledged together"),
    counter("queue_process_reductions_total", "reductions", "Always 0: there are no Erlang processes"),
)
QUEUE_CONSUMERS: Final = (gauge("queue_consumers", "consumers", "Consumers of a queue"),)
QUEUE: Final = (
    gauge("queue_consumer_capacity", "consumer_capacity", "Share of time in which consumers could take messages"),
    gauge("queue_consumer_utilisation", "consumer_utilisation", "The same as consumer capacity"),
    gauge("queue_process_memory_bytes", "memory", "Memory of a queue"),
    gauge("queue_messages_ram", "messages_ram", "Messages in memory"),
    gauge("queue_messages_ram_bytes", "message_bytes_ram", "Size of the messages in memory"),
    gauge("queue_messages_ready_ram", "messages_ready_ram", "Ready messages in memory"),
    gauge("queue_messages_unacked_ram", "messages_unacknowledged_ram", "Unacknowledged messages in memory"),
    gauge("queue_messages_persistent", "messages_persistent", "Persistent messages"),
    gauge("queue_messages_persistent_bytes", "message_bytes_persistent", "Size of persistent messages"),
    gauge("queue_messages_bytes", "message_bytes", "Size of all messages"),
    gauge("queue_messages_ready_bytes", "message_bytes_ready", "Size of ready messages"),
    gauge("queue_messages_unacked_bytes", "message_bytes_unacknowledged", "Size of unacknowledged messages"),
    gauge("queue_head_message_timestamp", "head_message_timestamp", "Timestamp of the first message"),
    counter("queue_disk_reads_total", "disk_reads", "Messages read from the disk"),
    counter("queue_disk_writes_total", "disk_writes", "Messages written to the disk"),
    gauge("stream_segments", "stream_segments", "Files in which the messages of a stream lie"),
)
QUEUE_DELIVERY: Final = (
    counter("queue_get_ack_total", "get", "Messages got, to be acknowledged"),
    counter("queue_get_total", "get_no_ack", "Messages got without acknowledgement"),
    counter("queue_get_empty_total", "get_empty", "Gets that found the queue empty"),
    counter("queue_messages_delivered_ack_total", "deliver", "Messages delivered, to be acknowledged"),
    counter("queue_messages_delivered_total", "deliver_no_ack", "Messages delivered without acknowledgement"),
    counter("queue_messages_redelivered_total", "redeliver", "Messages delivered once more"),
    counter("queue_messages_acked_total", "ack", "Messages acknowledged"),
)
EXCHANGE: Final = (
    counter("exchange_messages_published_total", "publish_in", "Messages published to an exchange"),
    counter("exchange_messages_confirmed_total", "confirm", "Messages confirmed"),
    counter("exchange_messages_unroutable_returned_total", "return_unroutable", "Mandatory messages that came back"),
    counter("exchange_messages_unroutable_dropped_total", "drop_unroutable", "Messages that no queue took"),
)
CHANNEL: Final = (
    gauge("channel_consumers", "consumer_count", "Consumers of a channel"),
    gauge("channel_messages_unacked", "messages_unacknowledged", "Messages delivered and not yet acknowledged"),
    gauge("channel_messages_unconfirmed", "messages_unconfirmed", "Messages published and not yet confirmed"),
    gauge("channel_messages_uncommitted", "messages_uncommitted", "Messages in an open transaction"),
    gauge("channel_acks_uncommitted", "acks_uncommitted", "Acknowledgements in an open transaction"),
    gauge("consumer_prefetch", "prefetch_count", "Limit of unacknowledged messages of each new consumer"),
    gauge("channel_prefetch", "global_prefetch_count", "Limit of unacknowledged messages of the channel"),
)
CHANNEL_EXCHANGE: Final = (
    counter("channel_messages_published_total", "publish", "Messages published on channels"),
    counter("channel_messages_confirmed_total", "confirm_count", "Messages confirmed on channels"),
    counter("channel_messages_unroutable_returned_total", "return_unroutable", "Mandatory messages that came back"),
    counter("channel_messages_unroutable_dropped_total", "drop_unroutable", "Messages that no queue took"),
)
CHANNEL_QUEUE: Final = (
    counter("channel_get_ack_total", "get", "Messages got, to be acknowledged"),
    counter("channel_get_total", "get_no_ack", "Messages got without acknowledgement"),
    counter("channel_get_empty_total", "get_empty", "Gets that found the queue empty"),
    counter("channel_messages_delivered_ack_total", "deliver", "Messages delivered, to be acknowledged"),
    counter("channel_messages_delivered_total", "deliver_no_ack", "Messages delivered without acknowledgement"),
    counter("channel_messages_redelivered_total", "redeliver", "Messages delivered once more"),
    counter("channel_messages_acked_total", "ack", "Messages acknowledged"),
)
CONNECTION_COARSE: Final = (
    counter("connection_incoming_bytes_total", "recv_oct", "Octets received"),
    counter("connection_outgoing_bytes_total", "send_oct", "Octets sent"),
)
CONNECTION: Final = (
    counter("connection_incoming_packets_total", "recv_cnt", "Reads of sockets"),
    counter("connection_outgoing_packets_total", "send_cnt", "Writes to sockets"),
    gauge("connection_pending_packets", "send_pend", "Octets that wait to be sent"),
    gauge("connection_channels", "channels", "Channels of a connection"),
)
GLOBAL: Final = (
    counter("messages_received_total", "publish", "Messages received from publishers"),
    counter("messages_received_confirm_total", "publish_confirm", "Messages received in confirm mode"),
    counter("messages_routed_total", "routed", "Messages put into queues, once for each"),
    counter("messages_unroutable_dropped_total", "drop_unroutable", "Messages that no queue took"),
    counter("messages_unroutable_returned_total", "return_unroutable", "Mandatory messages that came back"),
    counter("messages_confirmed_total", "confirm", "Messages confirmed"),
    gauge("publishers", "publishers", "Channels that have published"),
    gauge("consumers", "consumers", "Consumers that are subscribed"),
)
GLOBAL_BY_TYPE: Final = (
    counter("messages_delivered_consume_manual_ack_total", "deliver", "Messages delivered, to be acknowledged"),
    counter("messages_delivered_consume_auto_ack_total", "deliver_no_ack", "Messages delivered, acknowledged at once"),
    counter("messages_delivered_get_manual_ack_total", "get", "Messages got, to be acknowledged"),
    counter("messages_delivered_get_auto_ack_total", "get_no_ack", "Messages got without acknowledgement"),
    counter("messages_get_empty_total", "get_empty", "Gets that found the queue empty"),
    counter("messages_redelivered_total", "redeliver", "Messages delivered once more"),
    counter("messages_acknowledged_total", "ack", "Messages acknowledged"),
)
DEAD_LETTERS: Final = {
    "maxlen": "over a length limit", "expired": "expired", "rejected": "rejected",
    "delivery_limit": "delivered too often",
}  # fmt: skip
AT_MOST_ONCE: Final = "at_most_once"
AT_LEAST_ONCE: Final = "at_least_once"
STRATEGIES: Final = ("disabled", AT_MOST_ONCE, AT_LEAST_ONCE)
#: The texts of the buckets that the overview asks for.
SIZE_BUCKETS: Final = ("100.0", "1000.0", "10000.0", "100000.0", "1e+06", "1e+07", "5e+07", "1e+08", "+Inf")
#: Of each worker of a node that has several.
WORKER: Final = (
    gauge("connections", "connections", "Connections that are open at a worker"),
    gauge("channels", "channels", "Channels that are open at a worker"),
    gauge("consumers", "consumers", "Consumers of the queues of a worker"),
    gauge("queues", "queues_here", "Queues that live at a worker"),
    gauge("messages", "messages", "Messages in the queues of a worker"),
    gauge("memory_used", "memory_used", "Memory of messages at a worker"),
    gauge("memory_budget", "memory_budget", "What the memory of messages at a worker is held to just now"),
    counter("received_bytes_total", "recv_oct", "Octets that a worker has had from clients"),
    counter("sent_bytes_total", "send_oct", "Octets that a worker has sent to clients"),
    counter("connections_moved_total", "connection_moved", "Connections that came to a worker from another one"),
    counter("hops_out_total", "hops_out", "Commands of a worker to classic queues that live at others"),
    counter("hops_in_total", "hops_in", "Commands of others to the classic queues of a worker"),
)
#: The same, of what its process uses of the machine (web/machine.py).
WORKER_PROCESS: Final = (
    gauge("resident_memory_bytes", "resident_bytes", "Memory of a worker's process, with what it shares with others"),
    gauge("open_fds", "descriptors", "Open file descriptors of a worker"),
    gauge("threads", "threads", "Threads of a worker"),
    counter("cpu_seconds_total", "cpu_seconds", "Processor time of a worker"),
)
#: The texts of buckets, seconds, whose counts the node has (amqp_broker/turn/histogram.py).
TURN_BUCKETS: Final = ("0.0005", "0.001", "0.002", "0.005", "0.01", "0.02", "0.1", "0.5", "+Inf")
SYNC_BUCKETS: Final = ("0.0001", "0.0005", "0.001", "0.002", "0.005", "0.01", "0.05", "0.1", "0.5", "1.0", "+Inf")
DELAY_BUCKETS: Final = ("0.001", "0.002", "0.005", "0.01", "0.02", "0.05", "0.1", "0.2", "0.5", "1.0", "+Inf")
OWN: Final = (
    gauge("journal_bytes", "journal_bytes", "Size of the journal"),
    gauge("unsynced_bytes", "unsynced_bytes", "What was written and is not yet synced"),
    gauge("memory_used", "memory_used", "Memory of messages"),
    gauge("memory_budget", "memory_budget", "What the memory of messages is held to"),
    gauge("memory_assembling", "memory_assembling", "Memory of messages that are on their way in"),
    counter("pages_stored_total", "pages_stored", "Pages of messages written to the disk"),
    counter("pages_loaded_total", "pages_loaded", "Pages of messages read from the disk"),
    gauge("delayed_messages", "messages_delayed", "Messages that exchanges hold back"),
    gauge("publishers_blocked", "publishers_blocked", "Connections whose publishing waits: memory, disk, or a backlog"),
    gauge("leased_messages", "messages_leased", "Messages that are leased"),
)


def type_label(queue_type: str) -> str:
    """RabbitMQ's name of a type of queue, as its label `queue_type` has it."""
    return f"rabbit_{queue_type}_queue"

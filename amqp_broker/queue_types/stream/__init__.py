"""Stream queues: an append-only log that many read by offset (docs/streams.md)."""

"""Streams: logs that many read by offset. The part that knows no node: octets, files, state."""

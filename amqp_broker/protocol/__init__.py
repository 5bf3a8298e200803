"""The AMQP 0-9-1 codec: octets to values and back. It knows no broker, no socket and no clock."""

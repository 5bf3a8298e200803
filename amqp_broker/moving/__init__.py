"""Messages moved from a queue to other places, and dead letters back to where they came from, by an AMQP client."""

"""Classic queues across nodes: those of others used here, and the other way round."""

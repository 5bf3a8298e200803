"""Queue groups as a node has them: the log of many queues, its members, guests and dead letters."""

"""Classic queues: each lives on one node, its home; other nodes reach it through a RemoteQueue."""

"""The Spark connector: queues as Spark streams, snapshots and sinks, under the format name "amqp".

A streaming read is built on the broker's lease groups (docs/leases.md): what a batch reads is moved, in order, from
the queue into a log of the group, and a Spark offset is a position in it. So the rows between two offsets are the
same whoever asks and however often, and nothing is settled before Spark has written that the batch is done.

The package knows the broker's wire and verbs, through `amqp_broker.client`, and nothing of its inside. Users name the
format; `pyspark_amqp` makes Spark find it.
"""

"""What all nodes of a cluster agree on: commands, the state they make, its snapshots."""

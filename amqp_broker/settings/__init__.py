"""What a node is told before it starts: settings, their kinds, where they come from."""

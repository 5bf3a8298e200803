"""What a connection says, and when it is not read."""

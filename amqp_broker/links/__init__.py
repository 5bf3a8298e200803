"""Links between nodes: the handshake, frames, and who is known."""

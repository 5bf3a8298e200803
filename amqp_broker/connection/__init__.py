"""One client's connection: handshake, frames in and out, heartbeats, closing. It knows no socket and no clock."""

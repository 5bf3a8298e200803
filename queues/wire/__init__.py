"""What queue groups and streams write: octets of commands, their batches, and who reads them."""

"""The metadata group at work, all inputs of Raft, and who is a member."""

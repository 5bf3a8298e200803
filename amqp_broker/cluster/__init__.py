"""What a cluster agrees on: the metadata machine, its commands and what it holds. Pure."""

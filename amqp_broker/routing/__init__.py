"""A virtual host at run time, and the ways of its messages."""

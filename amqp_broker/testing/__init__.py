"""A broker, or a cluster of them, inside somebody's tests."""

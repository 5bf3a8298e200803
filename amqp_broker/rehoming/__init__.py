"""The home of a classic queue changes: its messages are brought to another node or worker, and then it lives there."""

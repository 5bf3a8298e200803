"""Replication: groups of members that agree on a log, over the state of a pinned pysyncobj.

The public face is raft/host.py (RaftHost), raft/group.py (Group), raft/machine.py (Machine, LogPort) and
raft/settings.py (RaftSettings). Nothing outside this package knows pysyncobj.
"""

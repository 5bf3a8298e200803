"""Compiled classes cannot be changed: the tests that turn rules of Raft off run without the compiled modules."""

from __future__ import annotations

import raft.host

#: What pytest leaves out here.
collect_ignore = [] if raft.host.__file__.endswith(".py") else ["test_group_bites.py"]

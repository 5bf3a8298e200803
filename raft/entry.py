"""An entry of a group's log: (data, index, term, kind).

The first three stand where pysyncobj's journals have them. A plain tuple, because there may be hundreds of
thousands of them.
"""

from __future__ import annotations

Entry = tuple[bytes, int, int, int]

# The kinds are pysyncobj's _COMMAND_TYPE.
REGULAR = 0
NO_OP = 1
MEMBERSHIP = 2
KINDS = (REGULAR, NO_OP, MEMBERSHIP)
#: In the journal alone: a REGULAR one of which some lies elsewhere (Placer in raft/machine.py).
PLACED = 3

#: What an entry is taken to cost in RAM besides its data.
ENTRY_OVERHEAD_BYTES = 200

#: Terms and indexes fit into 63 bits, so that sums of them fit into 64.
MAX_NUMBER = (1 << 63) - 1

"""State: those of a connection.

    AWAIT_HEADER -> STARTING -> OPEN -> CLOSING -> ENDING -> CLOSED
        CLOSING: we said connection.close and await its answer; all else is passed over
        ENDING:  the last is said, such as close-ok; what comes is discarded until the client closes the transport
        CLOSED:  the driver closes the transport: our half when the output is written, or all of it (`is_abandoned`)
"""

from __future__ import annotations

AWAIT_HEADER = 0
STARTING = 1
OPEN = 2
CLOSING = 3
ENDING = 4
CLOSED = 5

cimport cython
from amqp_broker.flow.clients cimport Clients
from amqp_broker.flow.output cimport Output
from amqp_broker.flow.pauses cimport Pauses
from amqp_broker.protocol.content cimport ContentScanner
from amqp_broker.turn.clock cimport TurnClock

cdef int _HANDLING
cdef Py_ssize_t _HELD_BYTES

cdef class Client:
    # What receive and deliver touch first.
    cdef public int state
    cdef public int paused_for
    cdef public Output output
    cdef public Py_ssize_t frame_max
    cdef public Py_ssize_t payload_max
    cdef public Py_ssize_t output_limit
    cdef public Py_ssize_t unsent_bytes
    cdef public long long received_bytes
    cdef public long long sent_bytes
    cdef public bint is_dirty
    cdef public bint is_held
    cdef public bint is_writable
    cdef public bint is_starved
    cdef public bint has_published
    cdef public int trailing
    cdef public bint is_paused
    cdef public Pauses pauses
    cdef public Clients clients
    cdef public TurnClock clock
    cdef public ContentScanner scanner
    cdef public object config
    cdef public object peer
    cdef public long long number
    cdef public object session
    cdef public object declarer
    cdef public dict homes
    cdef public object late_cancels
    cdef public object steered

    cpdef int touch(self) except -1
    cpdef int touch_with_delivery(self) except -1
    @cython.locals(output=Output)
    cpdef bint has_room(self) except -1
    cpdef int starve(self) except -1
    cpdef int record_elsewhere(self, list groups, list homes, object message) except -1

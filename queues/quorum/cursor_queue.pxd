# C types of cursor_queue.py.
cimport cython
from queues.consumer cimport Consumer
from queues.message cimport Entry, Message, make_entry
from queues.quorum.consumer cimport QuorumConsumer
from queues.quorum.cursor_ready cimport CursorReady
from queues.quorum.queue cimport QuorumQueue

cdef class CursorQueue(QuorumQueue):
    cdef public unsigned long long stream_id
    cdef public CursorReady place

    cpdef int apply_settings(self, object settings) except -1
    cpdef bint accept(self, Message message, long long now) except -1
    cpdef int dispatch(self, long long now) except -1
    @cython.locals(message=Message, taker=QuorumConsumer)
    cpdef Py_ssize_t give(self, Entry entry, Consumer consumer, long long now) except -1
    @cython.locals(message=Message)
    cpdef int bury(self, Entry entry, object reason) except -1
    cpdef int forget(self, Entry entry) except -1
    cpdef void normalise(self, long long clock) except *
    @cython.locals(due="long long")
    cpdef long long due_without_delivery_owners(self, long long clock) except *

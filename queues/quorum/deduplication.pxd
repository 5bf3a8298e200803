cimport cython
from queues.wire.traffic cimport Enqueue

@cython.final
cdef class Deduplication:
    cdef public dict producers
    cdef public dict window

    cpdef bint knows(self, Enqueue command, long long clock) except -1
    cpdef void remember(self, Enqueue command, object settings, long long clock) except *

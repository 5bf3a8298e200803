cimport cython

@cython.final
cdef class Outbox:
    cdef readonly dict frames
    cdef bint _is_stopped

    cpdef void put(self, str peer, bytes frame) except *
    cpdef void drop(self, str peer) except *
    cpdef void stop(self) except *
    cpdef list take(self)

from queues.pager cimport Pager

cdef class Places:
    cdef public long long exports
    cdef public long long named_bytes
    cdef public long long dead_bytes
    cdef Pager _pager
    cdef dict _named
    cdef dict _unnamed
    cdef object _beginning
    cdef object _retiring

    cpdef bint are_worth_a_checkpoint(self) except -1
    cpdef void collect(self) except *
    cpdef void end_turn(self, long long position) except *
    cpdef list synced(self, long long position, object known, object dropped)

cimport cython

@cython.final
cdef class Progress:
    cdef public object state
    cdef public long long next_index
    cdef public long long match_index
    cdef public bint is_probing
    cdef int _beats_since_probe
    cdef public long long in_flight_bytes
    cdef public long long told_commit_index
    cdef public long long replied_at
    cdef public bint is_connected
    cdef public bint is_needed
    cdef public object install
    cdef public double lag_ms
    cdef object _in_flight

    @cython.locals(is_news=bint, size="long long", sent_at="long long")
    cpdef bint matched(self, long long index, long long clock) except -1
    cpdef int sent(self, long long last_index, long long size, long long clock) except -1
    cpdef int probe(self, long long next_index) except -1

cimport cython

@cython.final
cdef class TurnClock:
    cdef public long long now

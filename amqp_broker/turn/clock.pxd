cimport cython

@cython.final
cdef class TurnClock:
    cdef public long long now

    cpdef void set(self, long long now) noexcept

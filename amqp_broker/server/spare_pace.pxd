# C types of spare_pace.py.
cimport cython

cdef double _BUSY, _PERIOD_S

@cython.final
cdef class SparePace:
    cdef readonly bint is_over
    cdef double _share
    cdef double _limit_s
    cdef object _clock
    cdef double _others_spoke_at
    cdef double _others_s
    cdef double _own_s
    cdef double _period_began
    cdef double _began
    cdef bint _are_others_busy
    cdef double _left_s
    cdef long _slices

    cpdef void others_took(self, double seconds) except *
    @cython.locals(now=double, passed=double)
    cpdef void start(self) except *
    @cython.locals(now=double)
    cpdef bint goes_on(self) except -1
    cpdef void end(self) except *

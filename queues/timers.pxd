cimport cython
@cython.final
cdef class Timers:
    cdef list _heap
    cdef long long _count

    cpdef object next_deadline(self)

cimport cython

cdef Py_ssize_t _SPARE

@cython.final
cdef class Timer:
    cdef Timers _timers
    cdef object _callback

@cython.final
cdef class Timers:
    cdef list _heap
    cdef long long _count
    cdef Py_ssize_t _cancelled

    cpdef drop_cancelled(self)
    cpdef object next_deadline(self)

# C types of marks.py.
cimport cython

cdef Py_ssize_t _MOST

@cython.final
cdef class Step:
    cdef readonly long long octets
    cdef readonly long long time

cdef class Marks:
    cdef public long long octets
    cdef public list marks

    @cython.locals(before="long long", last_octets="long long", last_time="long long", marks=list)
    cpdef bint add(self, unsigned long long offset, long long time, long long octets, Step step) except -1

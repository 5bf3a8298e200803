# C types of histogram.py.
cimport cython

@cython.locals(shift="unsigned int")
cdef unsigned int slot_of(unsigned long long value) noexcept nogil

@cython.final
cdef class Histogram:
    cdef unsigned long long counts[7296]
    cdef readonly unsigned long long total
    cdef readonly long long highest
    cdef long long last_value
    cdef unsigned int last_slot

    cpdef void record(self, long long value) noexcept nogil

    @cython.locals(slot=Py_ssize_t)
    cpdef void add(self, Histogram other) except *

    @cython.locals(slot=Py_ssize_t)
    cpdef void subtract(self, Histogram earlier) except *

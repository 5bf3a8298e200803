# C types of histogram.py.
cimport cython

cdef class Histogram:
    cdef readonly tuple bounds
    cdef readonly list counts
    cdef readonly double sum

    @cython.locals(place=Py_ssize_t, bound=double)
    cpdef void add(self, double value) except *

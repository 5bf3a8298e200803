# C types of disk.py.
cimport cython

@cython.final
cdef class _Descriptor:
    cdef public int number
    cdef public int users
    cdef public bint is_dirty
    cdef public bint is_cached

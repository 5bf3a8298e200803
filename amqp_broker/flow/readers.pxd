cimport cython

@cython.final
cdef class Readers:
    cdef public bint is_shut
    cdef public list changed
    cdef public dict publishers
    cdef object _node
    cdef public dict held
    cdef bint _all_wait
    cdef object _home_backlog
    cdef public bint is_alarmed
    cdef list _told
    cdef bint _is_letting_in

cimport cython

cdef int _OUTPUT, _GATE, _REPLIES, _HANDLING, _CLOSING, _CLOSED

@cython.final
cdef class Pauses:
    cdef public bint is_shut
    cdef public list changed
    cdef public list reading
    cdef public dict publishers
    cdef public dict held
    cdef public object notify
    cdef object _background
    cdef bint _all_wait
    cdef object _home_backlog
    cdef public bint is_alarmed
    cdef list _told
    cdef dict _untold
    cdef bint _is_letting_in

    @cython.locals(reading=list)
    cpdef list take_reading(self)

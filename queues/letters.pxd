cimport cython
from queues.message cimport Entry

cdef Py_ssize_t _WINDOW, _WINDOW_BYTES, _MOST_NOTED, _LETTER_COST, _COPY_COST

@cython.final
cdef class Letters:
    cdef public object queue
    cdef public object post
    cdef public object noted
    cdef public bint is_blocked
    cdef Py_ssize_t _published
    cdef dict _under_way
    cdef long long _under_way_bytes
    cdef object _again

    cpdef int add(self, Entry entry, object reason, bint is_published) except -1
    @cython.locals(entry=Entry, is_published=bint)
    cpdef Py_ssize_t work(self, Py_ssize_t left, long long now) except? -1
    @cython.locals(copies=Py_ssize_t)
    cpdef Py_ssize_t post_now(self, Entry entry, object reason, long long now) except? -2
    cdef bint _is_window_full(self) except -1
    cpdef int done(self, Entry entry, bint is_lost, long long now) except -1

cimport cython
from queues.consumer cimport Consumer

@cython.final
cdef class Dispatcher:
    cdef public list consumers
    cdef public bint is_single_active
    cdef public Consumer active
    cdef Consumer _first
    cdef dict _lines

    cpdef void add(self, Consumer consumer) except *
    cpdef int remove(self, Consumer consumer) except -1
    @cython.locals(consumer=Consumer)
    cpdef Consumer next(self)
    cpdef bint credit_returned(self, Consumer consumer) except -1
    @cython.locals(first=Consumer)
    cdef void _enter(self, Consumer consumer) except *
    cdef object _line(self, int priority)
    cdef int _leave(self, Consumer consumer) except -1
    @cython.locals(best=Consumer, consumer=Consumer)
    cdef Consumer _successor(self)

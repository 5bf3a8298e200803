cimport cython
from queues.consumer cimport Consumer

@cython.final
cdef class Line:
    cdef public int priority
    cdef public Consumer first

    @cython.locals(first=Consumer, last=Consumer)
    cdef void append(self, Consumer consumer) except *
    @cython.locals(before=Consumer, after=Consumer)
    cdef void remove(self, Consumer consumer) except *

@cython.locals(line=Line)
cdef void _join(list lines, Consumer consumer) except *
@cython.locals(line=Line)
cdef void _part(list lines, Consumer consumer) except *

@cython.locals(line=Line)
cdef void _join_first(list lines, Consumer consumer) except *

@cython.final
cdef class Dispatcher:
    cdef public dict consumers
    cdef public bint is_single_active
    cdef public Consumer active
    cdef Consumer _first
    cdef list _lines
    cdef list _standing_by

    cpdef void add(self, Consumer consumer) except *
    cpdef int remove(self, Consumer consumer) except -1
    cpdef Consumer first(self)
    @cython.locals(consumer=Consumer, line=Line, lines=list)
    cpdef Consumer next(self)
    cpdef bint credit_returned(self, Consumer consumer) except -1
    @cython.locals(active=Consumer, line=Line)
    cpdef bint is_outranked(self) except -1
    cpdef void pause(self) except *
    @cython.locals(active=Consumer, successor=Consumer)
    cpdef void give_way(self) except *
    @cython.locals(first=Consumer)
    cdef void _enter(self, Consumer consumer) except *
    @cython.locals(last=Consumer)
    cdef int _leave(self, Consumer consumer) except -1
    @cython.locals(consumer=Consumer)
    cdef Consumer _successor(self)

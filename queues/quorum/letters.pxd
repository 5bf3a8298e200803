cimport cython
from queues.message cimport Entry, Message, make_entry
from queues.pager cimport Pager
from queues.ready cimport Ready

cdef object _NOTHING

@cython.final
cdef class Letters:
    cdef public Pager pager
    cdef public unsigned long long queue_id
    cdef public Ready waiting
    cdef public object transit
    cdef public unsigned long long next_letter

    @cython.locals(entry=Entry, letter="unsigned long long", facts="long long")
    cpdef Entry add(self, Message message, int reason, unsigned int delivery_count)
    cpdef int put_in_transit(self, Entry entry) except -1
    cdef int _forget(self, Entry entry) except -1

cimport cython
from queues.consumer cimport Consumer
from queues.message cimport Entry

cdef class QuorumConsumer(Consumer):
    cdef public str origin
    cdef public unsigned long long consumer_id
    cdef public unsigned int prefetch
    cdef public Py_ssize_t credit_limit
    cdef public bint is_exclusive
    cdef public str tag
    cdef public bint is_getter
    cdef public bint is_attached
    cdef public unsigned long long next_delivery
    cdef public dict held

    cpdef void set_prefetch(self, unsigned int prefetch)
    cpdef bint has_credit(self)
    @cython.locals(delivery_id="unsigned long long")
    cpdef unsigned long long hold(self, Entry entry, long long clock) except 0
    @cython.locals(held=dict, entries=list, first="unsigned long long", last="unsigned long long",
                   count="unsigned long long", before="unsigned long long", offset="unsigned long long", found=tuple)
    cpdef tuple take(self, tuple ranges)
    cpdef list take_all(self)
    cpdef long long held_since(self) except? -1

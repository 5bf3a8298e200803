from queues.message cimport Entry
from queues.numbered_consumer cimport NumberedConsumer

cdef class QuorumConsumer(NumberedConsumer):
    cdef public str origin
    cdef public unsigned long long consumer_id
    cdef public unsigned int prefetch
    cdef public Py_ssize_t credit_limit
    cdef public bint is_exclusive
    cdef public str tag
    cdef public bint is_getter
    cdef public bint is_attached

    cpdef void set_prefetch(self, unsigned int prefetch)
    cpdef bint has_credit(self) except -1
    cpdef unsigned long long hold(self, Entry entry, long long clock) except 0
    cpdef long long held_since(self) except? -1
